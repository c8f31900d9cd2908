"""``--fit`` against a made-up limit of memory."""

from pathlib import Path

import pytest

from tests.helpers.tiny import tiny_recipe
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.recipe import Recipe, build_dataset, differences, load_recipe
from vadd.recipe.plan import needed_bytes
from vadd.recipe.recipe import same_learning
from vadd.studies import trainings
from vadd.studies.trainings import RESERVE, bytes_of_example, choices, finished_run, fitted


@pytest.fixture
def recipe() -> Recipe:
    return tiny_recipe("training.batch=512", "training.steps=2")


def limit(monkeypatch: pytest.MonkeyPatch, available: float) -> None:
    monkeypatch.setattr(trainings, "available_memory", lambda device: int(available))


def needed(recipe: Recipe) -> int:
    format = build_dataset(recipe).kind
    return needed_bytes(recipe, format, Processes(), bytes_of_example(recipe, format))


def test_what_fits_stays_as_it_is(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 2 * RESERVE * needed(recipe))
    assert fitted(recipe, build_dataset(recipe)) == recipe


def test_a_training_is_made_to_fit_and_says_how(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    halves = recipe.with_overrides(["training.accumulate=2"])
    limit(monkeypatch, RESERVE * (needed(recipe) + needed(halves)) / 2)
    run = finished_run(recipe, tmp_path / "run", fit=True)
    assert run.recipe.training.accumulate == 2
    assert {key for key in differences(recipe, run.recipe) if not same_learning(key)} == set()
    assert "with training.accumulate=2" in " ".join(capsys.readouterr().err.split())


def test_what_cannot_fit_is_told_in_one_line_before_anything_is_made(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 1000)
    with pytest.raises(UserError, match="does not fit into the 1") as told:
        finished_run(recipe, tmp_path / "run", fit=True)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_another_training_leaves_less_memory(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    data, other = build_dataset(recipe), recipe.with_overrides(["network.width=512"])
    limit(monkeypatch, RESERVE * needed(recipe) + 1000)
    assert fitted(recipe, data) == recipe
    assert fitted(recipe, data, other=recipe).training.accumulate > 1
    with pytest.raises(UserError, match="does not fit"):
        fitted(recipe, data, other=other)


def test_a_trial_that_finds_no_memory_leads_to_the_next_choice(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def trial(choice: Recipe, data: object) -> bool:
        tried.append(choice.training.accumulate)
        return choice.training.accumulate >= 4

    limit(monkeypatch, 10**12)
    monkeypatch.setattr(trainings, "trial_step", trial)
    assert fitted(recipe, build_dataset(recipe)).training.accumulate == 4
    assert tried == [1, 2, 4]


def test_checkpointing_comes_after_parts_and_few_examples_at_a_time_last() -> None:
    found = [
        (bool(getattr(choice.network, "checkpointing", False)), choice.training.accumulate)
        for choice in choices(load_recipe("mnist").with_overrides(["training.batch=32"]), Processes())
    ]
    assert found == [
        *((way, count) for way in (False, True) for count in (1, 2, 4)),
        *((way, count) for way in (False, True) for count in (8, 16, 32)),
    ]
