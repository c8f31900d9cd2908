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
from vadd.kinds.table.dependences import Dependent, find_dependents
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
    """Rows to codes (n, N) and back, a position for each column that does not follow from another one."""

    columns: tuple[Column, ...]
    left_out: tuple[str, ...] = ()
    """Columns of the table that the model does not know."""
    dependents: tuple[Dependent, ...] = ()
    """Columns that are looked up when rows are decoded; in the order of the table."""

    @cached_property
    def shown(self) -> tuple[Column, ...]:
        """All columns that rows are decoded to, in the order of the table."""
        columns = list(self.columns)
        for each in self.dependents:
            columns.insert(each.place, each.column)
        return tuple(columns)

    @property
    def names(self) -> list[str]:
        """Of all columns that are shown."""
        return [column.name for column in self.shown]

    @cached_property
    def origins(self) -> list[int]:
        """For each column that is shown the position that it comes from."""
        follows = {each.column.name: each.follows for each in self.dependents}
        return [self._by_name[follows.get(name, name)] for name in self.names]

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
        return {column.name: position for position, column in enumerate(self.columns)}

    def _source(self, dependent: Dependent) -> Column:
        return self.columns[self._by_name[dependent.follows]]

    @classmethod
    def fit(cls, table: RawTable, schema: Schema, training: Sequence[int], *, dependent: bool = False) -> "TableCodec":
        """The values of all rows; numbers and rare categories come back from those of the ``training`` rows. Where it
        is asked for, columns that are ``dependent`` are no positions.
        """
        kept = {name: spec for name, spec in schema.items() if spec.kind != "skip"}
        if not kept:
            raise UserError(f"{table.source}: every column is left out")
        columns = []
        for name, spec in kept.items():
            cells = table.columns[name]
            learnt = [cells[row] for row in training]
            columns.append(fit_column(name, spec, cells, learnt, table.source, spelled=table.spelled))
        dependents = find_dependents(columns, table.columns) if dependent else []
        places = {each.place for each in dependents}
        modelled = tuple(column for place, column in enumerate(columns) if place not in places)
        return cls(modelled, tuple(name for name in schema if name not in kept), tuple(dependents))

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
        return self.encode(self._given(table), gaps=TO_FILL)

    def _given(self, table: RawTable) -> RawTable:
        """With the missing cells that a column that follows from theirs tells."""
        self.check_columns(table)
        columns = dict(table.columns)
        for each in self.dependents:
            columns[each.follows] = [
                each.determining_cell(self._source(each), given, f"{table.source}, row {row}")
                if cell is None and given is not None
                else cell
                for row, (cell, given) in enumerate(
                    zip(columns[each.follows], columns[each.column.name], strict=True), start=1
                )
            ]
        return RawTable(table.source, columns, table.spelled)

    def decode(
        self, codes: Array, seed: int = 0, first: int = 0, conditions: Mapping[int, Condition] | None = None
    ) -> Columns:
        """Columns of cells. Where a code stands for several, one is drawn; ``first`` is the number of the first row
        among those of the ``seed``, ``conditions`` hold for the columns at their positions.
        """
        uniforms = _uniforms(seed, first, len(codes), len(self.columns))
        cells = {
            column.name: column.cells(codes[:, n], uniforms[:, n], (conditions or {}).get(n))
            for n, column in enumerate(self.columns)
        }
        cells |= {each.column.name: each.look_up(self._source(each), cells[each.follows]) for each in self.dependents}
        return {name: cells[name] for name in self.names}

    def with_dependents(self, codes: Array) -> Array:
        """The codes (n, N) of the positions, and those of the columns that follow from them, as they are decoded: a
        column for each that is shown.
        """
        if not self.dependents:
            return codes
        uniforms = _uniforms(0, 0, len(codes), len(self.columns))
        found = {column.name: codes[:, n] for n, column in enumerate(self.columns)}
        for each in self.dependents:
            n = self._by_name[each.follows]
            cells = self._source(each).cells(codes[:, n], uniforms[:, n])
            found[each.column.name] = each.column.codes(each.look_up(self._source(each), cells), spelled=False)
        return np.stack([found[name] for name in self.names], axis=1)

    def merged(self, rows: RawTable, filled: Array, seed: int, first: int = 0) -> Columns:
        """The cells of ``rows`` as they are, and where they are missing those of ``filled`` (n, N)."""
        drawn = self.decode(filled, seed, first)
        columns: Columns = {name: list(cells) for name, cells in self._given(rows).columns.items()}
        for column in self.columns:
            columns[column.name] = _completed(columns[column.name], drawn[column.name])
        for each in self.dependents:
            name, known = each.column.name, columns[each.follows]
            asked = [row for row, cell in enumerate(columns[name]) if cell is None]
            found = each.look_up(self._source(each), [known[row] for row in asked])
            for row, cell in zip(asked, found, strict=True):
                columns[name][row] = cell
        return columns

    def where(self, where: Where) -> dict[int, Condition]:
        """What is said of which position."""
        if isinstance(where, Mapping):
            where = [f"{name}={'' if value is None else value}" for name, value in where.items()]
        conditions: dict[int, Condition] = {}
        for text in where:
            condition = parse_condition(text, self.names)
            if condition.column not in self.names:
                nearest = suggestion(condition.column, self.names)
                raise UserError(f"--where {condition.text}: there is no column {condition.column!r}{nearest}")
            for each in self.dependents:
                if each.column.name == condition.column:
                    condition = each.translated(condition, self._source(each))
            position = self._by_name[condition.column]
            if position in conditions:
                raise UserError(f"--where says two things of the column {condition.column!r}; join them: FROM-TO")
            conditions[position] = condition
        return conditions

    def spelled(self, columns: Columns) -> list[list[str]]:
        """The rows of a CSV."""
        by_column = [[column.spell(cell) for cell in columns[column.name]] for column in self.shown]
        return [list(row) for row in zip(*by_column, strict=True)]

    def save(self, file: Path) -> None:
        content = {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "left_out": list(self.left_out),
        }
        if self.dependents:
            content["dependents"] = [each.to_json() for each in self.dependents]
        write_json(file, content)

    @classmethod
    def load(cls, file: Path) -> "TableCodec":
        try:
            content = json.loads(file.read_text())
            columns = tuple(column_from_json(entry) for entry in content["columns"])
            dependents = tuple(_dependent_from_json(entry) for entry in content.get("dependents", []))
            return cls(columns, tuple(content["left_out"]), dependents)
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{file} is damaged") from None


def _dependent_from_json(content: dict[str, Any]) -> Dependent:
    pairs = tuple((key, value) for key, value in content["pairs"])
    return Dependent(column_from_json(content["column"]), content["follows"], pairs, content["place"])


def _completed(known: list[Cell], drawn: list[Cell]) -> list[Cell]:
    return [new if old is None else old for old, new in zip(known, drawn, strict=True)]


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
