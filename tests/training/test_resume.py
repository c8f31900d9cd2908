"""Stopped and resumed, a training ends where an undisturbed one does: bit for bit, with the same lines in its log."""

import signal
from pathlib import Path

import pytest
import torch
from accelerate.utils import is_tensorboard_available

from tests.helpers.runs import assert_same_state, log_of, newest
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import Objective
from vadd.errors import UserError
from vadd.recipe import Recipe, build_dataset
from vadd.run.checkpoint import read_weights
from vadd.run.directory import RunDirectory
from vadd.training.loop import Outcome, Trainer, train


class CrashError(Exception):
    """Stands for a power failure: nothing is saved on the way out."""


def disturb(monkeypatch: pytest.MonkeyPatch, at: int, error: type[Exception] | None = None) -> None:
    """Before step number ``at`` send this process Ctrl-C, or raise ``error``."""
    undisturbed = Trainer.step

    def step(self: Trainer, number: int) -> Objective:
        if number == at:
            if error is not None:
                raise error
            signal.raise_signal(signal.SIGINT)
        return undisturbed(self, number)

    monkeypatch.setattr(Trainer, "step", step)


RECIPES = [
    tiny_recipe(),
    tiny_recipe("model=mdlm", "training.optimizer=adamw", "training.weight_decay=0.1"),
    tiny_recipe("latent.particles=1", "training.clip=0.5", "training.ema=0", "training.batch=700", "seed=3"),
    tiny_recipe("network.time_features=8", "diffusion.mask_draw=iid", "diffusion.schedule=cosine"),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=["vadd", "mdlm-adamw", "one-particle-clip-no-ema", "time-iid"])
def test_15_steps_and_15_more_equal_30(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train_in(tmp_path / "whole", recipe).finished
    with monkeypatch.context() as patched:
        disturb(patched, at=14)
        stopped = train_in(tmp_path / "parts", recipe)
    assert (stopped.step, stopped.finished) == (15, False)
    assert newest(tmp_path / "parts").step == 15
    resumed = train(recipe, RunDirectory(tmp_path / "parts"), build_dataset(recipe), resume=True)
    assert (resumed.step, resumed.finished) == (30, True)
    assert_same_state(newest(tmp_path / "whole"), newest(tmp_path / "parts"))
    assert log_of(tmp_path / "whole") == log_of(tmp_path / "parts")


def test_a_crash_after_lines_that_no_checkpoint_covers_neither_doubles_nor_loses_any(
    vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, recipe = tmp_path / "crashed", tiny_recipe()
    with monkeypatch.context() as patched:
        disturb(patched, at=17, error=CrashError)
        with pytest.raises(CrashError):
            train_in(path, recipe)
    assert newest(path).step == 10
    assert max(int(record["step"]) for record in RunDirectory(path).metrics()) == 15
    assert train(recipe, RunDirectory(path), build_dataset(recipe), resume=True).finished
    assert_same_state(newest(vadd_run), newest(path))
    assert log_of(path) == log_of(vadd_run)


def test_stopping_between_two_log_lines_loses_none(
    vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, recipe = tmp_path / "stopped", tiny_recipe()
    for at in (6, 12, 22):
        with monkeypatch.context() as patched:
            disturb(patched, at)
            outcome = (
                train(recipe, RunDirectory(path), build_dataset(recipe), resume=True)
                if path.exists()
                else train_in(path, recipe)
            )
        assert outcome.step == at + 1
    assert train(recipe, RunDirectory(path), build_dataset(recipe), resume=True).finished
    assert_same_state(newest(vadd_run), newest(path))
    places = [[(record["step"], record["split"]) for record in log_of(run)] for run in (vadd_run, path)]
    assert places[0] == places[1]


def test_the_same_seed_gives_the_same_run_and_another_seed_another(vadd_run: Path, tmp_path: Path) -> None:
    train_in(tmp_path / "same", tiny_recipe())
    train_in(tmp_path / "other", tiny_recipe("seed=1"))
    assert_same_state(newest(vadd_run), newest(tmp_path / "same"))
    with pytest.raises(AssertionError):
        assert_same_state(newest(vadd_run), newest(tmp_path / "other"))


def test_the_global_generator_has_no_say(vadd_run: Path, tmp_path: Path) -> None:
    torch.manual_seed(12345)
    train_in(tmp_path / "run", tiny_recipe())
    assert_same_state(newest(vadd_run), newest(tmp_path / "run"))


def test_the_log_has_a_line_for_every_interval_with_all_that_the_report_needs(vadd_run: Path) -> None:
    records = list(RunDirectory(vadd_run).metrics())
    assert [record["step"] for record in records if record["split"] == "train"] == [5, 10, 15, 20, 25, 30]
    assert [record["step"] for record in records if record["split"] == "test"] == [10, 20, 30]
    common = {"step", "split", "loss", "reconstruction", "kl"}
    assert all(common <= record.keys() for record in records if record["split"] in {"train", "test"})
    weights = [record["kl_weight"] for record in records if record["split"] == "train"]
    assert weights == pytest.approx([4 / 6, 1, 1, 1, 1, 1])  # rises over 0.2 * 30 = 6 steps


def test_mdlm_has_no_kl(mdlm_run: Path) -> None:
    records = RunDirectory(mdlm_run).metrics()
    assert {record["kl"] for record in records if record["split"] in {"train", "test"}} == {0.0}


@pytest.mark.parametrize(("keep", "kept"), [(1, [30]), (2, [20, 30]), (9, [10, 20, 30])])
def test_only_the_newest_checkpoints_are_kept(tmp_path: Path, keep: int, kept: list[int]) -> None:
    train_in(tmp_path / "run", tiny_recipe(f"training.keep_checkpoints={keep}"))
    directory = RunDirectory(tmp_path / "run")
    assert directory.checkpoints() == [directory.checkpoint(step) for step in kept]


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_in(tmp_path / "run", tiny_recipe())
    before = (newest(tmp_path / "run"), (tmp_path / "run/metrics.jsonl").read_bytes())
    disturb(monkeypatch, at=30, error=CrashError)
    outcome: Outcome = train(tiny_recipe(), RunDirectory(tmp_path / "run"), build_dataset(tiny_recipe()), resume=True)
    assert (outcome.step, outcome.finished) == (30, True)
    assert_same_state(before[0], newest(tmp_path / "run"))
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before[1]


def test_a_loss_that_is_not_finite_ends_the_training_with_advice(tmp_path: Path) -> None:
    recipe = tiny_recipe("training.learning_rate=1e30", "training.warmup_steps=0")
    with pytest.raises(UserError, match=r"lower training\.learning_rate"):
        train_in(tmp_path / "run", recipe)


def test_tensorboard_gets_a_file_when_it_is_installed(vadd_run: Path) -> None:
    events = [file for file in vadd_run.rglob("*") if "tfevents" in file.name]
    assert bool(events) == is_tensorboard_available()


def test_a_run_without_a_checkpoint_starts_again_and_logs_nothing_twice(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    directory = RunDirectory(tmp_path / "run")
    directory.create(recipe)
    directory.metrics_file.write_text('{"step": 5, "split": "train"}\n{"step": 10, "spl')
    assert train(recipe, directory, build_dataset(recipe), resume=True).finished
    steps = [record["step"] for record in directory.metrics() if record["split"] == "train"]
    assert steps == sorted(set(steps))
    assert all("loss" in record for record in directory.metrics() if record["split"] == "train")


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe().with_overrides(["training.steps=20", "training.checkpoint_every=3", "training.log_every=20"])
    directory = RunDirectory(tmp_path / "run")
    directory.create(recipe)
    undisturbed = Trainer.step

    def poisoned(trainer: Trainer, step: int) -> Objective:
        result = undisturbed(trainer, step)
        if step == 6:
            next(trainer.model.parameters()).data.fill_(float("nan"))
        return result

    monkeypatch.setattr(Trainer, "step", poisoned)
    with pytest.raises(UserError, match=r"not finite at step 9.*step-00000006"):
        train(recipe, directory, build_dataset(recipe))
    assert directory.checkpoints()[-1].name == "step-00000006"
    assert all(weight.isfinite().all() for weight in read_weights(directory.checkpoints()[-1]).values())
