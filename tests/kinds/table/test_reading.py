"""Tables as files and as DataFrames; what is wrong with one is named by row and column."""

import sys
from datetime import date, datetime
from pathlib import Path

import pandas
import polars
import pytest

from vadd.errors import UserError
from vadd.kinds.table.reading import from_frame, header_of, is_frame, read_table


def test_cells_of_a_csv_are_text_or_missing(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('\ufeffa,b c,"d,e"\r\n1,"x\ny",=cmd()\r\n\r\nNA,?,""\r\n', encoding="utf-8", newline="")
    table = read_table(file)
    assert table.columns == {"a": ["1", None], "b c": ["x\ny", None], "d,e": ["=cmd()", None]}
    assert table.rows == 2


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_delimiters_are_seen_in_the_header(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "t.tsv"
    file.write_text(f"a{mark}b\n1,5{mark}2\n")
    assert read_table(file).columns == {"a": ["1,5"], "b": ["2"]}
    assert header_of(file) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n1,2\n3\n", r"row 2 \(line 3\) has 1 cell, the header 2"),
        (b"a,b\n1,2,9\n", r"row 1 \(line 2\) has 3 cells, the header 2"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b"a,\n1,2\n", "the column 2 has no name"),
        ("a,b\n1,caf\xe9\n".encode("latin-1"), "not text in UTF-8: byte 0xe9 in line 2"),
        (b"a,b\n1,2\n\n3,\xe9\n", "byte 0xe9 in line 4"),
        (b'a,b\n1,"2\n', "line 2 is not CSV"),
    ],
)
def test_what_is_wrong_with_a_csv_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_table(file)


def test_frames_of_both_kinds_are_tables() -> None:
    born = [datetime(2020, 1, 2, 3, 4), None]
    content = {"n": [1, 2], "x": [0.5, None], "s": ["a", None], "b": [True, False], "t": born}
    expected = {"n": [1, 2], "x": [0.5, None], "s": ["a", None], "b": [True, False], "t": born}
    for frame in (pandas.DataFrame(content), polars.DataFrame(content)):
        assert is_frame(frame)
        assert from_frame(frame).columns == expected
    assert not is_frame(content)
    days = polars.DataFrame({"day": [date(2020, 1, 2)]})
    assert from_frame(days).columns == {"day": [date(2020, 1, 2)]}
    with pytest.raises(UserError, match="no rows"):
        from_frame(pandas.DataFrame({"a": []}))


def test_parquet_is_read_and_damage_is_told(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"n": [1, None], "s": ["a", None]})
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns == {"n": [1.0, None], "s": ["a", None]}
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table(tmp_path / "bad.parquet")
    with pytest.raises(UserError, match="there is no file"):
        read_table(tmp_path / "none.csv")


def test_without_pyarrow_parquet_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match=r"pip install 'vadd\[tables\]'"):
        read_table(tmp_path / "t.parquet")
