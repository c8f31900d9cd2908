"""Columns that know their values: cells to codes 0..size-1 and back. The code of a missing cell is the last one."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.table.reading import Cell
from vadd.kinds.table.schema import ColumnSpec, Kind
from vadd.words import check_known, shortened, suggestion

NOTHING = -1
"""The code of a missing cell in a column that has no value for it."""
Gaps = Literal["value", "unknown", "never"]
"""Missing cells are a value of their own, are unknown, or do not occur."""
KIND_NAMES = {"integer": "an integer", "real": "a number", "date": "a date", "datetime": "a date and time"}

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*-\s*({_NUMBER})|(.*?)\s*\.\.\s*(.*)")


@dataclass(frozen=True)
class Condition:
    """``sex=F``, ``city=Ulm|Bonn``, ``age=40-49``, ``born=1990-01-01..1999-12-31``, ``age>=40``; ``city=`` is a missing
    cell.
    """

    text: str
    column: str
    operator: str
    value: str

    @property
    def missing(self) -> bool:
        return self.operator == "=" and not self.value

    def limits(self) -> tuple[str | None, str | None]:
        """The first and the last number, as they are written; None where there is no end."""
        if self.operator != "=":
            return (self.value, None) if self.operator == ">=" else (None, self.value)
        found = _RANGE.fullmatch(self.value)
        return (found[1] or found[3] or None, found[2] or found[4] or None) if found else (self.value, self.value)


def parse_condition(text: str, names: Iterable[str] = ()) -> Condition:
    """Column ``names`` may hold = themselves: the longest name that fits is meant."""
    known = map(re.escape, sorted(names, key=len, reverse=True))
    parts = re.fullmatch(rf"({'|'.join([*known, '.+?'])})\s*(>=|<=|=)(.*)", text, re.DOTALL)
    if parts is None:
        raise UserError(f"--where takes COLUMN=VALUE, COLUMN=FROM-TO, COLUMN>=FROM or COLUMN<=TO, not {text!r}")
    return Condition(shortened(text), parts[1].strip(), parts[2], parts[3].strip())


@dataclass(frozen=True)
class Column(ABC):
    """What every column can do. A *key* is what a cell stands for, as JSON has it."""

    name: str
    kind: Kind
    missing: Gaps

    @property
    @abstractmethod
    def present(self) -> int:
        """How many codes stand for cells that are there."""

    @property
    def size(self) -> int:
        return self.present + (self.missing == "value")

    @abstractmethod
    def key(self, cell: Any) -> Any:
        """Of a cell of a CSV or a DataFrame, None of a missing one; ValueError where it is of another kind."""

    def cell_of(self, key: Any) -> Cell:
        """The cell that comes back for a key."""
        cell: Cell = key
        return cell

    def codes(self, cells: Sequence[Any]) -> Array:
        """Cells to codes, :data:`NOTHING` for missing ones that have no code."""
        nothing = self.present if self.missing == "value" else NOTHING
        found = np.empty(len(cells), dtype=np.int64)
        for row, cell in enumerate(cells):
            try:
                found[row] = nothing if cell is None else self._code(self.key(cell))
            except (ValueError, KeyError):
                values = f"among its {self.present} values{suggestion(str(cell), self.labels())}"
                what = f"row {row + 1}, column {self.name!r}: {str(cell)!r}"
                raise UserError(f"{what} is not {KIND_NAMES.get(self.kind, values)}") from None
        return found

    @abstractmethod
    def _code(self, key: Any) -> int: ...

    def cells(self, codes: Array, uniforms: Array, condition: Condition | None = None) -> list[Cell]:
        """Codes back to cells; where a code stands for several, by the ``uniforms`` in [0, 1)."""
        found: list[Cell] = [None] * len(codes)
        for code in np.unique(codes[codes < self.present]).tolist():
            rows = np.flatnonzero(codes == code)
            keys = self._drawn(code, uniforms[rows], None if condition is None or condition.missing else condition)
            for row, key in zip(rows.tolist(), keys, strict=True):
                found[row] = self.cell_of(key)
        return found

    @abstractmethod
    def _drawn(self, code: int, uniforms: Array, condition: Condition | None) -> list[Any]: ...

    def shares(self, condition: Condition) -> Array:
        """For each code which share of it fulfils the condition: (size,)."""
        if condition.missing and self.missing != "value":
            raise UserError(f"--where {condition.text}: the column {self.name!r} has no missing cells")
        shares = [0.0] * self.present if condition.missing else self._shares(condition)
        return np.array([*shares, float(condition.missing)][: self.size])

    @abstractmethod
    def _shares(self, condition: Condition) -> list[float]: ...

    def labels(self) -> list[str]:
        """What the codes are called, for tables and pictures."""
        return [*self._labels(), "(missing)"][: self.size]

    @abstractmethod
    def _labels(self) -> list[str]: ...

    def spell(self, cell: Cell) -> str:
        """A cell as it stands in a CSV."""
        return "" if cell is None else str(cell)


def drawn_by_counts(counted: Sequence[tuple[Any, int]], uniforms: Array) -> list[Any]:
    """Keys as often as they are counted."""
    limits = np.cumsum([count for _, count in counted])
    chosen = np.searchsorted(limits, uniforms * limits[-1], side="right")
    return [counted[place][0] for place in chosen.tolist()]


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Categories by frequency; the rare ones share the code after them and come back as often as they were there."""

    values: tuple[Any, ...]
    rare: tuple[tuple[Any, int], ...] = ()
    spellings: tuple[str, str] | None = None
    """Of false and true, where a CSV has them."""

    @property
    def present(self) -> int:
        return len(self.values) + bool(self.rare)

    def key(self, cell: Any) -> Any:
        if self.kind == "boolean":
            return {"true": True, "false": False}.get(str(cell).lower(), cell)
        return None if cell is None else str(cell)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        codes = {value: code for code, value in enumerate(self.values)}
        return codes | {value: len(self.values) for value, _ in self.rare}

    def _code(self, key: Any) -> int:
        # A category that no row has is as rare as can be.
        return self._codes.get(key, len(self.values)) if self.rare else self._codes[key]

    def _drawn(self, code: int, uniforms: Array, condition: Condition | None) -> list[Any]:
        if code < len(self.values):
            return [self.values[code]] * len(uniforms)
        wanted = self._codes.keys() if condition is None else self._wanted(condition)
        return drawn_by_counts([pair for pair in self.rare if pair[0] in wanted] or self.rare, uniforms)

    def _shares(self, condition: Condition) -> list[float]:
        wanted = self._wanted(condition)
        shares = [float(value in wanted) for value in self.values]
        if self.rare:
            inside = sum(count for value, count in self.rare if value in wanted)
            shares.append(inside / sum(count for _, count in self.rare))
        return shares

    def _wanted(self, condition: Condition) -> set[Any]:
        if condition.operator != "=":
            raise UserError(f"--where {condition.text}: {self.name!r} is not a number; give its values with =")
        # A value may hold the sign that stands between values.
        whole = self.key(condition.value)
        wanted = {whole} if whole in self._codes else {self.key(word) for word in condition.value.split("|")}
        said = f"--where {condition.text}: the column {self.name!r} has no value"
        check_known(said, map(str, wanted - self._codes.keys()), map(str, self._codes))
        return wanted

    def _labels(self) -> list[str]:
        return [*map(str, self.values), "(rare)"][: self.present]

    def spell(self, cell: Cell) -> str:
        return self.spellings[cell] if isinstance(cell, bool) and self.spellings is not None else super().spell(cell)

    @classmethod
    def fit(
        cls, name: str, spec: ColumnSpec, cells: Sequence[Any], training: Sequence[Any], missing: Gaps
    ) -> "CategoryColumn":
        """Those of all ``cells``; how often rare ones come back is counted in those of the ``training`` rows."""
        column = cls(name, spec.kind, missing, ())
        counts = Counter(column.key(cell) for cell in cells if cell is not None)
        # Ties by the value itself, so that the order of the rows does not matter.
        ordered = sorted(counts, key=lambda value: (-counts[value], str(value)))
        most = len(ordered) if len(ordered) <= spec.values else spec.values - 1
        kept, rest = ordered[:most], ordered[most:]
        learnt = Counter(column.key(cell) for cell in training if cell is not None)
        rare = [(value, learnt[value]) for value in rest if learnt[value]] or [(value, 1) for value in rest]
        spellings = None
        if spec.kind == "boolean":
            words = {str(cell).lower(): cell for cell in cells if isinstance(cell, str)}
            spellings = (words.get("false", "false"), words.get("true", "true")) if words else None
        return cls(name, spec.kind, missing, tuple(kept), tuple(rare), spellings)
