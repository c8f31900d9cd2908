"""A study that is run again picks up what is there: finished runs are kept, interrupted ones continued."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.children import together
from tests.helpers.tiny import tiny_recipe
from vadd.core import Objective
from vadd.errors import Interrupted, UserError
from vadd.recipe import Recipe
from vadd.run.directory import RunDirectory
from vadd.studies.study import Request, study_named
from vadd.studies.trainings import finished_run, trainings_of
from vadd.training.loop import Trainer


def refuse_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Trainer, number: int) -> Objective:
        raise AssertionError("a finished run was trained again")

    monkeypatch.setattr(Trainer, "step", step)


def test_what_is_missing_is_trained_and_then_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = finished_run(tiny_recipe(), tmp_path / "run")
    log = (tmp_path / "run/metrics.jsonl").read_bytes()
    refuse_to_train(monkeypatch)
    second = finished_run(tiny_recipe(), tmp_path / "run")
    assert torch.equal(first.sample(50), second.sample(50))
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == log


@pytest.mark.parametrize("stopped_at", [1, tiny_recipe().training.steps], ids=["first", "last"])
def test_an_interrupted_training_is_told_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    """Also where it was asked in the last step: the study has more to do, and that was to stop."""
    undisturbed = Trainer.step

    def step(self: Trainer, number: int) -> Objective:
        if number == stopped_at - 1:
            signal.raise_signal(signal.SIGTERM)
        return undisturbed(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", step)
        with pytest.raises(Interrupted, match=f"stopped at step {stopped_at}, saved in {tmp_path / 'run'}"):
            finished_run(tiny_recipe(), tmp_path / "run")
    assert RunDirectory(tmp_path / "run").checkpoints()[-1].name == f"step-{stopped_at:08}"
    continued = finished_run(tiny_recipe(), tmp_path / "run")
    whole = finished_run(tiny_recipe(), tmp_path / "whole")
    assert torch.equal(continued.sample(50), whole.sample(50))


def test_a_run_of_another_recipe_is_refused_and_kept(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").create(tiny_recipe())
    with pytest.raises(UserError, match=r"trained with another recipe \(seed was 0, now 1\)"):
        finished_run(tiny_recipe("seed=1"), tmp_path / "run")
    assert RunDirectory(tmp_path / "run").recipe() == tiny_recipe()


def test_what_a_run_writes_and_how_often_is_not_another_recipe_but_its_length_is(tmp_path: Path) -> None:
    first = finished_run(tiny_recipe(), tmp_path / "run")
    again = finished_run(tiny_recipe("training.log_every=1", "training.keep_checkpoints=2"), tmp_path / "run")
    assert torch.equal(first.sample(20), again.sample(20))
    longer = tiny_recipe(f"training.steps={tiny_recipe().training.steps + 1}")
    with pytest.raises(UserError, match=r"another recipe \(training.steps was"):
        finished_run(longer, tmp_path / "run")


def test_a_run_in_bfloat16_is_the_same_recipe_and_stays_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = tiny_recipe("training.precision=bfloat16", "training.accumulate=2", "training.steps=4")
    finished_run(half, tmp_path / "run")
    refuse_to_train(monkeypatch)
    again = finished_run(tiny_recipe("training.steps=4", "sampling.grid=cosine"), tmp_path / "run")
    assert again.recipe.training.precision == "bfloat16"
    assert again.recipe.training.accumulate == 2
    assert again.recipe.sampling.grid == "cosine"


@pytest.mark.parametrize("change", ["model=mdlm", "name=other", "sampling.latent_policy=fixed", "latent.prior=flow"])
def test_changes_that_contradict_the_comparison_are_refused(change: str) -> None:
    with pytest.raises(UserError, match=f"{change} contradicts what is compared"):
        trainings_of(study_named("toys"), Request(out=Path("out"), setting="cpu", overrides=["seed=4", change]))


def only_the_main_process_creates(path: Path, recipe: Recipe) -> None:
    undisturbed = RunDirectory.create

    def create(self: RunDirectory, *arguments: Any, **named: Any) -> None:
        assert os.environ["RANK"] == "0"
        time.sleep(0.2)  # the other process is here by now, and waits
        undisturbed(self, *arguments, **named)

    RunDirectory.create = create  # type: ignore[method-assign]
    assert finished_run(recipe, path).sample(3).shape == (3, 2)


def test_several_processes_make_one_run_and_find_it_again(tmp_path: Path) -> None:
    together(2, only_the_main_process_creates, tmp_path / "run", tiny_recipe("training.steps=4"))
    log = (tmp_path / "run/metrics.jsonl").read_bytes()
    together(2, only_the_main_process_creates, tmp_path / "run", tiny_recipe("training.steps=4"))
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == log


def refused(path: Path, recipe: Recipe) -> None:
    with pytest.raises(UserError, match="trained with another recipe"):
        finished_run(recipe, path)


def test_a_run_of_another_recipe_is_refused_by_every_process(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").create(tiny_recipe())
    together(2, refused, tmp_path / "run", tiny_recipe("seed=1"))
    assert RunDirectory(tmp_path / "run").recipe() == tiny_recipe()


def test_both_models_share_everything_but_the_model() -> None:
    request = Request(out=Path("out"), setting="cpu", overrides=["seed=4"])
    (mdlm, first), (vadd, second), *_ = trainings_of(study_named("toys"), request)
    assert (mdlm.model, vadd.model) == ("mdlm", "vadd")
    assert mdlm == vadd.with_overrides(["model=mdlm"])
    assert vadd.seed == 4
    assert [first, second] == [Path("out/checkerboard-mdlm"), Path("out/checkerboard-vadd")]
