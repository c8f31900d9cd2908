"""Definitions of studies name what the engine and the command line know; a study goes from nothing to its page."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.text_runs import BOOK, TINY_NETWORK
from vadd.cli.reproduce import OPTIONS
from vadd.presets import recipe_names
from vadd.studies.engine import ENGINES, reproduce
from vadd.studies.study import STUDIES, Request, study_named
from vadd.studies.tables import TABLES
from vadd.studies.trainings import trainings_of


@pytest.mark.parametrize("name", [*STUDIES, "demo"])
def test_a_definition_names_what_exists(name: str) -> None:
    study = study_named(name)
    assert study.engine in ENGINES
    assert {*study.tables, *study.terminal} <= {*TABLES}
    assert {*study.options} <= {*OPTIONS}
    for setting, chosen in study.settings.items():
        entries = [*study.entries_of(setting), *chosen.variants.values()]
        assert entries or chosen.sets
        assert {entry.recipe for entry in entries} <= {*recipe_names()}


def test_the_trainings_of_a_study_have_a_directory_each() -> None:
    for name in STUDIES:
        study = study_named(name)
        for setting in study.settings:
            request = Request(out=Path("out"), setting=setting, control=True)
            places = [path for _, path in trainings_of(study, request)]
            assert len({*places}) == len(places), (name, setting)


def test_bounds_stand_beside_the_entropy_of_known_data(tmp_path: Path) -> None:
    measuring = {"steps": (1, 2), "samples": 200, "bound_steps": (1, 2), "particles": 2, "draws": 1, "limit": 20}
    overrides = ("training.steps=3", "training.batch=32")
    request = Request(out=tmp_path, setting="small", overrides=overrides, measuring=measuring)
    result = reproduce(study_named("validity"), request)
    assert [report["model"] for report in result.numbers] == ["mdlm", "vadd"]
    assert all(report["entropy"] == pytest.approx(3.4775, abs=1e-4) for report in result.numbers)
    assert json.loads((tmp_path / "results.json").read_text()) == result.numbers
    assert "Likelihood of held-out examples" in (tmp_path / "tables.md").read_text()
    assert "vadd reproduce validity" in result.page.read_text()


def test_zero_shot_trains_the_runs_of_text_that_are_missing(vadd_command: Command, tmp_path: Path) -> None:
    book, corpora = tmp_path / "book.txt", tmp_path / "corpora"
    corpora.mkdir()
    book.write_text(BOOK)
    (corpora / "lambada.txt").write_text("the dog sat on the mat\n" * 5)
    changes = (*TINY_NETWORK, "latent.dim=3", "data.corpus=files", "data.length=12", "training.steps=5")
    measured = ("--particles", 2, "--draws", 1, "--limit", 3, "--bound", "1")
    options = ("--corpora", corpora, "--only", "lambada", "--data", book, "--out", tmp_path / "text")
    result = vadd_command("reproduce", "zero-shot", *changes, "training.batch=8", *measured, *options)
    assert result.code == 0, result.err
    reports = json.loads((tmp_path / "text" / "zero-shot" / "results.json").read_text())
    assert [report["training_steps"] for report in reports] == [6, 5], "as the study of text trains them"
    assert (tmp_path / "text" / "text8-per-state-vadd" / "recipe.yaml").is_file()
