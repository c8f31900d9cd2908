"""Tables on narrow terminals: every number can be read."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from vadd.report.table import Cell, Table, format_cell

words = st.text("abcdefgh", min_size=1, max_size=12)
cells = st.floats(0, 1e6) | st.integers(0, 10**9) | st.lists(words, max_size=6).map(" ".join) | st.none()


def printed(table: Table, width: int) -> str:
    stream = StringIO()
    table.print(Console(file=stream, width=width))
    return stream.getvalue()


@given(st.data(), st.integers(1, 9), st.integers(1, 3), st.integers(40, 120))
def test_no_word_and_no_number_is_cut(data: st.DataObject, columns: int, count: int, width: int) -> None:
    titles = data.draw(st.lists(st.lists(words, max_size=3).map(" ".join), min_size=columns, max_size=columns))
    rows = data.draw(st.lists(st.lists(cells, min_size=columns, max_size=columns), min_size=count, max_size=count))
    said = printed(Table("Title", titles, rows), width)
    found = said.replace(":", " ").split()  # a name that all rows begin with stands in the title
    assert "…" not in said
    for cell in (cell for row in rows for cell in row):
        assert all(word in found for word in format_cell(cell).split())


@pytest.mark.parametrize("width", [80, 120])
def test_the_health_of_the_latent_fits(width: int) -> None:
    row: list[Cell] = [
        "checkerboard VADD",
        "collapsed: none of 2 dimensions varies with the data",
        12.34567,
        1.5,
        "1.23 0.50",
    ]
    said = printed(Table("Health", ["run", "verdict", "KL at t = 1", "KL on average", "largest KL"], [row]), width)
    assert "│" in said
    assert all(len(line) <= width for line in said.splitlines())
    assert all(number in said for number in ("12.3457", "1.5000", "1.23 0.50"))
