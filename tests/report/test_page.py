"""Tables and the page: nothing loaded from elsewhere, everything escaped."""

import base64
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from vadd.report.figures import histogram_panels, save_figure
from vadd.report.page import Section, write_page
from vadd.report.tables import Table, divergence_table, format_cell

NASTY = "<script>alert('x')</script> & \"more\""


class Elements(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def page(tmp_path: Path) -> str:
    figure = save_figure(histogram_panels({"row": [("data", np.eye(5))]}), tmp_path / "figure.png")
    table = Table(f"title {NASTY}", ["a", NASTY], [[1, 2.0], [NASTY, None]], f"note {NASTY}")
    section = Section(f"heading {NASTY}", f"text {NASTY}", [(f"alt {NASTY}", figure)], [table], [f"vadd {NASTY}"])
    path = write_page(tmp_path / "new" / "report.html", NASTY, f"introduction {NASTY}", [section, Section("empty")])
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


def toy_report(model: str) -> dict[str, Any]:
    result = {"jsd": 0.2, "paper_js": 1.4, "jsd_floor": 0.01, "paper_js_floor": 0.05}
    results = [{"steps": 1, **result, "jsd_exact": 0.19}, {"steps": 2, **result, "jsd_exact": None}]
    return {"recipe": "circles", "model": model, "results": results}


def test_the_divergence_table_has_a_row_for_each_run_and_number_of_steps() -> None:
    table = divergence_table([toy_report("mdlm"), toy_report("vadd")])
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
    pairs = {"recipe": "codes", "model": "vadd", "results": [{"steps": 1, "pair_jsd": 0.3, "pair_jsd_floor": 0.1}]}
    table = divergence_table([toy_report("vadd"), pairs])
    assert list(table.columns[-2:]) == ["pair_jsd", "its floor"]
    assert list(table.rows[0][-2:]) == [None, None]
    assert list(table.rows[-1]) == ["codes VADD", 1, None, None, None, None, None, 0.3, 0.1]
    assert list(divergence_table([pairs]).columns) == ["run", "steps", "pair_jsd", "its floor"]
