"""``metrics.jsonl``: whole lines, and none from a future that a resumed run lives through again."""

import errno
import json
import os
from pathlib import Path

import pytest

from vadd.run.directory import RunDirectory
from vadd.run.status import MetricsLog, forget_after, training_seconds


def filled(path: Path, *steps: int) -> Path:
    file = path / "metrics.jsonl"
    log = MetricsLog(file)
    for step in steps:
        log.append({"step": step, "split": "train", "loss": step / 3})
    return file


def steps_in(file: Path) -> list[int]:
    return [json.loads(line)["step"] for line in file.read_text().splitlines()]


def test_lines_come_back_as_they_were_logged(tmp_path: Path) -> None:
    filled(tmp_path, 5, 10)
    records = list(RunDirectory(tmp_path).metrics())
    assert records == [{"step": step, "split": "train", "loss": step / 3} for step in (5, 10)]


def test_a_run_without_metrics_has_none(tmp_path: Path) -> None:
    assert list(RunDirectory(tmp_path).metrics()) == []


def test_what_was_logged_after_the_step_is_forgotten(tmp_path: Path) -> None:
    file = filled(tmp_path, 5, 10, 10, 15)
    forget_after(file, 10)
    assert steps_in(file) == [5, 10, 10]
    assert list(tmp_path.iterdir()) == [file]


def test_a_half_written_last_line_is_forgotten_too(tmp_path: Path) -> None:
    file = filled(tmp_path, 5, 10)
    for cut_off in ('{"step": 10, "split": "te', '{"step": 10, "split": "test"}'):
        with file.open("a") as stream:
            stream.write(cut_off)
        forget_after(file, 10)
        MetricsLog(file).append({"step": 15, "split": "train"})
        assert steps_in(file) == [5, 10, 15]
        forget_after(file, 10)


def test_forgetting_twice_changes_nothing_more(tmp_path: Path) -> None:
    file = filled(tmp_path, 5, 10, 15)
    forget_after(file, 7)
    once = file.read_bytes()
    forget_after(file, 7)
    assert file.read_bytes() == once


def test_there_may_be_nothing_to_forget(tmp_path: Path) -> None:
    forget_after(tmp_path / "metrics.jsonl", 10)
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_one_write_of_a_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    undisturbed = os.write

    def watched(descriptor: int, content: bytes) -> int:
        written.append(content)
        return undisturbed(descriptor, content)

    monkeypatch.setattr(os, "write", watched)
    filled(tmp_path, 5, 10)
    assert [json.loads(line)["step"] for line in written] == [5, 10]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in written)


@pytest.mark.parametrize("room", [None, 0, 10])
def test_lines_that_a_full_disk_refuses_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], room: int | None
) -> None:
    """The disk takes nothing (None: with an error) or the first bytes only, twice; nothing is torn, lost or doubled."""
    file = filled(tmp_path, 5)
    log = MetricsLog(file)
    undisturbed = os.write

    def full(descriptor: int, content: bytes) -> int:
        if room is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return undisturbed(descriptor, content[:room])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for step in (10, 15):
            log.append({"step": step, "split": "train"})
            assert steps_in(file) == [5]
    assert capsys.readouterr().err.count("warning: cannot write to") == 1
    log.append({"step": 20, "split": "train"})
    assert steps_in(file) == [5, 10, 15, 20]


def test_the_seconds_of_training_are_its_steps_over_their_speeds() -> None:
    def line(step: int, speed: float, split: str = "train") -> dict[str, object]:
        return {"step": step, "split": split, "steps_per_second": speed}

    lines = [line(10, 5.0), line(10, 999.0, "test"), line(30, 10.0), line(40, float("nan")), line(50, 2.0)]
    assert training_seconds(lines) == 10 / 5 + 20 / 10 + 10 / 2
    assert training_seconds([]) is None
    assert training_seconds([{"step": 5, "split": "train"}]) is None
