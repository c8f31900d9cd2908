"""Commands in forks of this process: each starts at once, may take only so much memory and time, and harms nobody."""

import os
import resource
import sys
import traceback
from pathlib import Path

from tests.helpers.commands import Finished

MEMORY = 3 << 29
"""Bytes beyond those that this process has."""
SECONDS = 20


def forked(*arguments: object) -> Finished:
    """``vadd`` with these arguments; a negative code is the signal that ended it. All that was said is in ``err``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be(writing, arguments)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return Finished(os.waitstatus_to_exitcode(status), "", said.decode(errors="replace"))


def _be(descriptor: int, arguments: tuple[object, ...]) -> None:
    from vadd.cli import main

    code = 1
    try:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, resource.RLIM_INFINITY))
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
