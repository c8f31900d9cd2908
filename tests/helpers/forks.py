"""Commands in forks of this process: each starts at once, may take only so much memory and time, and harms nobody."""

import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import vadd
from tests.helpers.commands import Finished

MEMORY = 3 << 29
"""Bytes beyond those that this process has."""
SECONDS, PATIENCE = 20, 600
"""Of the processor, and of the clock for a process that waits."""


def forked(*arguments: object, limits: Mapping[int, int] | None = None) -> Finished:
    """``vadd`` with these arguments, under further ``limits`` of :mod:`resource`; a negative code is the signal that
    ended it. All that was said is in ``err``.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be(writing, arguments, limits or {})
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return Finished(os.waitstatus_to_exitcode(status), "", said.decode(errors="replace"))


def import_everything() -> None:
    """Here, so that the forks need not do it each for itself."""
    for module in pkgutil.walk_packages(vadd.__path__, "vadd."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _be(descriptor: int, arguments: tuple[object, ...], limits: Mapping[int, int]) -> None:
    from vadd.cli import main

    code = 1
    gc.disable()  # a collection touches every object, and so copies the whole memory of the parent
    try:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        own = {resource.RLIMIT_AS: size + MEMORY, resource.RLIMIT_CPU: SECONDS}
        for kind, most in {**own, **limits}.items():
            resource.setrlimit(kind, (most, resource.RLIM_INFINITY))
        signal.alarm(PATIENCE)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["vadd", *map(str, arguments)]
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
