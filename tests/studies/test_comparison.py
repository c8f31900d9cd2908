"""Runs side by side: numbers, figures and one page."""

import html
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import vadd
from tests.helpers.reports import run_report
from tests.helpers.text_runs import PADDED, SENTENCES, train_on_text
from vadd.core import Particles
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.reports import DistributionDistance
from vadd.files import write_json
from vadd.report.notes import NOTES
from vadd.report.table import report_names
from vadd.run.run import Run
from vadd.studies.comparison import Measurements, Page, compare


@pytest.fixture(scope="module")
def runs(mdlm_run: Path, vadd_run: Path) -> list[Run]:
    return [vadd.load(mdlm_run), vadd.load(vadd_run)]


@dataclass(frozen=True)
class Comparison:
    reports: list[RunReport]
    page: Path


PLAIN = Page("t", "i")


@pytest.fixture(scope="module")
def comparison(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("comparison") / "new"
    told: list[str] = []
    reports, page = compare(
        runs,
        out,
        Measurements([1, 2], 2000),
        Page("The title", "The introduction.", "vadd compare <a> b"),
        progress=lambda what, done=0, total=None: told.append(what),
    )
    assert {text.partition(":")[0] for text in told} >= {"checkerboard MDLM", "checkerboard VADD"}
    return Comparison(reports, page)


def test_the_numbers_are_a_list_of_reports(comparison: Comparison) -> None:
    written = json.loads((comparison.page.parent / "results.json").read_text())
    assert [report["model"] for report in written] == ["mdlm", "vadd"]
    assert [[result["steps"] for result in report["results"]] for report in written] == [[1, 2], [1, 2]]
    assert written == [report.to_json() for report in comparison.reports]


def test_every_figure_is_a_file_and_on_the_page(comparison: Comparison) -> None:
    figures = {file.name for file in (comparison.page.parent / "figures").iterdir()}
    assert {"one-step.png", "by-steps.png", "divergence.png", "training.png"} <= figures
    page = comparison.page.read_text()
    assert page.count('src="data:image/png;base64,') == len(figures)
    for part in (
        "The title",
        "The introduction.",
        "vadd compare &lt;a&gt; b",
        "checkerboard MDLM",
        "checkerboard VADD",
    ):
        assert part in page


def test_the_page_shows_the_numbers_of_the_reports(comparison: Comparison) -> None:
    page = comparison.page.read_text()
    for report in comparison.reports:
        for distance in report.by_steps(DistributionDistance).values():
            assert f"<td>{distance.paper_js:.4f}</td>" in page
            assert f"<td>{distance.jsd_exact:.4f}</td>" in page


def test_runs_whose_examples_cannot_be_drawn_are_compared_by_pairs(array_run: Path, tmp_path: Path) -> None:
    _, page = compare([vadd.load(array_run)], tmp_path, Measurements([1, 2], 100), PLAIN)
    figures = {file.name for file in (tmp_path / "figures").iterdir()}
    assert figures >= {"divergence.png", "training.png"}
    assert not figures & {"one-step.png", "by-steps.png"}
    assert "pair_jsd" in page.read_text()


def test_a_run_is_called_by_its_recipe_and_model_and_by_its_directory_where_these_are_not_unique() -> None:
    different = [run_report("mdlm", run="x/a"), run_report("vadd", run="x/b")]
    assert report_names(different) == ["checkerboard MDLM", "checkerboard VADD"]
    alike = [run_report("vadd", run="x/a"), run_report("vadd", run="x/b")]
    assert report_names(alike) == ["checkerboard VADD (a)", "checkerboard VADD (b)"]


def test_two_runs_of_one_recipe_and_a_run_that_cannot_be_drawn_stand_side_by_side(
    runs: list[Run], array_run: Path, tmp_path: Path
) -> None:
    mixed = [runs[1], runs[1], vadd.load(array_run)]
    reports, _ = compare(mixed, tmp_path, Measurements([1], 100), PLAIN)
    assert len(reports) == 3
    assert (tmp_path / "figures" / "one-step.png").exists()


def test_json_is_replaced_whole_and_its_directory_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "numbers.json"
    for content in ([1], [{"a": None}]):
        write_json(path, content)
        assert json.loads(path.read_text()) == content
    assert list(path.parent.iterdir()) == [path]


def test_content_that_is_no_json_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "numbers.json", [1])
    with pytest.raises(TypeError):
        write_json(tmp_path / "numbers.json", [np.float32(1)])
    assert json.loads((tmp_path / "numbers.json").read_text()) == [1]


def test_the_tables_lie_beside_the_page_as_markdown(comparison: Comparison) -> None:
    text = (comparison.page.parent / "tables.md").read_text()
    for report in comparison.reports:
        for distance in report.by_steps(DistributionDistance).values():
            assert f"| {distance.paper_js:.4f} |" in text


def words_of(page: Path) -> str:
    return " ".join(html.unescape(page.read_text()).split())


def test_the_page_says_what_the_curves_of_the_training_are(comparison: Comparison) -> None:
    page = words_of(comparison.page)
    assert "the ELBO for MDLM and the DELBO for VADD" in page
    assert "also where training itself weighs otherwise" in page
    assert "For MDLM it bounds the negative log-likelihood from above; for VADD it does not" in page
    assert "maximises" not in page


def test_the_page_of_padded_text_calls_nothing_a_bound(tmp_path: Path) -> None:
    run = train_on_text(tmp_path, SENTENCES, *PADDED, "model=mdlm")
    settings = BoundSettings(Particles(1), steps=(1,), delbo_draws=1, limit=4)
    _, path = compare([run], tmp_path / "out", Measurements([1], 4, settings), PLAIN)
    page = words_of(path)
    assert NOTES["pads"] in page
    assert NOTES["likelihood"] not in page
    assert "it does not bound the likelihood of the padded sequences" in page
    assert "For MDLM it bounds" not in page
