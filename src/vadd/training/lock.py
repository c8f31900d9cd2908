"""One training at a time in a run directory."""

import errno
import os
import sys
from pathlib import Path
from types import TracebackType

from vadd.errors import UserError
from vadd.training.display import warn


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
            _lock(descriptor)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                os.close(descriptor)
                raise UserError(f"another training is running in {self.directory}") from None
            warn(f"{self.directory} is on a file system without locks; see to it that no other training runs in it")
        self._descriptor = descriptor
        return self

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
