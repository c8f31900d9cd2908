"""A table and its rows of codes: what a run on a table carries, so that sampling needs no data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.files import write_json
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.table.columns import NOTHING, Column, Condition, parse_condition
from vadd.kinds.table.fitting import column_from_json, fit_column
from vadd.kinds.table.reading import Cell, RawTable
from vadd.kinds.table.schema import Schema
from vadd.words import suggestion

FORMAT = 1
BLOCK = 64
"""Rows that share a generator, so that a row is drawn back alike however many are drawn at a time."""

Columns = dict[str, list[Cell]]
Where = Sequence[str] | Mapping[str, object]
"""``["age=40-49", "sex=F"]`` or ``{"age": "40-49", "sex": "F"}``."""


@dataclass(frozen=True)
class TableCodec:
    """Rows to codes (n, N) and back, a position for each column."""

    columns: tuple[Column, ...]
    left_out: tuple[str, ...] = ()
    """Columns of the table that the model does not know."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(column.size for column in self.columns)

    @property
    def present_sizes(self) -> tuple[int, ...]:
        """How many of them stand for cells that are there: they are the first ones."""
        return tuple(column.present for column in self.columns)

    @property
    def vocab_size(self) -> int:
        return max(2, *self.sizes) if len(self.sizes) > 1 else max(2, self.sizes[0])

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def position(self, name: str, what: str) -> int:
        if name not in self._by_name:
            raise UserError(f"{what}: there is no column {name!r}{suggestion(name, self.names)}")
        return self._by_name[name]

    @classmethod
    def fit(cls, table: RawTable, schema: Schema, training: Sequence[int]) -> "TableCodec":
        """The values of all rows; numbers and rare categories come back from those of the ``training`` rows."""
        kept = {name: spec for name, spec in schema.items() if spec.kind != "skip"}
        if not kept:
            raise UserError(f"{table.source}: every column is left out")
        columns = []
        for name, spec in kept.items():
            cells = table.columns[name]
            learnt = [cells[row] for row in training]
            columns.append(fit_column(name, spec, cells, learnt, table.source, spelled=table.spelled))
        return cls(tuple(columns), tuple(name for name in schema if name not in kept))

    def check_columns(self, table: RawTable) -> None:
        """Refuse a table whose columns are not those of the run."""
        known = {*self.names, *self.left_out}
        for name in table.columns:
            if name not in known:
                raise UserError(
                    f"{table.source} has a column {name!r} that the run does not know{suggestion(name, known)}"
                )
        for name in self.names:
            if name not in table.columns:
                raise UserError(
                    f"{table.source} has no column {name!r}{suggestion(name, table.columns)}; the run has it"
                )

    def encode(self, table: RawTable, gaps: int | None = None) -> Array:
        """(n, N) codes. What is missing and has no code is ``gaps``, by default V, the mask; with ``gaps`` given, what
        has a code is it too.
        """
        self.check_columns(table)
        codes = np.empty((table.rows, len(self.columns)), dtype=np.int64)
        for position, column in enumerate(self.columns):
            try:
                found = column.codes(table.columns[column.name], table.spelled)
            except UserError as error:
                raise UserError(f"{table.source}, {error}") from None
            if gaps is None:
                codes[:, position] = np.where(found == NOTHING, self.vocab_size, found)
            else:
                codes[:, position] = np.where((found == NOTHING) | (found >= column.present), gaps, found)
        return codes

    def gaps(self, table: RawTable) -> Array:
        """The rows of ``table`` with :data:`~vadd.kinds.arrays.TO_FILL` where a cell is missing."""
        return self.encode(table, gaps=TO_FILL)

    def decode(
        self, codes: Array, seed: int = 0, first: int = 0, conditions: Mapping[int, Condition] | None = None
    ) -> Columns:
        """Columns of cells. Where a code stands for several, one is drawn; ``first`` is the number of the first row
        among those of the ``seed``, ``conditions`` hold for the columns at their positions.
        """
        uniforms = _uniforms(seed, first, len(codes), len(self.columns))
        return {
            column.name: column.cells(codes[:, n], uniforms[:, n], (conditions or {}).get(n))
            for n, column in enumerate(self.columns)
        }

    def merged(self, rows: RawTable, gaps: Array, filled: Array, seed: int, first: int = 0) -> Columns:
        """The cells of ``rows`` as they are, and where ``gaps`` are those of ``filled`` (n, N)."""
        drawn = self.decode(filled, seed, first)
        columns: Columns = {name: list(cells) for name, cells in rows.columns.items()}
        for position, name in enumerate(self.names):
            missing = gaps[:, position] == TO_FILL
            columns[name] = [
                new if gap else old for old, new, gap in zip(columns[name], drawn[name], missing, strict=True)
            ]
        return columns

    def where(self, where: Where) -> dict[int, Condition]:
        """What is said of which position."""
        if isinstance(where, Mapping):
            where = [f"{name}={'' if value is None else value}" for name, value in where.items()]
        conditions: dict[int, Condition] = {}
        for text in where:
            condition = parse_condition(text, self.names)
            position = self.position(condition.column, f"--where {text}")
            if position in conditions:
                raise UserError(
                    f"--where says two things of the column {condition.column!r}; join them: {condition.column}=FROM-TO"
                )
            conditions[position] = condition
        return conditions

    def spelled(self, columns: Columns) -> list[list[str]]:
        """The rows of a CSV."""
        by_column = [[column.spell(cell) for cell in columns[column.name]] for column in self.columns]
        return [list(row) for row in zip(*by_column, strict=True)]

    def save(self, file: Path) -> None:
        content = {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "left_out": list(self.left_out),
        }
        write_json(file, content)

    @classmethod
    def load(cls, file: Path) -> "TableCodec":
        try:
            content = json.loads(file.read_text())
            columns = tuple(column_from_json(entry) for entry in content["columns"])
            return cls(columns, tuple(content["left_out"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{file} is damaged") from None


def _uniforms(seed: int, first: int, rows: int, columns: int) -> Array:
    blocks = range(first // BLOCK, -(-(first + rows) // BLOCK))
    drawn = [np.random.default_rng([seed, block]).random((BLOCK, columns)) for block in blocks]
    return np.concatenate(drawn)[first % BLOCK :][:rows]


def data_frame(columns: Columns) -> Any:
    """A pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise UserError("a DataFrame needs pandas: pip install 'vadd[tables]'") from None
    return pandas.DataFrame({name: pandas.Series(cells, dtype=_dtype(cells)) for name, cells in columns.items()})


def _dtype(cells: Sequence[Any]) -> str | None:
    """Integers and booleans with gaps stay what they are; pandas by itself would make floats and objects of them."""
    known = {type(cell) for cell in cells if cell is not None}
    gaps = None in cells
    if known == {bool}:
        return "boolean" if gaps else "bool"
    if known == {int}:
        return "Int64" if gaps else "int64"
    return "float64" if known == {float} else None
