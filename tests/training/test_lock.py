"""One training at a time in a directory; the lock ends with its process."""

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from tests.training.children import CONTEXT
from vadd.errors import UserError
from vadd.training.lock import RunLock


def hold(path: Path, taken: Path) -> None:
    with RunLock(path):
        taken.touch()
        time.sleep(600)


def test_a_second_training_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(UserError, match=f"another training is running in {tmp_path}"):
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass


def test_the_lock_of_a_process_that_was_killed_is_gone(tmp_path: Path) -> None:
    process = CONTEXT.Process(target=hold, args=(tmp_path, tmp_path / "taken"))
    process.start()
    while not (tmp_path / "taken").exists():
        assert process.is_alive()
        time.sleep(0.01)
    with pytest.raises(UserError, match="another training"):
        RunLock(tmp_path).__enter__()
    process.kill()
    process.join()
    with RunLock(tmp_path):
        pass


def test_a_file_system_without_locks_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunLock(tmp_path):
        assert "without locks" in capsys.readouterr().err
