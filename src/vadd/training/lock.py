"""One training at a time in a run directory."""

import errno
import os
import sys
from pathlib import Path
from time import sleep
from types import TracebackType

from vadd.errors import UserError
from vadd.training.display import warn

TRIES, PAUSE = 6, 0.1
"""A lock that is taken is tried so often, with so many seconds in between: somebody who looks whether a training runs
(:func:`vadd.overview.is_locked`) holds it for a moment, another training for long.
"""
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""What the operating system says of a lock that somebody else holds."""


class RunLock:
    """Held by the operating system for this process: it ends with the process, however that ends.

    The file itself stays; removing it would let two trainings hold a lock of the same name.
    """

    NAME = "training.lock"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._descriptor: int | None = None

    def __enter__(self) -> "RunLock":
        descriptor = os.open(self.directory / self.NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def _take(self, descriptor: int) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                _lock(descriptor)
                return
            except OSError as error:
                if error.errno not in TAKEN:
                    warn(f"{self.directory} is on a file system without locks; let no other training run in it")
                    return
            if tries_left:
                sleep(PAUSE)
        raise UserError(f"another training is running in {self.directory}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
