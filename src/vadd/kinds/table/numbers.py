"""Columns of integers, reals and dates: bins of neighbouring numbers."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.table.columns import KIND_NAMES, CategoryColumn, Column, Condition, Gaps, drawn_by_counts
from vadd.kinds.table.reading import Cell
from vadd.kinds.table.schema import ColumnSpec, Draw, Kind

EPOCH = datetime(1970, 1, 1)
QUANTILES, MOST_DECIMALS = 1000, 6
"""Of a column, between which the tails are drawn, and what they are rounded to."""
MOST_MEMBERS = 256
"""Training values that a bin remembers; of more, so many quantiles."""


class Bin(NamedTuple):
    """Numbers low..high that share a code, and those of the training rows; of a tail some of their quantiles."""

    low: int | float
    high: int | float
    members: tuple[int | float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class NumberColumn(Column):
    """Integers, reals and dates in bins; a bin of one value is that value."""

    bins: tuple[Bin, ...]
    draw: Draw = "values"
    format: str | None = None
    text: bool = False
    """Whether cells are dates in the text of a DataFrame, and come back as text."""

    @property
    def present(self) -> int:
        return len(self.bins)

    def key(self, cell: Any) -> Any:
        return None if cell is None else to_number(cell, self.kind, self.format)

    @cached_property
    def _limits(self) -> list[float]:
        """Between two bins a number belongs to the nearer one, and beyond the last to the last."""
        return [(low.high + high.low) / 2 for low, high in pairwise(self.bins)]

    def _code(self, key: float) -> int:
        return bisect_left(self._limits, key)

    def with_tails(self) -> "NumberColumn":
        """The first and last bin remember quantiles only, their ends among them: the few numbers far out say who a row
        was, and no sample is right to have just these.
        """
        ends = {0, len(self.bins) - 1}
        return replace(self, bins=tuple(_tail(b, len(self.bins)) if n in ends else b for n, b in enumerate(self.bins)))

    def _is_tail(self, bin: Bin) -> bool:
        return self.draw == "tails" and bin in (self.bins[0], self.bins[-1]) and len(bin.members) > 1

    def _drawn(self, code: int, uniforms: Array, condition: Condition | None) -> list[Any]:
        bin, (low, high) = self.bins[code], self._range(condition)
        if low == high:  # this number and no other
            return [low] * len(uniforms)
        if self._is_tail(bin):
            grid, (begin, end) = np.linspace(0, 1, len(bin.members)), _ranks(bin, low, high)
            numbers = np.interp(begin + uniforms * (end - begin), grid, bin.members)
            return list(np.clip(_rounded(numbers, bin.members), low, high))
        inside = _members(bin, low, high)
        if self.draw != "uniform" and inside:
            return drawn_by_counts(inside, uniforms)
        first, last = self._span(bin, low, high)
        steps = uniforms * (last - first)
        return list(first + (steps if self.kind == "real" else steps.astype(np.int64)))

    def _shares(self, condition: Condition) -> list[float]:
        low, high = self._range(condition)
        # A single number has the bin that it falls into, if the column reaches that far at all.
        single = [float(bin.low <= low <= bin.high) for bin in self.bins]
        shares = single if low == high else [self._share(bin, low, high) for bin in self.bins]
        if not any(shares):
            ends = f"{self._spelled(self.bins[0].low)} .. {self._spelled(self.bins[-1].high)}"
            raise UserError(f"--where {condition.text}: the column {self.name!r} has no such value in {ends}")
        return shares

    def _share(self, bin: Bin, low: float, high: float) -> float:
        if low <= bin.low and bin.high <= high:
            return 1.0
        if self._is_tail(bin):
            first, last = _ranks(bin, low, high)
            return last - first
        if self.draw != "uniform":
            return sum(count for _, count in _members(bin, low, high)) / max(1, sum(bin.counts))
        (first, last), (begin, end) = self._span(bin, low, high), self._span(bin, -math.inf, math.inf)
        return (last - first) / (end - begin) if first < last else 0.0

    def _span(self, bin: Bin, low: float, high: float) -> tuple[float, float]:
        """Between what to draw uniformly: whole numbers lie below the second end."""
        below, above = max(bin.low, low), min(bin.high, high)
        return (below, above) if self.kind == "real" else (math.ceil(below), math.floor(above) + 1)

    def _range(self, condition: Condition | None) -> tuple[float, float]:
        if condition is None:
            return -math.inf, math.inf
        first, last = condition.limits()
        try:
            low = -math.inf if first is None else self.key(first)
            high = math.inf if last is None else self.key(last)
        except ValueError:
            span = "from..to" if self.kind in ("date", "datetime") else "from-to"
            what = f"--where {condition.text}: the column {self.name!r} takes {KIND_NAMES[self.kind]}"
            raise UserError(f"{what}, or {span}") from None
        if low > high:
            raise UserError(f"--where {condition.text}: the range is empty; write it as FROM-TO with FROM below TO")
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

    def cell_of(self, key: Any) -> Cell:
        if key is None:
            return None
        return self._spelled(key) if self.text else self._cell(key)

    def _labels(self) -> list[str]:
        ends = [(self._spelled(bin.low), self._spelled(bin.high)) for bin in self.bins]
        return [low if low == high else f"{low} .. {high}" for low, high in ends]

    def _spelled(self, number: float) -> str:
        return self.spell(self._cell(number))

    def spell(self, cell: Cell) -> str:
        return cell.strftime(self.format) if isinstance(cell, date) and self.format else super().spell(cell)


def _members(bin: Bin, low: float, high: float) -> list[tuple[float, int]]:
    return [(number, count) for number, count in zip(bin.members, bin.counts, strict=True) if low <= number <= high]


def _ranks(tail: Bin, low: float, high: float) -> tuple[float, float]:
    """What shares of a tail are below the numbers."""
    first, last = np.interp((low, high), tail.members, np.linspace(0, 1, len(tail.members))).tolist()
    return first, last


def _tail(bin: Bin, bins: int) -> Bin:
    values = np.repeat(bin.members, bin.counts)
    pieces = min(len(values) - 1, math.ceil(QUANTILES / bins))
    if bin.low == bin.high or pieces < 1:
        return bin
    inner = values[np.linspace(0, len(values) - 1, pieces + 1).round().astype(int)][1:-1]
    return Bin(bin.low, bin.high, (bin.low, *inner.tolist(), bin.high), (1,) * (pieces + 1))


def _rounded(numbers: Array, like: tuple[int | float, ...]) -> Array:
    """With as many decimals as all of those have, where they have few."""
    fitting = (d for d in range(MOST_DECIMALS + 1) if all(round(number, d) == number for number in like))
    decimals = next(fitting, None)
    return numbers if decimals is None else numbers.round(decimals)


def to_number(cell: Any, kind: Kind, format: str | None) -> float:
    """ValueError where the cell is not one of this kind."""
    if kind == "real":
        number = float(cell)
        if not math.isfinite(number):
            raise ValueError
        return number
    if kind == "integer":
        if not isinstance(cell, str) and cell != int(cell):
            raise ValueError
        return int(cell)
    if isinstance(cell, str):
        cell = datetime.strptime(cell, format) if format is not None else datetime.fromisoformat(cell)
    if not isinstance(cell, date):
        raise ValueError
    if kind == "date":
        return cell.toordinal()
    moment = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)
    return (moment - EPOCH) // timedelta(microseconds=1)


AnyColumn = CategoryColumn | NumberColumn


def fit_column(
    name: str, spec: ColumnSpec, cells: Sequence[Any], training: Sequence[Any], source: str, *, spelled: bool = False
) -> AnyColumn:
    """The values of a column: those of all ``cells``, drawn back from those of the ``training`` rows. In a CSV all
    cells are ``spelled``, and text says nothing about their type.
    """
    missing: Gaps = spec.missing if None in cells else "never"
    if spec.kind in ("category", "boolean"):
        return CategoryColumn.fit(name, spec, cells, training, missing)
    try:
        numbers = [to_number(cell, spec.kind, spec.format) for cell in cells if cell is not None]
        learnt = [to_number(cell, spec.kind, spec.format) for cell in training if cell is not None]
    except ValueError:
        raise UserError(f"{source}: not every cell of the column {name!r} is {KIND_NAMES[spec.kind]}") from None
    counts, training_counts = Counter(numbers), Counter(learnt)
    ordered = sorted(counts)
    groups = _quantile_groups(ordered, counts, spec.values) if len(ordered) > spec.values else [[n] for n in ordered]
    bins = tuple(_bin(group, training_counts) for group in groups)
    text = not spelled and spec.format is not None and any(isinstance(cell, str) for cell in cells)
    return NumberColumn(name, spec.kind, missing, bins, spec.draw, spec.format, text)


def _quantile_groups(ordered: list[float], counts: "Counter[float]", most: int) -> list[list[float]]:
    """Neighbours together until each group has its share; a number with that share by itself stays alone."""
    share = _share(counts, most)
    groups: list[list[float]] = [[]]
    weight = 0
    for number in ordered:
        if groups[-1] and (weight >= share or counts[number] >= share or counts[groups[-1][0]] >= share):
            groups.append([])
            weight = 0
        groups[-1].append(number)
        weight += counts[number]
    weights = [sum(counts[number] for number in group) for group in groups]
    while len(groups) > most:
        first = min(range(len(groups) - 1), key=lambda n: weights[n] + weights[n + 1])
        groups[first : first + 2] = [groups[first] + groups[first + 1]]
        weights[first : first + 2] = [weights[first] + weights[first + 1]]
    return groups


def _share(counts: "Counter[float]", most: int) -> float:
    """How many rows a group should have, once the numbers that have as many by themselves have their own."""
    total, groups, share = counts.total(), most, counts.total() / most
    for count in sorted(counts.values(), reverse=True):
        if count < share or groups == 1:
            break
        total, groups = total - count, groups - 1
        share = total / groups
    return max(share, 1.0)


def _bin(group: list[float], training: "Counter[float]") -> Bin:
    # A bin of held-out rows alone gives back their numbers, as rare categories do.
    members = [number for number in group if training[number]] or group
    counts = [max(1, training[number]) for number in members]
    if len(members) > MOST_MEMBERS:
        every = np.repeat(members, counts)
        kept = every[np.linspace(0, len(every) - 1, MOST_MEMBERS).round().astype(int)]
        again = Counter(kept.tolist())
        members, counts = list(again), list(again.values())
    return Bin(group[0], group[-1], tuple(members), tuple(counts))
