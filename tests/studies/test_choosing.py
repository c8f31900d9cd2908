"""What a study leaves open is chosen for every model by one rule, on training examples that are set aside."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.commands import Command
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.likelihood import some_of
from vadd.evaluation.reports import LikelihoodReport, NegativeLogLikelihood
from vadd.parsing import read_json
from vadd.progress import silent
from vadd.recipe import Recipe, build_dataset, load_recipe
from vadd.report.table import mean_and_spread
from vadd.run.directory import RunDirectory
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies import baselines, equal_time
from vadd.studies.baselines import ModelRow, summary_table
from vadd.studies.engine import reproduce
from vadd.studies.equal_time import candidate_runs, chosen_recipe, chosen_words, folder_of, without
from vadd.studies.study import Choice, Request, study_named
from vadd.studies.tables import latents_table

SMALL = [
    "data.vocab_size=8",
    "data.train_size=200",
    "data.test_size=50",
    "training.batch=8",
    "training.steps=8",
    "training.log_every=10",
    "network.width=16",
]
CHOICE = Choice(
    values={"diffusion.weighting": ("integral", "even")},
    grids=("uniform", "cosine"),
    lengths=2,
    steps=(1, 3),
    particles=2,
)


def recipe_of(model: str) -> Recipe:
    return load_recipe("checkerboard").with_overrides([f"model={model}", *SMALL])


def scored_by(scores: dict[tuple[str, str, int], float]) -> Any:
    """Bounds by weighting, grid and length; 9 for all others. Refuses examples of the test set."""

    def measure(run: Run, examples: torch.Tensor, settings: BoundSettings) -> LikelihoodReport:
        data = build_dataset(run.recipe)
        aside = some_of(len(data.train), 20, seed=1)
        assert torch.equal(examples, data.train[aside]), "nothing but training examples that were set aside decides"
        key = (run.recipe.diffusion.weighting, str(run.sampling.grid), run.step or 0)
        bound = NegativeLogLikelihood(
            nats=scores.get(key, 9.0), stderr=0.1, bpd=1.0, perplexity=1.0, examples=len(examples), valid=True
        )
        return LikelihoodReport(bounds=(bound,))

    return measure


@pytest.mark.parametrize("best", [("even", "cosine", 4), ("integral", "uniform", 8)])
def test_the_smallest_bound_wins_over_weights_grids_and_lengths(
    best: tuple[str, str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equal_time, "measure_bounds", scored_by({best: 1.0}))
    path, recipe = tmp_path / "mdlm", recipe_of("mdlm")
    chosen = chosen_recipe(recipe, path, CHOICE, silent)
    assert (chosen.diffusion.weighting, chosen.sampling.grid, chosen.training.steps) == best
    assert chosen_words(path) == f"{best[0]} weights, {best[1]} grid, {best[2]} steps"
    written = read_json(folder_of(path) / "chosen.json")
    assert len(written["tried"]) == 2 * 2 * 2
    assert written["set_aside"] == 20, "a tenth of the training examples"
    assert len(candidate_runs(path)) == 2
    monkeypatch.setattr(equal_time, "finished_run", None)  # chosen once
    assert chosen_recipe(recipe, path, CHOICE, silent) == chosen
    assert chosen_recipe(recipe, tmp_path / "mdlm-seed-1", CHOICE, silent) == chosen, "once for all seeds"


def test_a_run_that_was_trained_without_a_choice_is_refused(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "mdlm").create(recipe_of("mdlm"))
    with pytest.raises(UserError, match=r"mdlm was trained without a choice; give --no-choose, or another --out"):
        chosen_recipe(recipe_of("mdlm"), tmp_path / "mdlm", CHOICE, silent)


def test_candidates_do_not_see_what_was_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "measure_bounds", scored_by({}))
    path, recipe = tmp_path / "vadd", recipe_of("vadd")
    chosen_recipe(recipe, path, CHOICE, silent)
    data = build_dataset(recipe)
    part = without(data, some_of(len(data.train), 20, seed=1))
    assert (len(part.train), len(part.test)) == (180, 20)
    for directory in candidate_runs(path):
        assert load(directory.path).fingerprint == part.fingerprint() != data.fingerprint()


def test_what_a_model_cannot_be_trained_with_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "measure_bounds", scored_by({}))
    path = tmp_path / "genmd4"
    chosen_recipe(recipe_of("genmd4"), path, CHOICE, silent)
    assert [directory.recipe().diffusion.weighting for directory in candidate_runs(path)] == ["integral"]


def test_weights_of_masks_that_change_nothing_are_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "measure_bounds", scored_by({}))
    path = tmp_path / "one-z"
    recipe = recipe_of("vadd").with_overrides(["latent.kind=shared", "latent.particles=1"])
    chosen_recipe(recipe, path, CHOICE, silent)
    assert len(candidate_runs(path)) == 1
    assert chosen_words(path) == "uniform grid, 4 steps"
    path = tmp_path / "ar"
    chosen_recipe(load_recipe("checkerboard").with_overrides(["model=ar", *SMALL[:-1]]), path, CHOICE, silent)
    assert (len(candidate_runs(path)), chosen_words(path)) == (1, "4 steps")


def test_with_real_bounds_the_least_trained_is_not_chosen(tmp_path: Path) -> None:
    """A training of 100 steps is better than its first fifth."""
    recipe = recipe_of("mdlm").with_overrides(["training.steps=100", "training.batch=32"])
    chosen = chosen_recipe(recipe, tmp_path / "mdlm", Choice(lengths=5, steps=(2,)), silent)
    written = read_json(folder_of(tmp_path / "mdlm") / "chosen.json")["tried"]
    tried = {each["values"]["training.steps"]: each["nats"] for each in written}
    assert len(tried) == 5
    assert chosen.training.steps == min(tried, key=lambda steps: tried[steps]) > 20


def test_the_study_of_all_models_chooses_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "TIMED", 2)
    monkeypatch.setattr(equal_time, "SECONDS_TIMED", 0.0)
    monkeypatch.setattr(baselines, "MOST_DRAWS", 1)
    study = study_named("baselines").model_copy(update={"choose": CHOICE.model_copy(update={"lengths": 1})})
    request = Request(
        out=tmp_path,
        setting="toys",
        models=("mdlm",),
        minutes=0.001,
        overrides=[each for each in SMALL if "training.steps" not in each],
        measuring={"samples": 50, "limit": 20, "steps": (1, 2), "particles": 2},
        seeds=2,
    )
    result = reproduce(study, request)
    rows = [ModelRow(**row) for row in result.numbers if "absent" not in row]
    assert {(row.name, row.seed) for row in rows} == {("MDLM", 0), ("MDLM", 1)}
    mdlm = RunDirectory(tmp_path / "checkerboard-mdlm").recipe()
    first = next(row for row in rows if row.name == "MDLM")
    assert first.chosen == (
        f"{mdlm.diffusion.weighting} weights, {mdlm.sampling.grid} grid, {mdlm.training.steps:,} steps"
    )
    table = summary_table(rows, {})
    assert table.columns[-1] == "chosen"
    assert all("±" in str(cell) for row in table.rows if row[0] == "MDLM" for cell in row[4:6])
    assert first.chosen in result.page.read_text()
    assert reproduce(study, request).numbers == result.numbers, "nothing is trained or measured twice"


def test_rows_show_how_far_their_seeds_are_apart() -> None:
    assert mean_and_spread([1.0]) == "1"
    assert mean_and_spread([1.0, 1.5, 2.0]) == "1.5 ± 0.5"
    assert mean_and_spread([None]) is None

    def report(seed: int, nats: float) -> RunReport:
        bound = NegativeLogLikelihood(steps=1, nats=nats, stderr=0.1, bpd=nats, perplexity=1.0, examples=1, valid=True)
        return RunReport(
            recipe="r", model="mdlm", seed=seed, results=(), likelihood=LikelihoodReport(bounds=(bound,)), chosen="x"
        )

    (table,) = latents_table([report(0, 2.0), report(1, 4.0)], study_named("latents").published)
    assert table.rows == [["r MDLM", None, "3 ± 1", "x"]]


def test_the_definitions_choose_the_same_for_all_models(vadd_command: Command) -> None:
    for name in ("baselines", "latents"):
        choice = study_named(name).choose
        assert choice is not None
        assert choice.values == {"diffusion.weighting": ("integral", "root", "even")}
        assert choice.grids == ("uniform", "cosine")
        assert choice.lengths > 1
    assert "--no-choose" in vadd_command("reproduce", "latents", "--help").out
