"""Columns that follow from another one: which are found, and that the dependence holds in all rows that come back."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from vadd.data import TableData
from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.reading import RawTable
from vadd.kinds.table.schema import infer
from vadd.recipe.recipe import upgraded

ROWS = 240


def table_of(**columns: list[Any]) -> RawTable:
    return RawTable("t", columns, spelled=False)


def codec_of(**columns: list[Any]) -> TableCodec:
    codec = TableData().split(table_of(**columns), name="t").table
    assert codec is not None
    return codec


def found_in(**columns: list[Any]) -> dict[str, str]:
    return {each.column.name: each.follows for each in codec_of(**columns).dependents}


def any_codes(codec: TableCodec, rows: int, seed: int) -> Any:
    """Each value of each position, whether a row of the table has such values together or not."""
    uniforms = np.random.default_rng(seed).random((rows, len(codec.columns)))
    return (uniforms * np.array(codec.sizes)).astype(np.int64)


RNG = np.random.default_rng(0)
CITY = RNG.integers(0, 12, ROWS).tolist()
POPULATION = (RNG.integers(0, 120, ROWS) ** 2).tolist()
"""More numbers than bins, each with several rows."""
NOISE = RNG.integers(0, 5, ROWS).tolist()


@properties
@given(
    kept=st.lists(st.integers(0, 30) | st.none(), min_size=2, max_size=12, unique=True),
    image=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=12, max_size=12),
    seed=st.integers(0, 99),
)
def test_a_derived_column_holds_in_all_rows_that_are_decoded(
    kept: list[int | None], image: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    function = {key: None if key is None else value for key, value in zip(kept, image, strict=False)}
    cells = [kept[n] for n in rng.integers(0, len(kept), ROWS)]
    columns = {"noise": rng.integers(0, 4, ROWS).tolist(), "b": [function[cell] for cell in cells], "a": cells}
    assume(any(cell is not None for cell in cells))
    codec = codec_of(**columns)
    back = codec.decode(any_codes(codec, 300, seed), seed)
    assert list(back) == ["noise", "b", "a"]
    if codec.dependents:
        (dependent,) = codec.dependents
        assert {dependent.column.name, dependent.follows} == {"a", "b"}
        assert set(zip(back["a"], back["b"], strict=True)) <= set(zip(cells, columns["b"], strict=True))
    else:  # no evidence: the column is constant, or nearly so
        counts = [columns["b"].count(value) for value in set(columns["b"])]
        assert len(counts) - (None in columns["b"]) == 1 or max(counts) > 0.9 * ROWS


def test_a_function_of_numbers_in_bins_is_exact_and_counts_as_one_position() -> None:
    logs = [math.log(number + 0.1) for number in POPULATION]
    codec = codec_of(popul=POPULATION, noise=NOISE, logpopul=logs)
    assert [each.line for each in codec.dependents] == ["logpopul follows from popul: filled in, not modelled"]
    assert codec.names == ["popul", "noise", "logpopul"]
    assert len(codec.sizes) == 2
    back = codec.decode(any_codes(codec, 2000, 0))
    assert back["logpopul"] == [math.log(number + 0.1) for number in back["popul"]]  # type: ignore[operator]
    assert set(back["popul"]) <= set(POPULATION)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"name": [f"city {n}" for n in CITY], "code": CITY}, {"code": "name"}),
        ({"coast": [n % 3 == 0 for n in CITY], "city": CITY}, {"coast": "city"}),
        ({"a": CITY, "b": [n // 2 for n in CITY], "c": [n // 4 for n in CITY]}, {"b": "a", "c": "a"}),
        ({"cm": [n + 0.25 for n in range(ROWS)], "inch": [(n + 0.25) / 2.54 for n in range(ROWS)]}, {"inch": "cm"}),
        ({"fall": [-number for number in POPULATION], "rise": POPULATION}, {"rise": "fall"}),
        ({"id": list(range(ROWS)), "city": CITY, "noise": NOISE}, {}),
        ({"id": list(range(ROWS)), "grows": np.cumsum(RNG.integers(1, 9, ROWS)).tolist()}, {}),
        ({"city": CITY, "one": ["x"] * ROWS}, {}),
        ({"city": CITY, "nearly": [0] * (ROWS - 1) + [1]}, {}),
        ({"city": CITY, "exception": [n // 2 for n in CITY[:-1]] + [99]}, {}),
        ({"city": CITY, "gaps": [None if n == 3 else n for n in CITY]}, {}),
        ({"popul": POPULATION, "mixed": [n % 7 for n in POPULATION]}, {}),
        ({"one": [1] * ROWS, "other": ["x"] * ROWS}, {}),
        ({"a": [1, 2], "b": ["x", "y"]}, {}),
    ],
    ids=lambda value: "-".join(value),
)
def test_what_counts_as_a_function(columns: dict[str, list[Any]], found: dict[str, str]) -> None:
    assert found_in(**columns) == found


def test_one_row_has_no_dependences() -> None:
    table = table_of(a=[1], b=["x"])
    assert TableCodec.fit(table, infer(table), [0], dependent=True).dependents == ()


def test_it_is_kept_in_a_run_and_can_be_switched_off(tmp_path: Path) -> None:
    columns = {"name": [f"city {n}" for n in CITY], "noise": NOISE, "code": CITY}
    codec = codec_of(**columns)
    codec.save(tmp_path / "table.json")
    assert TableCodec.load(tmp_path / "table.json") == codec
    plain = TableData(dependent=False).split(table_of(**columns), name="t").table
    assert plain is not None
    assert len(plain.columns) == 3
    plain.save(tmp_path / "plain.json")
    assert "dependents" not in (tmp_path / "plain.json").read_text()
    assert TableCodec.load(tmp_path / "plain.json") == plain


def test_a_recipe_of_a_run_from_before_models_every_column() -> None:
    whole = TableData(path="t.csv").model_dump()
    assert upgraded({"data": whole})["data"]["dependent"] is True
    del whole["dependent"]
    assert upgraded({"data": whole})["data"]["dependent"] is False
    assert "dependent" not in upgraded({"data": {"kind": "table", "path": "t.csv"}})["data"]


def test_conditions_are_translated_where_one_value_stands_for_one() -> None:
    codec = codec_of(name=[f"city {n}" for n in CITY], coast=[n % 3 == 0 for n in CITY], code=CITY)
    assert [each.follows for each in codec.dependents] == ["name", "name"]
    (condition,) = codec.where(["code=7"]).values()
    assert (condition.column, condition.value) == ("name", "city 7")
    assert codec.columns[0].shares(condition).sum() == 1
    for wrong, says in {
        "coast=true": "say what 'name' is",
        "code>=3": "give a range of that column",
        "code=3-5": "give a range of that column",
        "code=77": "no row of the table has code=77",
        "code=x": "no row of the table has code=x",
    }.items():
        with pytest.raises(UserError, match=says):
            codec.where([wrong])


def test_gaps_are_told_by_what_follows_from_them_and_looked_up_by_what_they_follow_from() -> None:
    logs = [math.log(number + 0.1) for number in POPULATION]
    codec = codec_of(popul=POPULATION, noise=NOISE, logpopul=logs)
    known = POPULATION[0]
    rows = table_of(
        popul=[None, known, None, known], noise=[1, 2, 3, None], logpopul=[math.log(known + 0.1), None, None, 5.5]
    )
    gaps = codec.gaps(rows)
    assert (gaps == TO_FILL).tolist() == [[False, False], [False, False], [True, False], [False, True]]
    assert gaps[0, 0] == gaps[1, 0]
    filled = np.where(gaps == TO_FILL, 0, gaps)
    (merged,) = codec.copies(rows, filled[:, None], seed=0)
    assert merged["popul"][:2] == [known, known]
    assert merged["logpopul"][:3] == [math.log(number + 0.1) for number in merged["popul"][:3]]  # type: ignore[operator]
    assert merged["logpopul"][3] == 5.5, "cells that are there are not touched"


def test_a_gap_that_cannot_be_told_is_refused_in_one_line() -> None:
    codec = codec_of(city=[str(n) for n in CITY], coast=[n % 3 == 0 for n in CITY])
    with pytest.raises(UserError, match=r"t, row 1: 'coast' follows from 'city'.* say what 'city' is"):
        codec.gaps(table_of(city=[None], coast=[True]))


def test_evaluations_see_the_columns_as_they_are_decoded() -> None:
    columns = {"name": [f"city {n}" for n in CITY], "noise": NOISE, "code": CITY}
    data = TableData().split(table_of(**columns), name="t")
    whole = TableData(dependent=False).split(table_of(**columns), name="t")
    assert data.table is not None
    assert (data.table.with_dependents(data.train.numpy()) == whole.train.numpy()).all()
    assert (data.table.with_dependents(data.test.numpy()) == whole.test.numpy()).all()
