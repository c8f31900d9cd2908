"""Commands in forks of this process: they start at once, may take only so much memory and time, and harm nobody."""

import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import vadd
from tests.helpers.commands import Finished

MEMORY = 3 << 29
"""Bytes beyond those that this process has."""
SECONDS, PATIENCE = 20, 600
"""Of the processor, and of the clock for a process that waits."""


Call = Sequence[object]


def forked(*arguments: object, limits: Mapping[int, int] | None = None) -> Finished:
    """``vadd`` with these arguments, under further ``limits`` of :mod:`resource`; a negative code is the signal that
    ended it. All that was said is in ``err``.
    """
    (finished,) = in_forks([arguments], limits=limits)
    return finished


def in_forks(
    calls: Sequence[Call], after_each: Callable[[], object] = lambda: None, limits: Mapping[int, int] | None = None
) -> list[Finished]:
    """Many calls, one after the other in one fork, each with the memory and time that one may take. Where a call ends
    its process, another fork does those that are left.
    """
    finished: list[Finished] = []
    while len(finished) < len(calls):
        finished += _in_a_fork(calls[len(finished) :], after_each, limits or {})
    return finished


def _in_a_fork(calls: Sequence[Call], after_each: Callable[[], object], limits: Mapping[int, int]) -> list[Finished]:
    """Of as many calls as it survived, and of the one that ended it."""
    end = os.urandom(16)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be(writing, calls, after_each, limits, end)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        *ended, rest = stream.read().split(end)
    _, status = os.waitpid(child, 0)
    said = [part.decode(errors="replace") for part in ended]
    finished = [Finished(int(code), "", text) for text, code in zip(said[::2], said[1::2], strict=True)]
    if len(finished) < len(calls):
        finished.append(Finished(os.waitstatus_to_exitcode(status), "", rest.decode(errors="replace")))
    return finished


def import_everything() -> None:
    """Here, so that the forks need not do it each for itself."""
    for module in pkgutil.walk_packages(vadd.__path__, "vadd."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _be(
    descriptor: int,
    calls: Sequence[Call],
    after_each: Callable[[], object],
    limits: Mapping[int, int],
    end: bytes,
) -> None:
    """The child: what each call says, ``end``, its exit code, ``end``."""
    try:
        gc.freeze()  # a collection that touches every object copies the whole memory of the parent
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        for call in calls:
            code = _call(call, limits)
            after_each()
            os.write(descriptor, end + str(code).encode() + end)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _call(arguments: Call, limits: Mapping[int, int]) -> int:
    from vadd.cli import main

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = SECONDS + int(used.ru_utime + used.ru_stime)
    own = {resource.RLIMIT_AS: size + MEMORY, resource.RLIMIT_CPU: seconds}
    for kind, most in {**own, **limits}.items():
        resource.setrlimit(kind, (most, resource.RLIM_INFINITY))
    signal.alarm(PATIENCE)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["vadd", *map(str, arguments)]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code
