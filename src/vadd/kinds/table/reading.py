"""Tables as they come: CSV, Parquet, pandas and Polars. Cells of a CSV are text; what they mean is for the schema."""

import codecs
import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from vadd.errors import UserError
from vadd.kinds.files import parquet_library
from vadd.words import plural

Cell = str | int | float | bool | date | datetime | None

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".parquet"})
MISSING_WORDS = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"})
"""Cells of a CSV that say that nothing is known."""
DELIMITERS = (",", ";", "\t")
LARGEST_CELL = 1 << 30


@dataclass(frozen=True)
class RawTable:
    """Columns by name, all of the same length. Missing cells are None."""

    source: str
    columns: dict[str, list[Any]]
    spelled: bool
    """Whether the cells are text that may stand for numbers, as in a CSV."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))


def read_table(path: Path) -> RawTable:
    """A .csv, .tsv or .parquet file."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)


def is_frame(found: object) -> bool:
    """Whether it is a DataFrame of pandas or Polars, neither of which is imported to find out."""
    return type(found).__name__ == "DataFrame" and type(found).__module__.split(".")[0] in ("pandas", "polars")


def from_frame(frame: Any, source: str = "the DataFrame") -> RawTable:
    """A DataFrame of pandas or Polars; the index of pandas is not a column."""
    names = [str(name) for name in frame.columns]
    # By place: pandas would look for a column called "0" where its name is the number 0.
    series = [frame.iloc[:, n] if hasattr(frame, "iloc") else frame[:, n] for n in range(len(names))]
    return _table(source, names, [each.to_list() for each in series])


def header_of(path: Path) -> list[str]:
    """The names in the first line of a CSV; none where it cannot be read as one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
    except (OSError, UnicodeDecodeError):
        return []
    return next(iter(csv.reader([line], delimiter=_delimiter(line))), [])


def _plain(cell: Any) -> Cell:
    """Of a cell with a type: nothing, NaN, NaT and NA are None; what is neither a number nor a date is text."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if hasattr(cell, "to_pydatetime"):
        cell = cell.to_pydatetime()
    return cell if isinstance(cell, str | int | float | bool | date) else str(cell)


def _alike(cells: list[Cell]) -> list[Cell]:
    """A column of text and something else is text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) <= 1 or kinds <= {int, float}:
        return cells
    return [None if cell is None else str(cell) for cell in cells]


def _read_parquet(path: Path) -> RawTable:
    parquet = parquet_library(path)
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:  # of which the library's own are
        reason = next(iter(str(error).splitlines()), "it is damaged")
        raise UserError(f"{path} is not a readable Parquet file: {reason}") from None
    return _table(str(path), table.column_names, [column.to_pylist() for column in table.columns])


def _read_csv(path: Path) -> RawTable:
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} is not text in UTF-8: byte 0x{content[error.start]:02x} in line {line}") from None
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = next(reader, None)
        if not header:
            raise UserError(f"{path} is empty: a table begins with a line of column names")
        rows = []
        for number, cells in enumerate(filter(None, reader), start=1):  # blank lines are left out
            if len(cells) != len(header):
                where = f"{path}, row {number} (line {reader.line_num})"
                raise UserError(f"{where} has {plural(len(cells), 'cell')}, the header {len(header)}")
            rows.append([None if cell.strip() in MISSING_WORDS else cell for cell in cells])
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num} is not CSV: {error}") from None
    return _table(str(path), header, [list(cells) for cells in zip(*rows, strict=True)], spelled=True)


def _delimiter(text: str) -> str:
    """The one that the first line has most of; a comma where it has none."""
    first = text.partition("\n")[0]
    return max(DELIMITERS, key=first.count)


def _table(source: str, names: Sequence[str], columns: Sequence[list[Any]], *, spelled: bool = False) -> RawTable:
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise UserError(f"{source}: the column {number} has no name")
        if name in names[: number - 1]:
            raise UserError(f"{source}: two columns are called {name!r}")
    if not columns or not columns[0]:
        raise UserError(f"{source} has no rows")
    cells = columns if spelled else [_alike([_plain(cell) for cell in column]) for column in columns]
    return RawTable(source, dict(zip(names, cells, strict=True)), spelled)
