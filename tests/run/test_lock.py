"""One training at a time in a directory; the lock ends with its process."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.helpers.children import CONTEXT
from vadd.errors import UserError
from vadd.run import lock
from vadd.run.lock import LOCK, RunLock

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.02)
    monkeypatch.setattr(lock, "PAUSE", 0.01)


def hold(path: Path, taken: Path) -> None:
    with RunLock(path):
        taken.touch()
        time.sleep(600)


@pytest.mark.usefixtures("impatient")
def test_a_second_training_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    with first:
        with pytest.raises(UserError, match=f"another training is running in {tmp_path}"):
            second.__enter__()
        assert first.is_held()
        assert second.is_held()
    with second:
        assert first.is_held()
    assert (first.is_held(), second.is_held()) == (False, False)


def test_looking_changes_nothing(tmp_path: Path) -> None:
    assert RunLock(tmp_path).is_held() is False
    assert list(tmp_path.iterdir()) == []
    with RunLock(tmp_path) as held:
        before = (tmp_path / LOCK).stat()
        assert held.is_held()
        assert held.is_held(), "looking does not end what it sees"
        assert (tmp_path / LOCK).stat() == before


def test_somebody_who_looks_does_not_keep_a_training_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One who looks, as ``vadd status`` does, holds the lock at the first tries and is gone at a later one."""
    monkeypatch.setattr(lock, "PATIENCE", 60)
    monkeypatch.setattr(lock, "PAUSE", 0.01)
    tries: list[float] = []
    looking = FileLock(tmp_path / LOCK, thread_local=False)
    undisturbed = time.sleep

    def pause(seconds: float) -> None:
        tries.append(seconds)
        if len(tries) == 3:
            looking.release()
        undisturbed(seconds)

    looking.acquire()
    monkeypatch.setattr(time, "sleep", pause)
    with RunLock(tmp_path) as held:
        assert len(tries) == 3
        assert held.is_held()
    assert held.is_held() is False


def test_an_interruption_between_two_tries_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    opened: list[int] = []
    undisturbed = os.open

    def open_(*arguments: Any) -> int:
        opened.append(undisturbed(*arguments))
        return opened[-1]

    with RunLock(tmp_path):
        monkeypatch.setattr(time, "sleep", interrupt)
        monkeypatch.setattr(os, "open", open_)
        with pytest.raises(KeyboardInterrupt):
            RunLock(tmp_path).__enter__()
        assert opened
        for descriptor in opened:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)
    assert RunLock(tmp_path).is_held() is False


@pytest.mark.usefixtures("impatient")
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
    assert RunLock(tmp_path).is_held() is False
    with RunLock(tmp_path) as mine:
        assert mine.is_held()


def test_a_file_system_without_locks_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunLock(tmp_path) as held:
        assert "without locks" in capsys.readouterr().err
        assert held.is_held() is None
