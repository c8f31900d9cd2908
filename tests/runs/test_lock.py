"""One training at a time in a directory; the lock ends with its process."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.children import CONTEXT
from vadd.errors import UserError
from vadd.runs import lock
from vadd.runs.lock import RunLock
from vadd.runs.status import is_locked

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Between two tries nobody waits; here is how long it would have been."""
    kept: list[float] = []
    monkeypatch.setattr(lock, "sleep", kept.append)
    return kept


def hold(path: Path, taken: Path) -> None:
    with RunLock(path):
        taken.touch()
        time.sleep(600)


def test_a_second_training_is_refused_until_the_first_has_ended(tmp_path: Path, pauses: list[float]) -> None:
    with RunLock(tmp_path):
        with pytest.raises(UserError, match=f"another training is running in {tmp_path}"):
            RunLock(tmp_path).__enter__()
        assert pauses == [lock.PAUSE] * (lock.TRIES - 1)
        assert is_locked(tmp_path)
    pauses.clear()
    with RunLock(tmp_path):
        assert pauses == []


@pytest.mark.parametrize("looks", range(1, lock.TRIES))
def test_somebody_who_looks_does_not_keep_a_training_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """A shared lock, as ``vadd status`` takes it, is there at the first tries and gone at the next."""
    (tmp_path / RunLock.NAME).touch()
    with (tmp_path / RunLock.NAME).open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == looks:
                fcntl.flock(looking, fcntl.LOCK_UN)

        monkeypatch.setattr(lock, "sleep", pause)
        with RunLock(tmp_path):
            assert len(pauses) == looks
            assert is_locked(tmp_path)
    assert is_locked(tmp_path) is False


def test_an_interruption_between_two_tries_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "sleep", interrupt)
    opened: list[int] = []
    undisturbed = os.open

    def open_(*arguments: Any) -> int:
        opened.append(undisturbed(*arguments))
        return opened[-1]

    with RunLock(tmp_path):
        monkeypatch.setattr(os, "open", open_)
        with pytest.raises(KeyboardInterrupt):
            RunLock(tmp_path).__enter__()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened[0])


def test_the_lock_of_a_process_that_was_killed_is_gone(tmp_path: Path, pauses: list[float]) -> None:
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
