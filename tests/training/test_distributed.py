"""Several processes train as one: the same losses, whole checkpoints, one voice."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import vadd
from tests.helpers.children import together
from tests.helpers.runs import newest
from tests.helpers.tiny import tiny_recipe, train_in, train_or_resume
from vadd.core import Objective
from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.lock import RunLock
from vadd.training.loop import Trainer

BLOCKS = (
    "network.width=16",
    "network.denoiser.blocks=2",
    "network.recognizer.blocks=1",
    "network.dropout=0",
    "latent.dim=3",
)


def mlp(*overrides: str) -> Recipe:
    return tiny_recipe(
        "training.steps=50",
        "training.log_every=1",
        "training.evaluate_every=25",
        "training.clip=1.0",
        "training.trackers=[]",
        "data.test_size=201",  # does not divide by two
        *overrides,
    )


def residual(*overrides: str) -> Recipe:
    """A network with blocks, for sharding them one by one."""
    few = ("training.steps=12", "training.batch=32", "training.log_every=1", "training.evaluate_every=6")
    saved = ("training.checkpoint_every=6", "training.trackers=[]")
    return load_recipe("digits").with_overrides([*BLOCKS, *few, *saved, *overrides])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("alone")
    for name, recipe in {"mlp": mlp(), "residual": residual()}.items():
        assert train_in(path / name, recipe).finished
    return {name: path / name for name in ("mlp", "residual")}


def numbers(path: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in record.items() if key != "steps_per_second"}
        for record in RunDirectory(path).metrics()
    ]


def assert_same_numbers(one: Path, two: Path) -> None:
    """Every logged number to 1e-5, of training and of held-out examples, and as many lines."""
    ours, theirs = numbers(one), numbers(two)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.pop("split") == other.pop("split")
        assert mine == pytest.approx(other, rel=1e-5, abs=1e-5)


def assert_near(one: Path, two: Path, tolerance: float = 1e-4) -> None:
    """The whole state: weights, averages and moments."""
    first, second = newest(one), newest(two)
    assert first.step == second.step
    for ours, theirs in ((first.model, second.model), (first.ema, second.ema), (first.optimizer, second.optimizer)):
        assert ours.keys() == theirs.keys()
        assert all(ours[name].shape == theirs[name].shape for name in ours)
        assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < tolerance


def test_two_processes_train_like_one(alone: dict[str, Path], tmp_path: Path) -> None:
    """Over 50 steps; gradients are summed in another order, nothing else differs."""
    together(2, train_or_resume, tmp_path / "two", mlp())
    assert_same_numbers(tmp_path / "two", alone["mlp"])
    assert_near(tmp_path / "two", alone["mlp"])


def test_two_processes_that_accumulate_train_like_one(alone: dict[str, Path], tmp_path: Path) -> None:
    together(2, train_or_resume, tmp_path / "two", mlp("training.accumulate=2"))
    assert_same_numbers(tmp_path / "two", alone["mlp"])


def test_sharded_weights_train_like_whole_ones_and_are_saved_whole(alone: dict[str, Path], tmp_path: Path) -> None:
    together(2, train_or_resume, tmp_path / "two", residual("training.sharding=full"))
    assert_same_numbers(tmp_path / "two", alone["residual"])
    assert_near(tmp_path / "two", alone["residual"])
    assert vadd.load(tmp_path / "two").sample(3, steps=2).shape == (3, 64)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_sharded_run_goes_on_with_another_number_of_processes(
    alone: dict[str, Path], tmp_path: Path, before: int, after: int
) -> None:
    """Stopped at step 6 by a signal to one process; resumed, and sampled from."""
    path, recipe = tmp_path / "run", residual("training.sharding=full")
    together(before, stopped_training, path, recipe, 5)
    assert newest(path).step == 6
    together(after, train_or_resume, path, recipe)
    assert_near(path, alone["residual"])
    assert_same_numbers(path, alone["residual"])
    assert vadd.load(path).sample(3, steps=2).shape == (3, 64)


def stopped_training(path: Path, recipe: Recipe, at: int) -> None:
    """The last process, and only that one, is told to stop during step number ``at``."""
    undisturbed = Trainer.step

    def stopped(self: Trainer, step: int) -> Objective:
        if step == at and self.processes.index == self.processes.count - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return undisturbed(self, step)

    Trainer.step = stopped  # type: ignore[method-assign]
    train_or_resume(path, recipe)


def test_a_step_that_is_not_finite_in_one_process_is_skipped_in_all(tmp_path: Path) -> None:
    together(2, training_with_an_infinite_loss, tmp_path / "run", mlp("training.steps=6"))
    assert [line["skipped"] for line in numbers(tmp_path / "run") if line["split"] == "train"] == [0, 0, 1, 0, 0, 0]
    state = newest(tmp_path / "run")
    assert {float(value) for name, value in state.optimizer.items() if name.startswith("step/")} == {5.0}
    assert all(bool(weight.isfinite().all()) for weight in state.model.values())


def training_with_an_infinite_loss(path: Path, recipe: Recipe) -> None:
    """Of the last process, at step 2; its gradient is finite."""
    undisturbed = Trainer._backward

    def backward(self: Trainer, step: int, *arguments: Any) -> Objective:
        result = undisturbed(self, step, *arguments)
        if step == 2 and self.processes.index == self.processes.count - 1:
            return Objective(torch.tensor(float("inf")), result.reconstruction, result.kl)
        return result

    Trainer._backward = backward  # type: ignore[method-assign, assignment]
    train_or_resume(path, recipe)


def test_a_batch_that_cannot_be_divided_is_refused_by_every_process(tmp_path: Path) -> None:
    together(2, refused_training, tmp_path / "run", mlp("training.batch=33"))


def refused_training(path: Path, recipe: Recipe) -> None:
    with pytest.raises(UserError, match=r"training\.batch=33 must be divisible by 2 processes"):
        train_or_resume(path, recipe)


def test_a_run_that_is_locked_is_refused_by_every_process(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").create(mlp())
    with RunLock(tmp_path / "run"):
        together(2, locked_out, tmp_path / "run", mlp())
    assert RunDirectory(tmp_path / "run").checkpoints() == []


def locked_out(path: Path, recipe: Recipe) -> None:
    with pytest.raises(UserError, match="another training is running"):
        train_or_resume(path, recipe)
