"""One training at a time in a run directory."""

from pathlib import Path

from filelock import FileLock, Timeout

from vadd.errors import UserError
from vadd.progress import warn

LOCK = "training.lock"
PATIENCE, PAUSE = 0.6, 0.1
"""Seconds for which a lock that is taken is tried, and between two tries: a process that looks whether a training runs
holds it for a moment, another training for long.
"""
GLANCE = 0.05
"""Seconds for which a process that looks tries: others may be looking too."""


class RunLock:
    """Held by the operating system for this process: it ends with the process, however that ends.

    The file itself stays; removing it would let two trainings hold a lock of the same name.
    """

    def __init__(self, directory: Path, name: str = LOCK) -> None:
        self.directory, self.name = directory, name
        self._lock = FileLock(directory / name)

    def __reduce__(self) -> "tuple[type[RunLock], tuple[Path, str]]":
        """A copy, which does not hold it."""
        return RunLock, (self.directory, self.name)

    def __enter__(self) -> "RunLock":
        try:
            self._lock.acquire(timeout=PATIENCE, poll_interval=PAUSE)
        except Timeout:
            raise UserError(f"another training is running in {self.directory}") from None
        except (NotImplementedError, OSError):
            # A missing directory is an error of the caller; anything else means that locks do not work here.
            if not self.directory.is_dir():
                raise
            warn(f"{self.directory} is on a file system without locks; let no other training run in it")
        return self

    def __exit__(self, *failure: object) -> None:
        self._lock.release()

    def is_held(self) -> bool | None:
        """Whether a training, of this process or another, holds it; None where the file system does not tell."""
        if not (self.directory / self.name).is_file():
            return False
        # Another object on the same file: our own would let this process in a second time.
        looking = FileLock(self.directory / self.name)
        try:
            looking.acquire(timeout=GLANCE, poll_interval=GLANCE / 5)
        except Timeout:
            return True
        except (NotImplementedError, OSError):
            return None
        looking.release()
        return False
