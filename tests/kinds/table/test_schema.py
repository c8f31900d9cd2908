"""What columns are taken for, and how a schema is edited."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from vadd.data import TableData
from vadd.errors import UserError
from vadd.kinds.table.reading import RawTable
from vadd.kinds.table.schema import identifiers, infer, read_schema, refuse_problems, to_yaml, with_skipped


def spelled(**columns: list[str | None]) -> RawTable:
    return RawTable("t.csv", dict(columns), spelled=True)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "30"], "integer"),
        (["1", "2.5", "1e3"], "real"),
        (["007", "010"], "category"),
        (["1", "x"], "category"),
        (["1", "inf"], "category"),
        (["True", "False"], "boolean"),
        (["yes", "no"], "category"),
        (["2020-01-31", "1999-12-01"], "date"),
        (["2020-1-31", "1999-12-01"], "category"),
        (["31.01.2020"], "date"),
        (["12/25/2020", "01/02/2020"], "date"),
        (["01/02/2020", "03/04/2020"], "category"),
        (["2020-01-31 12:00:00"], "datetime"),
        (["=cmd()", "+1-2"], "category"),
    ],
)
def test_kinds_of_words(cells: list[str | None], kind: str) -> None:
    assert infer(spelled(a=[*cells, None]))["a"].kind == kind


def test_a_schema_is_written_edited_and_read(tmp_path: Path) -> None:
    table = spelled(age=["1", "2", None], city=["a", "b", "b"], id=["x", "y", "z"])
    file = tmp_path / "s.yaml"
    file.write_text(to_yaml(infer(table)))
    assert read_schema(file, table) == infer(table)
    content = yaml.safe_load(file.read_text())
    content["columns"]["age"] |= {"kind": "category", "missing": "unknown"}
    del content["columns"]["age"]["values"]
    content["columns"]["id"] = {"kind": "skip"}
    file.write_text(yaml.safe_dump(content))
    edited = read_schema(file, table)
    assert (edited["age"].kind, edited["age"].missing, edited["id"].kind) == ("category", "unknown", "skip")
    data = TableData(schema_path=str(file)).split(table, name="t")
    assert data.table is not None
    assert data.table.names == ["age", "city"]
    assert data.table.left_out == ("id",)
    assert data.unknowns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("columns: {agee: {kind: real}}", "has no column 'agee', did you mean 'age'"),
        ("columns: {age: {kind: number}}", "kind"),
        ("columns: {age: {valuez: 3}}", "did you mean 'values'"),
        ("columns: {age: {values: 0}}", "values"),
        ("columns: {age: real}", "should have settings"),
        ("- age", "not a schema"),
        ("columns: {", "cannot read the schema"),
    ],
)
def test_bad_schemas_are_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(content)
    with pytest.raises(UserError, match=said):
        read_schema(file, spelled(age=["1", "2"]))


def test_a_kind_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    table = spelled(age=["1", "x"])
    file = tmp_path / "s.yaml"
    file.write_text("columns: {age: {kind: integer}}")
    with pytest.raises(UserError, match="not every cell of the column 'age' is an integer"):
        TableData(schema_path=str(file)).split(table, name="t")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([None] * 30, "nothing but missing values"),
        ([f"name {n}" for n in range(30)], "another text in every row"),
        ([f"{n % 10_001}x" for n in range(20_002)], "10,001 different texts, more than 10,000"),
    ],
)
def test_columns_that_cannot_be_learnt_are_refused_and_can_be_left_out(cells: list[str | None], said: str) -> None:
    table = spelled(bad=cells, good=["a", "b"] * (len(cells) // 2))
    with pytest.raises(UserError, match=said):
        refuse_problems(table, infer(table))
    refuse_problems(table, with_skipped(infer(table), ["bad"], table.source))
    with pytest.raises(UserError, match="no column 'badd', did you mean 'bad'"):
        with_skipped(infer(table), ["badd"], table.source)


@pytest.mark.parametrize(
    ("cells", "names_rows"),
    [
        (list(range(1, 101)), True),
        ([7919 * n % 1009 for n in range(1, 101)], False),
        (np.random.default_rng(0).permutation(100).tolist(), True),
        ([n // 2 for n in range(100)], False),
        ([10**6 * n for n in range(100)], False),
        ([*range(99), None], False),
        (list(range(30)), False),
        ([n + 0.5 for n in range(100)], False),
    ],
)
def test_dense_integers_that_never_repeat_are_identifiers(cells: list[Any], names_rows: bool) -> None:
    """100 numbers below 1,009 all differ with a probability of 0.5%: that is not sure enough."""
    table = RawTable("t", {"n": cells, "x": [0, 1] * (len(cells) // 2)}, spelled=False)
    assert identifiers(table, infer(table)) == ["n"] * names_rows
    alone = RawTable("t", {"n": cells}, spelled=False)
    assert identifiers(alone, infer(alone)) == []
