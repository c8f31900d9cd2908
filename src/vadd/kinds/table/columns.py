"""Columns that know their values: cells to codes 0..size-1 and back. The code of a missing cell is the last one."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.table.reading import Cell
from vadd.kinds.table.schema import Kind
from vadd.words import shortened, suggestion

NOTHING = -1
"""The code of a missing cell in a column that has no value for it."""
Gaps = Literal["value", "unknown", "never"]
"""Missing cells are a value of their own, are unknown, or there are none."""


_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*-\s*({_NUMBER})")
_PARTS = re.compile(r"(.+?)(>=|<=|=)(.*)", re.DOTALL)


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

    @property
    def words(self) -> list[str] | None:
        """The values of a column of categories; None where this can only be a range."""
        return self.value.split("|") if self.operator == "=" else None

    def limits(self) -> tuple[str | None, str | None]:
        """The first and the last number, as they are written; None where there is no end."""
        if self.operator == ">=":
            return self.value, None
        if self.operator == "<=":
            return None, self.value
        if ".." in self.value:
            low, _, high = self.value.partition("..")
            return low.strip() or None, high.strip() or None
        found = _RANGE.fullmatch(self.value.strip())
        return (found[1], found[2]) if found else (self.value, self.value)


def parse_condition(text: str, names: Sequence[str] = ()) -> Condition:
    """Column ``names`` may hold = themselves: the longest name that fits is meant."""
    for name in sorted((name for name in names if text.startswith(name)), key=len, reverse=True):
        rest = text[len(name) :].lstrip()
        if rest.startswith(("=", ">=", "<=")):
            operator = rest[:2] if rest[:2] in (">=", "<=") else "="
            return Condition(shortened(text), name, operator, rest[len(operator) :].strip())
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise UserError(f"--where takes COLUMN=VALUE, COLUMN=FROM-TO, COLUMN>=FROM or COLUMN<=TO, not {text!r}")
    return Condition(shortened(text), parts[1].strip(), parts[2], parts[3].strip())


class Column(ABC):
    """What every column can do."""

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
    def codes(self, cells: Sequence[Any], spelled: bool) -> Array:
        """Cells to codes, :data:`NOTHING` for missing ones that have no code."""

    @abstractmethod
    def cells(self, codes: Array, uniforms: Array, condition: Condition | None = None) -> list[Cell]:
        """Codes back to cells; where a code stands for several, by the ``uniforms`` in [0, 1)."""

    @abstractmethod
    def shares(self, condition: Condition) -> Array:
        """For each code which share of it fulfils the condition: (size,)."""

    @abstractmethod
    def labels(self) -> list[str]:
        """What the codes are called, for tables and pictures."""

    def to_json(self) -> dict[str, Any]:
        """All fields, those of False left out."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not False}  # type: ignore[arg-type]

    @abstractmethod
    def key(self, cell: Any) -> Any:
        """What a cell of a CSV or a DataFrame stands for, as JSON has it; None for a missing one. ValueError where it
        is of another kind.
        """

    @abstractmethod
    def cell_of(self, key: Any) -> Cell:
        """The cell that comes back for a key."""

    def spell(self, cell: Cell) -> str:
        """A cell as it stands in a CSV."""
        return "" if cell is None else str(cell)

    def _missing_code(self) -> int:
        return self.present if self.missing == "value" else NOTHING

    def _labels(self, labels: list[str]) -> list[str]:
        return [*labels, "(missing)"] if self.missing == "value" else labels

    def _shares_of_missing(self, condition: Condition) -> Array:
        if self.missing != "value":
            raise UserError(f"--where {condition.text}: no row of the column {self.name!r} is missing")
        return np.asarray(np.eye(self.size)[self.present])


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Categories by frequency; the rare ones share the code after them and come back as often as they were there."""

    name: str
    kind: Kind
    missing: Gaps
    values: tuple[Any, ...]
    rare: tuple[tuple[Any, int], ...] = ()
    spellings: tuple[str, str] | None = None
    """Of false and true, where a CSV has them."""

    @property
    def present(self) -> int:
        return len(self.values) + bool(self.rare)

    def codes(self, cells: Sequence[Any], spelled: bool) -> Array:
        table = {self.key(value): code for code, value in enumerate(self.values)}
        table |= {self.key(value): len(self.values) for value, _ in self.rare}
        table[None] = self._missing_code()
        found = np.empty(len(cells), dtype=np.int64)
        for row, cell in enumerate(cells):
            code = table.get(self.key(cell))
            if code is None:
                if not self.rare:
                    raise UserError(
                        f"row {row + 1}, column {self.name!r}: {str(cell)!r} is not among its "
                        f"{len(self.values)} values{suggestion(str(cell), self.labels())}"
                    )
                code = len(self.values)  # a category that no row has is as rare as can be
            found[row] = code
        return found

    def key(self, cell: Any) -> Any:
        if cell is None:
            return None
        if self.kind == "boolean":
            return cell if isinstance(cell, bool) else {"true": True, "false": False}.get(str(cell).lower(), cell)
        return str(cell)

    def cells(self, codes: Array, uniforms: Array, condition: Condition | None = None) -> list[Cell]:
        wanted = self._wanted(condition) if condition is not None and not condition.missing else set()
        rare = [(value, count) for value, count in self.rare if not wanted or self.key(value) in wanted]
        limits = np.cumsum([count for _, count in rare]) if rare else np.zeros(0)

        def cell(code: int, uniform: float) -> Cell:
            if code < len(self.values):
                known: Cell = self.values[code]
                return known
            if code == self.present or not rare:
                return None
            drawn: Cell = rare[int(np.searchsorted(limits, uniform * limits[-1], side="right"))][0]
            return drawn

        return [cell(code, uniform) for code, uniform in zip(codes.tolist(), uniforms.tolist(), strict=True)]

    def shares(self, condition: Condition) -> Array:
        if condition.missing:
            return self._shares_of_missing(condition)
        wanted = self._wanted(condition)
        found = np.zeros(self.size)
        for code, value in enumerate(self.values):
            found[code] = self.key(value) in wanted
        if self.rare:
            inside = sum(count for value, count in self.rare if self.key(value) in wanted)
            found[len(self.values)] = inside / sum(count for _, count in self.rare)
        return found

    def _wanted(self, condition: Condition) -> set[Any]:
        if condition.words is None:
            raise UserError(f"--where {condition.text}: {self.name!r} is not a number; give its values with =")
        known = {self.key(value) for value in self.values} | {self.key(value) for value, _ in self.rare}
        # A value may hold the sign that stands between values.
        whole = self.key(condition.value)
        wanted = {whole} if whole in known else {self.key(word) for word in condition.words}
        for word in wanted - known:
            names = [*map(str, self.values), *(str(value) for value, _ in self.rare)]
            raise UserError(
                f"--where {condition.text}: the column {self.name!r} has no value {word!r}"
                f"{suggestion(str(word), names)}"
            )
        return wanted

    def cell_of(self, key: Any) -> Cell:
        known: Cell = key
        return known

    def labels(self) -> list[str]:
        return self._labels([*map(str, self.values), *(["(rare)"] if self.rare else [])])

    def spell(self, cell: Cell) -> str:
        if isinstance(cell, bool) and self.spellings is not None:
            return self.spellings[cell]
        return super().spell(cell)
