"""Columns of integers, reals and dates: bins of neighbouring numbers."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.table.columns import Column, Condition, Gaps
from vadd.kinds.table.reading import Cell
from vadd.kinds.table.schema import Kind

EPOCH = datetime(1970, 1, 1)


class Bin(NamedTuple):
    """Numbers low..high that share a code, and those of the training rows."""

    low: float
    high: float
    members: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class NumberColumn(Column):
    """Integers, reals and dates in bins; a bin of one value is that value."""

    name: str
    kind: Kind
    missing: Gaps
    bins: tuple[Bin, ...]
    draw: Literal["values", "uniform"] = "values"
    format: str | None = None
    text: bool = False
    """Whether cells are dates in the text of a DataFrame, and come back as text."""

    @property
    def present(self) -> int:
        return len(self.bins)

    def codes(self, cells: Sequence[Any], spelled: bool) -> Array:
        # Between two bins a number belongs to the nearer one, and beyond the last to the last.
        limits = [(low.high + high.low) / 2 for low, high in zip(self.bins[:-1], self.bins[1:], strict=True)]
        found = np.empty(len(cells), dtype=np.int64)
        for row, cell in enumerate(cells):
            if cell is None:
                found[row] = self._missing_code()
                continue
            try:
                found[row] = bisect_left(limits, to_number(cell, self.kind, self.format))
            except ValueError:
                raise UserError(
                    f"row {row + 1}, column {self.name!r}: {str(cell)!r} is not {KIND_NAMES[self.kind]}"
                ) from None
        return found

    def cells(self, codes: Array, uniforms: Array, condition: Condition | None = None) -> list[Cell]:
        low, high = self._limits(condition)
        found: list[Cell] = [None] * len(codes)
        for code in np.unique(codes[codes < len(self.bins)]).tolist():
            rows = np.flatnonzero(codes == code)
            numbers = self._numbers(self.bins[code], uniforms[rows], low, high)
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                found[row] = self.cell_of(number)
        return found

    def _numbers(self, bin: Bin, uniforms: Array, low: float, high: float) -> Array:
        if low == high:  # this number and no other
            return np.full(len(uniforms), low)
        if self.draw == "values":
            inside = [(m, n) for m, n in zip(bin.members, bin.counts, strict=True) if low <= m <= high]
            if inside:
                limits = np.cumsum([count for _, count in inside])
                chosen = np.searchsorted(limits, uniforms * limits[-1], side="right")
                return np.asarray(np.array([member for member, _ in inside])[chosen])
        below, above = max(bin.low, low), min(bin.high, high)
        if self.kind == "real":
            return below + uniforms * (above - below)
        first, last = math.ceil(below), math.floor(above)
        return first + (uniforms * (last - first + 1)).astype(np.int64)

    def shares(self, condition: Condition) -> Array:
        if condition.missing:
            return self._shares_of_missing(condition)
        low, high = self._limits(condition)
        found = np.zeros(self.size)
        if low == high:
            # The bin that such a number falls into, if the column reaches that far at all.
            inside = [code for code, bin in enumerate(self.bins) if bin.low <= low <= bin.high]
            found[inside] = 1.0
        else:
            found[: len(self.bins)] = [self._share(bin, low, high) for bin in self.bins]
        if not found.any():
            ends = [self.spell(self._cell(end)) for end in (self.bins[0].low, self.bins[-1].high)]
            raise UserError(
                f"--where {condition.text}: the column {self.name!r} has no such value in {' .. '.join(ends)}"
            )
        return found

    def _share(self, bin: Bin, low: float, high: float) -> float:
        if low <= bin.low and bin.high <= high:
            return 1.0
        if self.draw == "values":
            total = sum(bin.counts)
            inside = sum(n for m, n in zip(bin.members, bin.counts, strict=True) if low <= m <= high)
            return inside / total if total else 0.0
        below, above = max(bin.low, low), min(bin.high, high)
        if self.kind == "real":
            return max(0.0, (above - below) / (bin.high - bin.low))
        return max(0.0, (math.floor(above) - math.ceil(below) + 1) / (bin.high - bin.low + 1))

    def _limits(self, condition: Condition | None) -> tuple[float, float]:
        if condition is None or condition.missing:
            return -math.inf, math.inf
        try:
            low, high = (
                open_end if word is None else to_number(word, self.kind, self.format)
                for word, open_end in zip(condition.limits(), (-math.inf, math.inf), strict=True)
            )
        except ValueError:
            span = "from..to" if self.kind in ("date", "datetime") else "from-to"
            raise UserError(
                f"--where {condition.text}: the column {self.name!r} takes {KIND_NAMES[self.kind]}, or {span}"
            ) from None
        if low > high:
            raise UserError(f"--where {condition.text}: the range ends before it begins")
        return low, high

    def _cell(self, number: float) -> Cell:
        match self.kind:
            case "real":
                return float(number)
            case "date":
                return date.fromordinal(int(number))
            case "datetime":
                return EPOCH + timedelta(microseconds=int(number))
        return int(number)

    def key(self, cell: Any) -> float | None:
        return None if cell is None else to_number(cell, self.kind, self.format)

    def cell_of(self, key: Any) -> Cell:
        if key is None:
            return None
        cell = self._cell(key)
        return self.spell(cell) if self.text else cell

    def labels(self) -> list[str]:
        def label(bin: Bin) -> str:
            low, high = (self.spell(self._cell(end)) for end in (bin.low, bin.high))
            return low if low == high else f"{low} .. {high}"

        return self._labels([label(bin) for bin in self.bins])

    def spell(self, cell: Cell) -> str:
        if isinstance(cell, date) and self.format is not None:
            return cell.strftime(self.format)
        return super().spell(cell)


KIND_NAMES = {"integer": "an integer", "real": "a number", "date": "a date", "datetime": "a date and time"}


def to_number(cell: Any, kind: Kind, format: str | None) -> float:
    """ValueError where the cell is not one of this kind."""
    if kind == "real":
        number = float(cell)
        if not math.isfinite(number):
            raise ValueError
        return number
    if kind == "integer":
        return int(cell) if isinstance(cell, int | str) else _whole(cell)
    if isinstance(cell, str):
        cell = datetime.strptime(cell, format) if format is not None else datetime.fromisoformat(cell)
    if not isinstance(cell, date):
        raise ValueError
    if kind == "date":
        return cell.toordinal()
    moment = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)
    return (moment - EPOCH) // timedelta(microseconds=1)


def _whole(number: Any) -> int:
    if float(number) != int(number):
        raise ValueError
    return int(number)
