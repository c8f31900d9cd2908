"""Examples that are rows of a table, tables with missing cells, and how both are written. Parquet needs pyarrow, which
the extra ``tables`` brings.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.files import whole_path, write_whole, writing
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.files import SampleFile, Write, counted, csv_lines, encoded_file, parquet_library
from vadd.kinds.gaps import MOST_SHOWN, Gaps, Line
from vadd.kinds.gaps import Draw as DrawRows
from vadd.kinds.kind import TABLE, How, Kind
from vadd.kinds.table.codec import Columns, TableCodec
from vadd.kinds.table.columns import Column, Condition
from vadd.kinds.table.numbers import NumberColumn
from vadd.kinds.table.reading import Cell, RawTable, read_table

IMPUTATION = "imputation"
"""The column that tells the copies of a table apart."""


@dataclass(frozen=True)
class TableKind(Kind):
    codec: TableCodec = field(kw_only=True, compare=False)

    name, noun = "table", "rows of a table"
    suffixes = (".csv", ".parquet", ".npy")
    file = "FILE.csv"
    try_out = ("-n 1000", "--steps 1", "--out synthetic.csv")

    @property
    def ordered(self) -> tuple[int, ...]:
        return tuple(each.present if isinstance(each, NumberColumn) else 0 for each in self.codec.columns)

    @property
    def parts(self) -> list[str]:
        notes = {"value": ", missing cells are one of them", "unknown": ", missing cells are unknown", "never": ""}
        columns = [f"{each.name}: {each.kind}, {each.size} values{notes[each.missing]}" for each in self.codec.columns]
        columns += [each.line for each in self.codec.dependents]
        return [*columns, *(f"{name}: left out" for name in self.codec.left_out)]

    def decode(self, tokens: Array, how: How = How(), first: int = 0) -> Columns:  # noqa: B008  # frozen
        return self.codec.decode(np.asarray(tokens), how.seed, first, how.conditions)

    def rows(self, tokens: Array, how: How = How(), first: int = 0) -> list[list[str]]:  # noqa: B008  # frozen
        """The same as rows of a CSV."""
        return self.codec.spelled(self.decode(tokens, how, first))

    def lines(self, tokens: Array, how: How = How(), first: int = 0) -> list[str]:  # noqa: B008  # frozen
        header = [] if first else [self.codec.names]
        return csv_lines([*header, *self.rows(tokens, how, first)]).splitlines()

    def text_file(self, out: Path, n: int, how: How) -> SampleFile:
        if out.suffix == ".parquet":
            return parquet_file(out, self.codec.shown, lambda tokens, first: self.decode(tokens, how, first))
        header = csv_lines([self.codec.names]).encode()
        return encoded_file(out, lambda tokens, first: csv_lines(self.rows(tokens, how, first)).encode(), header)

    def where(self, conditions: Sequence[str] | Mapping[str, object]) -> dict[int, Condition]:
        return self.codec.where(conditions)

    def label_number(self, label: str | int | None) -> int | None:
        raise UserError("a table has columns instead of labels: give --where COLUMN=VALUE (in Python where=)")

    def fill_table(self, file: Path, seed: int = 0) -> "TableGaps":
        rows = read_table(file)
        if IMPUTATION in rows.columns and IMPUTATION not in self.codec.names:
            raise UserError(f"{file} has a column {IMPUTATION!r}, as filled tables have; name one with gaps")
        gaps = TableGaps(self, self.codec.gaps(rows), rows, seed)
        if not any(None in rows.columns[name] for name in self.codec.names):
            raise UserError(f"there is nothing to fill in {file}: no cell is missing")
        return gaps

    def save(self, folder: Path, fingerprint: str) -> None:
        file = folder / TABLE
        if not file.is_file():
            self.codec.save(file)
        elif TableCodec.load(file) != self.codec:
            raise UserError(f"{folder} was started with a table of other values; choose another --out")
        super().save(folder, fingerprint)

    def copy_files(self, folder: Path, target: Path) -> None:
        shutil.copy(folder / TABLE, target)


@dataclass(frozen=True)
class TableGaps(Gaps):
    kind: TableKind
    table: RawTable
    seed: int
    suffixes = (".csv", ".parquet")

    @property
    def allowed(self) -> tuple[int, ...]:
        # A gap is to be filled with something, also where the model knows "missing" as a value.
        return self.kind.codec.present_sizes

    def lines(self, filled: Array) -> Iterator[Line]:
        rows = self._rows(filled)
        for line in csv_lines(rows[: MOST_SHOWN + 1]).splitlines():
            yield [(line, False)]
        if len(rows) > MOST_SHOWN + 1:
            yield [(f"... {len(rows) - MOST_SHOWN - 1} more; write them all with --out FILE.csv", False)]

    def write(self, filled: Array, out: Path, draw: DrawRows | None = None) -> None:
        if out.suffix == ".csv":
            write_whole(out, csv_lines(self._rows(filled)))
            return
        columns = self._columns(filled)
        known = self.kind.codec.shown if self.table.spelled else ()
        for column in known:  # cells of a CSV have no types
            columns[column.name] = [column.cell_of(column.key(cell)) for cell in columns[column.name]]
        write_parquet(out, columns, known)

    def _columns(self, filled: Array) -> Columns:
        """The copies of the table one below the other, numbered where there are several."""
        copies = self.kind.codec.copies(self.table, filled, self.seed)
        columns: Columns = {name: [cell for copy in copies for cell in copy[name]] for name in self.table.columns}
        numbers: list[Cell] = [n for n, _ in enumerate(copies, start=1) for _ in range(self.table.rows)]
        return {IMPUTATION: numbers} | columns if len(copies) > 1 else columns

    def _rows(self, filled: Array) -> list[list[Any]]:
        """With names; cells that were there are as they were."""
        columns = self._columns(filled)
        for column in self.kind.codec.shown:
            cells = columns[column.name]
            columns[column.name] = [cell if isinstance(cell, str) else column.spell(cell) for cell in cells]
        return [list(columns), *map(list, zip(*columns.values(), strict=True))]

    def probability_rows(self, filled: Array, chance: Array) -> list[list[str]]:
        """For each filled cell: row, column, value, its probability ``chance`` (n, N, V), and the copy where there are
        several.
        """
        several, codec = filled.shape[1] > 1, self.kind.codec
        rows = [[IMPUTATION] * several + ["row", "column", "value", "probability"]]
        labels = [column.labels() for column in codec.columns]
        for number in range(filled.shape[1]):
            for row, position in np.argwhere(self.x == TO_FILL).tolist():
                code = int(filled[row, number, position])
                cell = [str(row + 1), codec.columns[position].name, labels[position][code]]
                rows.append([str(number + 1)] * several + [*cell, f"{chance[row, position, code]:.6g}"])
        return rows


def arrow_table(columns: Mapping[str, Sequence[Any]], known: Sequence[Column] = ()) -> Any:
    """Those that are ``known`` with their types, others as they are."""
    import pyarrow as arrow

    types = {
        "category": arrow.string(),
        "boolean": arrow.bool_(),
        "integer": arrow.int64(),
        "real": arrow.float64(),
        "date": arrow.date32(),
        "datetime": arrow.timestamp("us"),
    }
    as_text = {each.name for each in known if isinstance(each, NumberColumn) and each.text}
    kinds = {each.name: types["category" if each.name in as_text else each.kind] for each in known}
    return arrow.table({name: arrow.array(list(cells), kinds.get(name)) for name, cells in columns.items()})


@contextmanager
def parquet_file(out: Path, known: Sequence[Column], decode: Callable[[Array, int], Columns]) -> Iterator[Write]:
    """For samples; ``decode`` gets them and the number of the first of them."""
    schema = arrow_table({column.name: () for column in known}, known).schema
    with writing(out), whole_path(out) as part, parquet_library(out).ParquetWriter(part, schema) as writer:
        yield counted(lambda tokens, first: writer.write_table(arrow_table(decode(tokens, first), known)))


def write_parquet(out: Path, columns: Mapping[str, Sequence[Any]], known: Sequence[Column] = ()) -> None:
    """See :func:`arrow_table`."""
    with whole_path(out) as part:
        parquet_library(out).write_table(arrow_table(columns, known), part)
