"""Tables and the page: nothing loaded from elsewhere, everything escaped."""

import base64
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.pages import NASTY, Elements
from tests.helpers.reports import likelihood, run_report, toy_distance, toy_report
from vadd.core.health import LatentHealth
from vadd.evaluation.reports import PairDistance, StepResult
from vadd.report.figures import histogram_panels, save_figure
from vadd.report.likelihood_tables import bound_table, latent_table
from vadd.report.notes import NOTES
from vadd.report.page import PageSection, write_page
from vadd.report.table import Table, format_cell
from vadd.report.tables import divergence_table


@pytest.fixture
def page(tmp_path: Path) -> str:
    figure = save_figure(histogram_panels({"row": [("data", np.eye(5))]}), tmp_path / "figure.png")
    table = Table(f"title {NASTY}", ["a", NASTY], [[1, 2.0], [NASTY, None]], f"note {NASTY}")
    section = PageSection(f"heading {NASTY}", f"text {NASTY}", [(f"alt {NASTY}", figure)], [table], [f"vadd {NASTY}"])
    path = write_page(tmp_path / "new" / "report.html", NASTY, f"introduction {NASTY}", [section, PageSection("empty")])
    return path.read_text()


def test_the_page_loads_nothing(page: str) -> None:
    without_pictures = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"https?:|//|@import|url\(", without_pictures)
    parsed = Elements()
    parsed.feed(page)
    sources = [attributes["src"] for _, attributes in parsed.tags if "src" in attributes]
    assert len(sources) == 1
    assert str(sources[0]).startswith("data:image/png;base64,")
    assert base64.b64decode(str(sources[0]).partition(",")[2]).startswith(b"\x89PNG")
    assert not any("href" in attributes for _, attributes in parsed.tags)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in parsed.tags}


def test_text_is_shown_as_it_was_written(page: str) -> None:
    assert "<script>" not in page
    parsed = Elements()
    parsed.feed(page)
    for part in ("heading", "text", "introduction", "title", "note", "vadd"):
        assert f"{part} {NASTY}" in parsed.text
    assert ("img", f"alt {NASTY}") in [(tag, attributes.get("alt")) for tag, attributes in parsed.tags]


def test_every_cell_is_on_the_page(page: str) -> None:
    parsed = Elements()
    parsed.feed(page)
    tags = [tag for tag, _ in parsed.tags]
    assert (tags.count("th"), tags.count("td"), tags.count("h2")) == (2, 4, 2)
    assert "2.0000" in parsed.text


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "-"), (1, "1"), (0.123456, "0.1235"), ("x", "x"), (2.0, "2.0000"), (-0.5, "-0.5000")]
)
def test_a_cell_has_four_decimals_or_a_dash(cell: str | float | None, text: str) -> None:
    assert format_cell(cell) == text


def test_a_table_is_markdown_with_its_note_below() -> None:
    table = Table("t", ["run", "T = 1"], [["a", 0.5], ["b", None]], "A note.")
    assert table.to_markdown() == "### t\n\n| run | T = 1 |\n| --- | --- |\n| a | 0.5000 |\n| b | - |\n\nA note.\n"
    assert Table("t", ["x"], [[1]]).to_markdown() == "### t\n\n| x |\n| --- |\n| 1 |\n"


def test_a_table_is_printed_with_title_and_note() -> None:
    stream = StringIO()
    Table("The title", ["run", "jsd"], [["a", 0.5]], "The note.").print(Console(file=stream, width=80))
    assert all(part in stream.getvalue() for part in ("The title", "run", "jsd", "0.5000", "The note."))


def test_the_divergence_table_has_a_row_for_each_run_and_number_of_steps() -> None:
    reports = [toy_report(model, toy_distance(), toy_distance(exact=None)) for model in ("mdlm", "vadd")]
    table = divergence_table(reports)
    assert table.columns == ["run", "steps", "jsd", "its floor", "jsd, exact", "paper_js", "its floor"]
    assert table.rows[0] == ["circles MDLM", 1, 0.2, 0.01, 0.19, 1.4, 0.05]
    assert [list(row[:2]) for row in table.rows] == [
        ["circles MDLM", 1],
        ["circles MDLM", 2],
        ["circles VADD", 1],
        ["circles VADD", 2],
    ]
    assert table.text_rows()[1][4] == "-"


def test_runs_with_other_measures_share_a_table_with_gaps() -> None:
    pairs = run_report(
        "vadd", "codes", results=(StepResult(steps=1, metrics=PairDistance(pair_jsd=0.3, pair_jsd_floor=0.1)),)
    )
    table = divergence_table([toy_report("vadd", toy_distance()), pairs])
    assert list(table.columns[-2:]) == ["pair_jsd", "its floor"]
    assert list(table.rows[0][-2:]) == [None, None]
    assert list(table.rows[-1]) == ["codes VADD", 1, None, None, None, None, None, 0.3, 0.1]
    assert list(divergence_table([pairs]).columns) == ["run", "steps", "pair_jsd", "its floor"]


def test_the_table_of_bounds_says_of_every_number_whether_it_is_valid() -> None:
    mdlm, vadd = (run_report(m, entropy=3.5, likelihood=likelihood(m, 0.5, (1, 0.6))) for m in ("mdlm", "vadd"))
    table = bound_table([mdlm, vadd, run_report("vadd")])
    assert table.columns == ["run", "", "valid", "nats ± std. error", "bits/dim", "perplexity"]
    assert [list(row[1:4]) for row in table.rows] == [
        ["step bound, T = 1", "yes", "6.0000 ± 0.1000"],
        ["ELBO", "yes", "5.0000 ± 0.1000"],
        ["step bound, T = 1", "yes", "6.0000 ± 0.1000"],
        ["the paper's DELBO, K = 4", "no: not a likelihood bound", "5.0000 ± 0.1000"],
    ]
    assert "entropy of checkerboard: 3.5000 nats" in table.note
    assert NOTES["pads"] not in table.note
    padded = likelihood("mdlm", 0.5, (1, 0.6), valid=False, convention="pads not scored")
    table = bound_table([run_report("mdlm", likelihood=padded)])
    assert [row[2] for row in table.rows] == ["no: pads not scored"] * 2
    assert NOTES["pads"] in table.note


def test_the_table_of_latents_leaves_out_models_without_one() -> None:
    health = LatentHealth(0.75, 0.25, (0.25, 0.5), active_units=1)
    table = latent_table([run_report("mdlm", latent=None), run_report("vadd", latent=health)])
    assert [list(row) for row in table.rows] == [
        ["checkerboard VADD", "1 of 2 dimensions active", 0.75, 0.25, "0.50 0.25"]
    ]


def test_numbers_are_measured_and_tabulated_without_libraries_that_take_seconds_to_import() -> None:
    rooms = "vadd.evaluation, vadd.report.tables, vadd.report.results"
    told = f"import sys, {rooms}; print({{'matplotlib', 'scipy', 'sklearn', 'transformers'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "set()\n"
