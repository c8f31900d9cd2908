"""Columns of cells to codes and back: types, gaps, bins and conditions."""

from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from vadd.data import TableData
from vadd.errors import UserError
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.columns import CategoryColumn, parse_condition
from vadd.kinds.table.numbers import NumberColumn, fit_column
from vadd.kinds.table.reading import MISSING_WORDS, RawTable
from vadd.kinds.table.schema import ColumnSpec, infer

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8).filter(
    lambda word: word.strip() not in MISSING_WORDS
)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "category": WORDS,
    "boolean": st.booleans(),
    "integer": st.integers(-(10**12), 10**12),
    "real": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "date": st.dates(date(1000, 1, 1), date(2999, 12, 31)),
    "datetime": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
}


@pytest.mark.parametrize("kind", CELLS)
@properties
@given(data=st.data())
def test_few_values_come_back_as_they_went_in(kind: str, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.none() | CELLS[kind], min_size=1, max_size=12))
    if all(cell is None for cell in cells):
        cells = [*cells, data.draw(CELLS[kind])]
    column = fit_column("c", ColumnSpec(kind=kind), cells, cells, "t")
    codes = column.codes(cells)
    assert column.size == len(set(cells))
    back = column.cells(codes, np.random.default_rng(0).random(len(cells)))
    assert back == cells
    assert [type(cell) for cell in back] == [type(cell) for cell in cells]


@properties
@given(numbers=st.lists(st.integers(-50, 50), min_size=3, max_size=300), most=st.integers(1, 20), uniform=st.booleans())
def test_bins_cover_all_numbers_in_order_and_give_back_their_own(numbers: list[int], most: int, uniform: bool) -> None:
    spec = ColumnSpec(kind="integer", values=most, draw="uniform" if uniform else "values")
    column = fit_column("c", spec, numbers, numbers, "t")
    assert isinstance(column, NumberColumn)
    assert column.size == min(most, len(set(numbers))) or (column.size < most and len(set(numbers)) > most)
    ends = [end for bin in column.bins for end in (bin.low, bin.high)]
    assert ends == sorted(ends)
    assert sum(sum(bin.counts) for bin in column.bins) == len(numbers)
    codes = column.codes(numbers)
    back = column.cells(codes, np.random.default_rng(1).random(len(numbers)))
    assert (column.codes(back) == codes).all()
    if not uniform:
        assert set(back) <= set(numbers)


def test_drawing_back_repeats_the_frequencies_within_a_bin() -> None:
    numbers = [1] * 60 + [2] * 30 + [3] * 10
    column = fit_column("c", ColumnSpec(kind="integer", values=1), numbers, numbers, "t")
    back = Counter(column.cells(np.zeros(10_000, dtype=int), (np.arange(10_000) + 0.5) / 10_000))
    assert back == {1: 6000, 2: 3000, 3: 1000}


def test_heavy_numbers_have_bins_of_their_own() -> None:
    numbers = [0] * 680 + list(range(1, 321))
    column = fit_column("c", ColumnSpec(kind="integer", values=33), numbers, numbers, "t")
    assert isinstance(column, NumberColumn)
    assert column.bins[0].high == 0
    assert column.size == 33
    assert {sum(bin.counts) for bin in column.bins[1:]} <= {10, 11}


def test_rare_categories_go_together_and_come_back_as_often_as_they_were() -> None:
    cells = ["a"] * 50 + ["b"] * 40 + ["c"] * 6 + ["d"] * 4
    column = fit_column("c", ColumnSpec(kind="category", values=3), cells, cells, "t")
    assert column.labels() == ["a", "b", "(rare)"]
    back = Counter(column.cells(np.full(1000, 2), (np.arange(1000) + 0.5) / 1000))
    assert back == {"c": 600, "d": 400}
    assert column.codes(["z"]).tolist() == [2]  # nobody has seen it: as rare as can be
    with pytest.raises(UserError, match=r"row 1, column 'c': 'zz' is not among its 2 values"):
        fit_column("c", ColumnSpec(kind="category"), ["a", "zy"], ["a"], "t").codes(["zz"])


NUMBERS = fit_column("age", ColumnSpec(kind="integer", values=2), [*range(10, 30)], [*range(10, 30)], "t")
CITIES = CategoryColumn("city", "category", "value", ("a", "b"), (("c", 3), ("d", 1)))


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("age=10-19", [1, 0]),
        ("age=15-24", [0.5, 0.5]),
        ("age>=28", [0, 0.2]),
        ("age<=9.5e1", None),
        ("age<=14", [0.5, 0]),
        ("age=12", [1, 0]),
        ("age=19..", [0.1, 1]),
        ("city=a", [1, 0, 0, 0]),
        ("city=a|d", [1, 0, 0.25, 0]),
        ("city=", [0, 0, 0, 1]),
    ],
)
def test_shares_of_conditions(text: str, shares: list[float] | None) -> None:
    condition = parse_condition(text)
    column = NUMBERS if condition.column == "age" else CITIES
    if shares is None:
        with pytest.raises(UserError, match="takes an integer"):
            column.shares(condition)
        return
    assert column.shares(condition).tolist() == pytest.approx(shares)


def test_cells_fulfil_their_condition() -> None:
    uniforms = np.random.default_rng(0).random(200)
    drawn = NUMBERS.cells(np.repeat([0, 1], 100), uniforms, parse_condition("age=15-24"))
    assert set(drawn[:100]) == set(range(15, 20))
    assert set(drawn[100:]) == set(range(20, 25))
    assert set(NUMBERS.cells(np.zeros(5, dtype=int), uniforms[:5], parse_condition("age=12"))) == {12}
    assert set(CITIES.cells(np.full(50, 2), uniforms[:50], parse_condition("city=a|d"))) == {"d"}
    assert CITIES.cells(np.array([3]), uniforms[:1], parse_condition("city=")) == [None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age=90-99", r"no such value in 10 \.\. 29"),
        ("age=old", "takes an integer, or from-to"),
        ("age=20-10", "the range is empty"),
        ("age=", "the column 'age' has no missing cells"),
        ("city=aa", "has no value 'aa', did you mean 'a'"),
        ("city>=a", "not a number"),
    ],
)
def test_conditions_that_nothing_fulfils_are_refused(text: str, said: str) -> None:
    condition = parse_condition(text)
    with pytest.raises(UserError, match=said):
        (NUMBERS if condition.column == "age" else CITIES).shares(condition)


def test_conditions_on_dates_are_told_how_to_write_a_range() -> None:
    days = [date(2020, 1, day) for day in range(1, 9)]
    column = fit_column("born", ColumnSpec(kind="date"), days, days, "t")
    with pytest.raises(UserError, match=r"takes a date, or from\.\.to"):
        column.shares(parse_condition("born=then"))


def test_a_value_that_holds_a_bar_can_be_asked_for() -> None:
    cells = ["=a|b", "a", "b"]
    column = fit_column("c", ColumnSpec(kind="category"), cells, cells, "t")
    wanted = {text: column.shares(parse_condition(text)) for text in ("c==a|b", "c=a|b")}
    codes = column.codes(cells)
    assert wanted["c==a|b"][codes].tolist() == [1, 0, 0]
    assert wanted["c=a|b"][codes].tolist() == [0, 1, 1]


def small_table() -> RawTable:
    rng = np.random.default_rng(0)
    sex = ["F" if coin else "M" for coin in rng.random(60) < 0.5]
    age = [None if coin else str(number) for coin, number in zip(rng.random(60) < 0.2, rng.integers(0, 90, 60))]  # noqa: B905
    return RawTable("t.csv", {"sex": sex, "age": age}, spelled=True)


def test_a_codec_is_saved_and_loaded(tmp_path: Path) -> None:
    data = TableData().split(small_table(), name="t")
    assert data.table is not None
    data.table.save(tmp_path / "table.json")
    assert TableCodec.load(tmp_path / "table.json") == data.table
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        TableCodec.load(tmp_path / "table.json")
    assert data.kind.sizes == data.table.sizes
    assert not data.unknowns
    assert int(data.train[:, 0].max()) < 2


def test_unknown_cells_hold_the_mask() -> None:
    data = TableData(missing="unknown").split(small_table(), name="t")
    assert data.unknowns
    gaps = sum(cell is None for cell in small_table().columns["age"])
    assert int((data.train == data.vocab_size).sum() + (data.test == data.vocab_size).sum()) == gaps > 0


def test_rows_are_drawn_back_alike_in_any_portions() -> None:
    codec = TableCodec.fit(small_table(), infer(small_table()), range(60))
    codes = np.concatenate([codec.encode(small_table())] * 3)
    whole = codec.decode(codes, seed=5)
    parts = [codec.decode(codes[first : first + 37], 5, first) for first in range(0, 180, 37)]
    assert {name: [cell for part in parts for cell in part[name]] for name in whole} == whole


def test_a_table_with_other_columns_is_refused() -> None:
    codec = TableCodec.fit(small_table(), infer(small_table()), range(60))
    for columns, said in (
        ({"sex": ["F"], "agee": ["1"]}, "the run does not know the column 'agee', did you mean 'age'"),
        ({"sex": ["F"]}, "has no column 'age'"),
        ({"sex": ["X"], "age": ["1"]}, "row 1, column 'sex': 'X' is not among"),
        ({"sex": ["F"], "age": ["old"]}, "row 1, column 'age': 'old' is not an integer"),
    ):
        with pytest.raises(UserError, match=said):
            codec.encode(RawTable("u.csv", dict(columns), spelled=True))


@pytest.mark.parametrize("kind", ["real", "integer"])
def test_tails_are_drawn_between_quantiles_with_the_decimals_of_the_column(kind: Any) -> None:
    """Of 10,000 draws the largest gap to the stated law exceeds 0.025 with a probability below 1e-5 (Dvoretzky,
    Kiefer, Wolfowitz).
    """
    rng = np.random.default_rng(1)
    numbers = (np.exp(rng.standard_normal(5000)) * 1000).round().astype(int).tolist()
    cells = [number / 4 for number in numbers] if kind == "real" else numbers
    plain = fit_column("c", ColumnSpec(kind=kind, values=40), cells, cells, "t")
    spec = ColumnSpec(kind=kind, values=40, draw="tails")
    table = RawTable("t", {"c": cells}, spelled=False)
    column = TableCodec.fit(table, {"c": spec}, range(5000)).columns[0]
    assert isinstance(column, NumberColumn)
    assert isinstance(plain, NumberColumn)
    uniforms = rng.random(10_000)
    middle = np.full(10_000, 20)
    assert column.cells(middle, uniforms) == plain.cells(middle, uniforms)
    last = column.present - 1
    bin, before = column.bins[last], plain.bins[last]
    assert (bin.low, bin.high) == (before.low, before.high) == (bin.members[0], bin.members[-1])
    assert len(bin.members) == 26
    drawn = np.array(column.cells(np.full(10_000, last), uniforms), float)
    assert len(np.unique(drawn)) > len(before.members), "others than those of the table too"
    assert (drawn.round(2 if kind == "real" else 0) == drawn).all()
    grid = np.arange(1, 10_001) / 10_000
    assert np.abs(np.interp(np.sort(drawn), bin.members, np.linspace(0, 1, 26)) - grid).max() < 0.025
    condition = parse_condition(f"c>={bin.members[20]}")
    assert column.shares(condition)[last] == pytest.approx(0.2)
    wanted = np.array(column.cells(np.full(200, last), uniforms[:200], condition), float)
    assert wanted.min() >= bin.members[20]


def test_tails_of_tiny_numbers_are_not_rounded_away() -> None:
    cells = (1e-9 * np.exp(np.random.default_rng(2).standard_normal(400))).tolist()
    table = RawTable("t", {"c": cells}, spelled=False)
    codec = TableCodec.fit(table, infer(table, bins=10, draw="tails"), range(400))
    drawn = codec.decode(np.repeat([0, 9], 50)[:, None])["c"]
    assert len(set(drawn)) == 100
    assert (codec.columns[0].codes(drawn) == np.repeat([0, 9], 50)).all()


def test_what_others_are_looked_up_by_has_no_tails() -> None:
    numbers = (np.random.default_rng(0).integers(0, 120, 600) ** 2).tolist()
    table = RawTable("t", {"n": numbers, "root": [number**0.5 for number in numbers]}, spelled=False)
    codec = TableCodec.fit(table, infer(table, bins=20, draw="tails"), range(600), dependent=True)
    assert [each.follows for each in codec.dependents] == ["n"]
    back = codec.decode(np.repeat(np.arange(codec.sizes[0]), 50)[:, None])
    assert set(back["n"]) <= set(numbers)
    assert back["root"] == [number**0.5 for number in back["n"]]  # type: ignore[operator]


def test_own_bins_and_draws_reach_the_columns_and_a_schema_may_say_otherwise(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = RawTable("t", {"a": rng.random(900).tolist(), "b": rng.random(900).tolist()}, spelled=False)
    file = tmp_path / "s.yaml"
    file.write_text("columns: {b: {values: 7, draw: uniform}}")
    codec = TableData(bins=90, draw="tails", schema_path=str(file)).split(table, name="t").table
    assert codec is not None
    assert codec.sizes == (90, 7)
    assert [getattr(column, "draw", None) for column in codec.columns] == ["tails", "uniform"]
    codec.save(tmp_path / "table.json")
    assert TableCodec.load(tmp_path / "table.json") == codec
