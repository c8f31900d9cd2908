"""The table beside the paper's numbers."""

import pytest

from tests.helpers.reports import likelihood, run_report, toy_distance
from vadd.evaluation.reports import RunReport, StepResult
from vadd.studies.study import study_named
from vadd.studies.tables import toy_tables

STUDY = study_named("toys")
TOYS = STUDY.published
TOY_NAMES, STEPS = STUDY.settings["cpu"].recipes, STUDY.settings["cpu"].measuring.steps


def report(recipe: str, model: str) -> RunReport:
    results = tuple(StepResult(steps=steps, metrics=toy_distance(steps / 10, steps / 100)) for steps in STEPS)
    return run_report(model, recipe, results=results, samples=700)


def test_the_paper_has_a_number_for_every_toy_and_model() -> None:
    assert set(TOYS.by_steps) == {f"{toy} {model}" for toy in TOY_NAMES for model in ("mdlm", "vadd")}
    assert [TOYS.by_steps[f"{toy} vadd"] for toy in TOY_NAMES] == [
        {1: 0.062, 5: 0.048},
        {1: 0.086, 5: 0.025},
        {1: 0.161, 5: 0.042},
    ]
    assert [TOYS.by_steps[f"{toy} mdlm"][1] for toy in TOY_NAMES] == [1.395, 2.619, 2.273]


@pytest.mark.parametrize("suffix", ["", "-paper"])
def test_ours_stand_beside_the_papers(suffix: str) -> None:
    table, *_ = toy_tables([report(f"swissroll{suffix}", "mdlm"), report(f"circles{suffix}", "vadd")], TOYS)
    assert [list(row) for row in table.rows] == [
        ["swissroll MDLM", 0.1, 2.619, 0.5, 0.287, 0.05, 0.01],
        ["circles VADD", 0.1, 0.161, 0.5, 0.042, 0.05, 0.01],
    ]
    assert len(table.columns) == 7
    assert "700 samples" in table.title


def test_other_data_than_the_papers_are_named_beside_its_numbers() -> None:
    for published in (None, "circles-paper"):
        found = [report("circles", model).changed(published_recipe=published) for model in ("mdlm", "vadd")]
        notes = [table.note for table in toy_tables(found, TOYS)]
        assert all(("not the paper's" in note) is (published is None) for note in notes)


def test_every_toy_has_a_table_of_likelihoods_with_the_papers() -> None:
    found = [
        report("circles", model).changed(likelihood=likelihood(model, 1.0, (1, 1.1))) for model in ("mdlm", "vadd")
    ]
    _, nats = toy_tables(found, TOYS)
    assert nats.columns == ["", "nats", "which is", "K", "masks", "points"]
    assert [list(row) for row in nats.rows] == [
        ["MDLM", "11.000", "step bound, T = 1, a bound", None, None, 5],
        ["MDLM", "10.000", "ELBO, a bound", None, 2, 5],
        ["VADD", "11.000", "step bound, T = 1, a bound", None, None, 5],
        ["VADD", "10.000", "DELBO, not a likelihood bound", 4, 2, 5],
        ["MDLM, the paper", "7.462", "ELBO", None, None, "not said"],
        ["VADD, the paper", "6.716", "DELBO, not a likelihood bound", 1000, 100, "not said"],
    ]
