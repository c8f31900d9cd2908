"""A table and its rows of codes: what a run on a table carries, so that sampling needs no data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from vadd.errors import UserError, optional
from vadd.files import write_json
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.table.columns import NOTHING, Condition, parse_condition
from vadd.kinds.table.dependences import Dependent, find_dependents
from vadd.kinds.table.numbers import AnyColumn, NumberColumn, fit_column
from vadd.kinds.table.reading import Cell, RawTable
from vadd.kinds.table.schema import Schema
from vadd.words import check_known

FORMAT = 1
BLOCK = 64
"""Rows that share a generator, so that a row is drawn back alike however many are drawn at a time."""

Columns = dict[str, list[Cell]]
Where = Sequence[str] | Mapping[str, object]
"""``["age=40-49", "sex=F"]`` or ``{"age": "40-49", "sex": "F"}``."""


@dataclass(frozen=True)
class TableCodec:
    """Rows to codes (n, N) and back, a position for each column that does not follow from another one."""

    columns: tuple[AnyColumn, ...]
    left_out: tuple[str, ...] = ()
    """Columns of the table that the model does not know."""
    dependents: tuple[Dependent, ...] = ()
    """Columns that are looked up when rows are decoded; in the order of the table."""

    @cached_property
    def shown(self) -> tuple[AnyColumn, ...]:
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
        return max(2, *self.sizes)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {column.name: position for position, column in enumerate(self.columns)}

    def _source(self, dependent: Dependent) -> AnyColumn:
        return self.columns[self._by_name[dependent.follows]]

    def _look_up(self, cells: Columns) -> None:
        """The missing cells of the columns that follow from others."""
        for each in self.dependents:
            pairs = zip(cells[each.column.name], cells[each.follows], strict=True)
            source = self._source(each)
            cells[each.column.name] = [each.look_up(source, known) if old is None else old for old, known in pairs]

    @classmethod
    def fit(cls, table: RawTable, schema: Schema, training: Sequence[int], *, dependent: bool = False) -> "TableCodec":
        """The values of all rows; numbers and rare categories come back from those of the ``training`` rows. Where it
        is asked for, columns that are ``dependent`` are no positions.
        """
        kept = {name: spec for name, spec in schema.items() if spec.kind != "skip"}
        if not kept:
            raise UserError(f"{table.source}: every column is left out; keep at least one")
        columns = []
        for name, spec in kept.items():
            cells = table.columns[name]
            learnt = [cells[row] for row in training]
            columns.append(fit_column(name, spec, cells, learnt, table.source, spelled=table.spelled))
        dependents = find_dependents(columns, table.columns) if dependent else []
        places, followed = {each.place for each in dependents}, {each.follows for each in dependents}
        modelled = [column for place, column in enumerate(columns) if place not in places]
        for place, column in enumerate(modelled):
            if isinstance(column, NumberColumn) and column.draw == "tails":
                # What others are looked up by must come back as it was.
                follows = column.name in followed
                modelled[place] = replace(column, draw="values") if follows else column.with_tails()
        return cls(tuple(modelled), tuple(name for name in schema if name not in kept), tuple(dependents))

    def check_columns(self, table: RawTable) -> None:
        """Refuse a table whose columns are not those of the run."""
        known = [*self.names, *self.left_out]
        check_known(f"{table.source}: the run does not know the column", table.columns, known)
        check_known(f"{table.source} has no column", self.names, table.columns)

    def _codes(self, table: RawTable) -> Array:
        self.check_columns(table)
        try:
            return np.stack([column.codes(table.columns[column.name]) for column in self.columns], axis=1)
        except UserError as error:
            raise UserError(f"{table.source}, {error}") from None

    def encode(self, table: RawTable) -> Array:
        """(n, N) codes. What is missing and has no code is V, the mask."""
        codes = self._codes(table)
        return np.where(codes == NOTHING, self.vocab_size, codes)

    def gaps(self, table: RawTable) -> Array:
        """The rows of ``table`` with :data:`~vadd.kinds.arrays.TO_FILL` where a cell is missing."""
        codes = self._codes(self._given(table))
        return np.where((codes == NOTHING) | (codes >= self.present_sizes), TO_FILL, codes)

    def _given(self, table: RawTable) -> RawTable:
        """With the missing cells that a column that follows from theirs tells."""
        self.check_columns(table)
        columns = dict(table.columns)
        for each in self.dependents:
            columns[each.follows] = list(columns[each.follows])
            for row, given in enumerate(columns[each.column.name]):
                if given is not None and columns[each.follows][row] is None:
                    what = f"{table.source}, row {row + 1}"
                    columns[each.follows][row] = each.determining_cell(self._source(each), given, what)
        return RawTable(table.source, columns, table.spelled)

    def decode(
        self, codes: Array, seed: int = 0, first: int = 0, conditions: Mapping[int, Condition] | None = None
    ) -> Columns:
        """Columns of cells. Where a code stands for several, one is drawn; ``first`` is the number of the first row
        among those of the ``seed``, ``conditions`` hold for the columns at their positions.
        """
        uniforms = _uniforms(seed, first, len(codes), len(self.columns))
        cells: Columns = {name: [None] * len(codes) for name in self.names}
        for n, column in enumerate(self.columns):
            cells[column.name] = column.cells(codes[:, n], uniforms[:, n], (conditions or {}).get(n))
        self._look_up(cells)
        return cells

    def with_dependents(self, codes: Array) -> Array:
        """The codes (n, N) of the positions, and those of the columns that follow from them, as they are decoded: a
        column for each that is shown.
        """
        if not self.dependents:
            return codes
        cells = self.decode(codes)
        columns = [
            codes[:, self._by_name[column.name]] if column.name in self._by_name else column.codes(cells[column.name])
            for column in self.shown
        ]
        return np.stack(columns, axis=1)

    def copies(self, rows: RawTable, filled: Array, seed: int) -> list[Columns]:
        """A table for each completion (n, count, N): the cells that were there as they are, the others filled."""
        given, copies = self._given(rows).columns, []
        for number in range(filled.shape[1]):
            columns = self.decode(filled[:, number], seed, first=number * len(filled))
            copy: Columns = dict(given)
            for name in self._by_name:
                pairs = zip(given[name], columns[name], strict=True)
                copy[name] = [new if old is None else old for old, new in pairs]
            self._look_up(copy)
            copies.append(copy)
        return copies

    def where(self, where: Where) -> dict[int, Condition]:
        """What is said of which position."""
        if isinstance(where, Mapping):
            where = [f"{name}={'' if value is None else value}" for name, value in where.items()]
        conditions: dict[int, Condition] = {}
        for text in where:
            condition = parse_condition(text, self.names)
            check_known(f"--where {condition.text}: there is no column", [condition.column], self.names)
            for each in self.dependents:
                if each.column.name == condition.column:
                    condition = each.translated(condition, self._source(each))
            position = self._by_name[condition.column]
            if position in conditions:
                raise UserError(f"--where names the column {condition.column!r} twice; join both, like FROM-TO")
            conditions[position] = condition
        return conditions

    def spelled(self, columns: Columns) -> list[list[str]]:
        """The rows of a CSV."""
        by_column = [[column.spell(cell) for cell in columns[column.name]] for column in self.shown]
        return [list(row) for row in zip(*by_column, strict=True)]

    def save(self, file: Path) -> None:
        defaults = (("text", False), ("dependents", ()))
        content = asdict(self, dict_factory=lambda fields: dict(field for field in fields if field not in defaults))
        write_json(file, {"format": FORMAT, **content})

    @classmethod
    def load(cls, file: Path) -> "TableCodec":
        try:
            return TypeAdapter(cls).validate_json(file.read_bytes())
        except (OSError, ValueError):
            raise UserError(f"{file} is damaged") from None


def _uniforms(seed: int, first: int, rows: int, columns: int) -> Array:
    blocks = range(first // BLOCK, -(-(first + rows) // BLOCK))
    drawn = [np.random.default_rng([seed, block]).random((BLOCK, columns)) for block in blocks]
    return np.concatenate(drawn)[first % BLOCK :][:rows]


def data_frame(columns: Columns) -> Any:
    """A pandas DataFrame."""
    pandas = optional("pandas", "a DataFrame needs pandas", "tables")
    return pandas.DataFrame({name: pandas.Series(cells, dtype=_dtype(cells)) for name, cells in columns.items()})


_DTYPES = {bool: ("bool", "boolean"), int: ("int64", "Int64"), float: ("float64", "float64")}
"""Without gaps and with them."""


def _dtype(cells: Sequence[Any]) -> str | None:
    """Integers and booleans with gaps stay what they are; pandas by itself would make floats and objects of them."""
    known = {type(cell) for cell in cells if cell is not None}
    return _DTYPES[known.pop()][None in cells] if len(known) == 1 and known <= _DTYPES.keys() else None
