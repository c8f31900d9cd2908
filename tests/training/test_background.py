"""Checkpoints are written while the training goes on: whole, of their own step, one at a time; errors are raised."""

import threading
from pathlib import Path

import pytest

from tests.helpers.runs import assert_same_state
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import Objective
from vadd.run import checkpoint
from vadd.run.checkpoint import TrainingState, read_checkpoint
from vadd.run.directory import RunDirectory
from vadd.training import loop
from vadd.training.loop import Trainer

PATIENCE = 60
SAVING = (
    "training.steps=20",
    "training.checkpoint_every=5",
    "training.evaluate_every=1000",
    "training.keep_checkpoints=9",
    "training.trackers=[]",
)


def before_step(monkeypatch: pytest.MonkeyPatch, told: "list[int] | threading.Event", at: int = 0) -> None:
    """A list gets the number of every step; an event is set as the step ``at`` begins."""
    undisturbed = Trainer.step

    def step(self: Trainer, number: int) -> Objective:
        if isinstance(told, list):
            told.append(number)
        elif number == at:
            told.set()
        return undisturbed(self, number)

    monkeypatch.setattr(Trainer, "step", step)


def test_steps_are_taken_while_a_checkpoint_of_an_earlier_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, reached = checkpoint.save_tensors, threading.Event()
    assert train_in(tmp_path / "undisturbed", tiny_recipe(*SAVING)).finished
    before_step(monkeypatch, reached, at=8)

    def late(*arguments: object) -> None:
        assert reached.wait(PATIENCE), "the training waits for the checkpoint"
        undisturbed(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "save_tensors", late)
    assert train_in(tmp_path / "run", tiny_recipe(*SAVING)).finished
    for one, other in zip(
        *(RunDirectory(tmp_path / name).checkpoints() for name in ("undisturbed", "run")), strict=True
    ):
        assert_same_state(read_checkpoint(one), read_checkpoint(other))


def test_one_is_written_at_a_time_and_the_last_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed, busy, most = checkpoint.write_checkpoint, threading.Semaphore(1), []

    def slow(directory: Path, state: TrainingState) -> None:
        most.append(busy.acquire(blocking=False))
        threading.Event().wait(0.02)
        undisturbed(directory, state)
        busy.release()

    monkeypatch.setattr(checkpoint, "write_checkpoint", slow)
    assert train_in(tmp_path / "run", tiny_recipe(*SAVING, "training.checkpoint_every=1")).finished
    assert most == [True] * 20
    assert [saved.step for saved in RunDirectory(tmp_path / "run").saved_steps()] == list(range(12, 21))


def test_what_goes_wrong_in_the_background_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    before_step(monkeypatch, taken)

    def broken(directory: Path, state: TrainingState) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(checkpoint, "write_checkpoint", broken)
    with pytest.raises(ZeroDivisionError):
        train_in(tmp_path / "run", tiny_recipe(*SAVING))
    assert 4 <= max(taken) <= 9, "at the next step, and at the latest where the next checkpoint is due"


def test_without_memory_for_a_copy_the_training_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed, begun = checkpoint.save_tensors, []
    taken: list[int] = []
    before_step(monkeypatch, taken)

    def noting(*arguments: object) -> None:
        begun.append(max(taken))
        undisturbed(*arguments)  # type: ignore[arg-type]
        begun.append(max(taken))

    monkeypatch.setattr(checkpoint, "save_tensors", noting)
    monkeypatch.setattr(loop, "available_memory", lambda device: 0)
    assert train_in(tmp_path / "run", tiny_recipe(*SAVING)).finished
    assert begun == [step - 1 for step in (5, 10, 15, 20) for _ in range(6)]
