"""All models side by side at equal processor time; the paper's numbers stand apart."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from vadd.progress import silent
from vadd.recipe import MODELS, load_recipe
from vadd.studies import equal_time
from vadd.studies.baselines import SETTINGS, TRAINED, Baselines, baselines_table, reproduce_baselines
from vadd.studies.equal_time import steps_in

SMALL = ("data.vocab_size=8", "data.train_size=200", "data.test_size=50", "training.batch=8", "training.log_every=10")


@pytest.fixture(autouse=True)
def _short_pilots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_time, "TIMED", 2)
    monkeypatch.setattr(equal_time, "SECONDS_TIMED", 0.0)


def test_runs_are_made_once_and_stand_side_by_side(tmp_path: Path) -> None:
    def compared(*models: str) -> Baselines:
        return reproduce_baselines("toys", tmp_path, silent, models=models, minutes=0.001, overrides=SMALL, samples=50)

    found = compared("mdlm", "ar")
    assert {row.name for row in found.rows} == {"MDLM", "AR", "EDLM on MDLM, k = 8"}
    by_name = {(row.name, row.steps): row for row in found.rows}
    weighed = by_name["EDLM on MDLM, k = 8", 1]
    assert by_name["AR", 2].sequences == 2
    assert by_name["MDLM", 1].evaluations == 1
    assert weighed.sequences == 9  # the proposal, and its candidates as the energy sees them
    assert by_name["AR", 2].bound_valid
    assert not weighed.bound_valid
    assert not weighed.exact_sampler
    assert len(json.loads((tmp_path / "results.json").read_text())) == len(found.rows)
    table = baselines_table(found.rows)
    assert [row[-1] for row in table.rows if row[0] == "AR"] == ["exact"]
    page = found.page.read_text()
    assert "The paper, checkerboard" in page
    assert "VADD, the paper" in page
    assert page.count("data:image/png;base64,") == 1
    again = compared("ar")
    assert again.rows[0].training_steps == by_name["AR", 2].training_steps


def test_every_data_set_has_a_recipe_and_every_model_but_edlm_is_trained() -> None:
    assert {*TRAINED, "edlm"} == set(MODELS)
    for setting in SETTINGS.values():
        for name in TRAINED:
            assert load_recipe(setting.recipe).with_overrides([f"model={name}"]).model == name


def test_twice_the_time_is_about_twice_the_steps() -> None:
    recipe = load_recipe("checkerboard").with_overrides(["model=mdlm", *SMALL])
    assert steps_in(recipe, 100.0) > steps_in(recipe, 1.0) > 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--models", "mdlm,edlm"), "unknown model 'edlm'"),
        (("--models", "sed"), "did you mean 'sedd'"),
        (("--data", "digits", "--judge", "x"), "--judge reads texts"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    vadd_command: Command, tmp_path: Path, options: tuple[str, ...], line: str
) -> None:
    done = vadd_command("reproduce", "baselines", *options, "--out", tmp_path / "new")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert line in done.err
    assert not (tmp_path / "new").exists()
