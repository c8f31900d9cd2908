"""Columns that follow from another one: found when a table is read, filled in by look-up when rows are decoded."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.table.columns import Column, Condition
from vadd.kinds.table.numbers import AnyColumn, NumberColumn
from vadd.kinds.table.reading import Cell

MOST_PAIRS = 100_000
"""Values of a column that others are looked up by; a run keeps them all."""
FEWEST = 30
"""Rows, or points of a formula, that could have contradicted: without a dependence more than a tenth of them would."""
CHANCE = 1e-9
"""Largest probability that independent columns agree so."""
EXACT = 1e-6
"""Largest error of a formula, as a share of the range."""


@dataclass(frozen=True)
class Dependent:
    """A column of the table that is no position of the model."""

    column: AnyColumn
    follows: str
    """The name of the column that it is a function of."""
    pairs: tuple[tuple[Any, Any], ...]
    """Keys of that column, in order, and of this one."""
    place: int
    """Its number among all columns of the table."""

    @property
    def line(self) -> str:
        return f"{self.column.name} follows from {self.follows}: filled in, not modelled"

    @cached_property
    def _values(self) -> dict[Any, Any]:
        return dict(self.pairs)

    @cached_property
    def _inverse(self) -> dict[Any, Any]:
        """Empty where several values of the other column have the same value here."""
        inverse = {value: key for key, value in self.pairs}
        return inverse if len(inverse) == len(self.pairs) else {}

    @cached_property
    def _known(self) -> list[Any]:
        return [key for key, _ in self.pairs if key is not None]

    def look_up(self, determining: Column, cell: Any) -> Cell:
        """The cell that belongs to one of the other column; a number that no row has counts as the nearest one."""
        key = determining.key(cell)
        if key is None or key in self._values:
            return self.column.cell_of(self._values.get(key))
        if not isinstance(determining, NumberColumn):
            what = f"no training row has {self.follows}={cell}, which {self.column.name!r} follows from"
            raise UserError(f"{what}: fill it in yourself")
        after = bisect_left(self._known, key)
        nearest = min(self._known[max(0, after - 1) : after + 1], key=lambda number: abs(number - key))
        return self.column.cell_of(self._values[nearest])

    def determining_cell(self, determining: Column, cell: Any, what: str) -> Cell:
        """The only cell of the other column that this ``cell`` belongs to; errors begin with ``what``."""
        if not self._inverse:
            follows = f"{self.column.name!r} follows from {self.follows!r}, of which several values have the same"
            raise UserError(f"{what}: {follows}: say what {self.follows!r} is")
        try:
            key = self.column.key(cell)
        except ValueError:
            key = ...
        if key not in self._inverse:
            raise UserError(f"{what}: no row of the table has {self.column.name}={cell}")
        return determining.cell_of(self._inverse[key])

    def translated(self, condition: Condition, determining: Column) -> Condition:
        """What a condition on this column says of the other one."""
        if condition.missing:
            return Condition(condition.text, self.follows, "=", "")
        what = f"--where {condition.text}"
        low, high = condition.limits()
        if condition.operator != "=" or (isinstance(self.column, NumberColumn) and low != high):
            raise UserError(f"{what}: {self.column.name!r} follows from {self.follows!r}: give a range of that column")
        cell = self.determining_cell(determining, condition.value, what)
        return Condition(condition.text, self.follows, "=", determining.spell(cell))


class _Values:
    """The cells of a column on all rows."""

    def __init__(self, column: AnyColumn, cells: Sequence[Any]) -> None:
        self.column = column
        keys = [column.key(cell) for cell in cells]
        self.missing = np.array([key is None for key in keys])
        self.known = sorted({key for key in keys if key is not None})
        """The values of cells that are there, in order; the number of a missing one comes after them."""
        numbers: dict[Any, int] = {key: number for number, key in enumerate([*self.known, None])}
        self.numbers = np.array([numbers[key] for key in keys])
        self.codes = column.codes(cells)
        self.first = np.unique(self.numbers, return_index=True)[1]
        """The first row of each value, and of each code."""
        self.first_of_code = np.zeros(column.size, dtype=np.int64)
        present, rows = np.unique(self.codes, return_index=True)
        self.first_of_code[present] = rows
        self.numeric = isinstance(column, NumberColumn)

    def determine(self, other: "_Values") -> bool:
        """Whether ``other`` is a function of this column, and may be left out of the model.

        1. On all rows the value of this column says that of the other, and they are missing together.
        2. Nothing is lost for what the model sees: also the code here says the code there, or both are numbers and one
           rises or falls with the other, so that the bins of the one are intervals of the other.
        3. It is no accident: half of the values here have several rows, 30 rows repeat a value of another, and
           independent columns would agree so with a probability below 1e-9; or a formula (linear in the numbers or
           their logarithms) holds. So an identifier, which no row repeats, determines nothing, and neither does any
           column a constant one, which cannot contradict.
        """
        if not 2 <= len(other.known) <= len(self.known) <= MOST_PAIRS or (self.missing != other.missing).any():
            return False
        image = other.numbers[self.first]
        if (image[np.searchsorted(self.numbers[self.first], self.numbers)] != other.numbers).any():
            return False
        steps = np.diff(image[: len(self.known)])
        strict = self.numeric and other.numeric and bool((steps > 0).all() or (steps < 0).all())
        if not strict and (other.codes[self.first_of_code][self.codes] != other.codes).any():
            return False
        return self._repeats_agree(other) or (strict and self._is_formula(other, image))

    def _repeats_agree(self, other: "_Values") -> bool:
        counts = np.bincount(self.numbers)[: len(self.known)]
        if 2 * (counts > 1).sum() < len(counts) or (counts - 1).sum() < FEWEST:
            return False
        shares = np.bincount(other.numbers) / len(other.numbers)
        sizes, groups = np.unique(counts, return_counts=True)
        # Rows of one value here have the same value there; of m independent rows that is the sum of p^m.
        chances = [np.log((shares**size).sum()) * number for size, number in zip(sizes, groups, strict=True)]
        return bool(np.sum(chances) < np.log(CHANCE))

    def _is_formula(self, other: "_Values", image: Array) -> bool:
        if len(self.known) < FEWEST:
            return False
        x, y = np.array(self.known, float), np.array(other.known, float)[image[: len(self.known)]]
        forms = [[values, *([np.log(values)] if (values > 0).all() else [])] for values in (x, y)]
        for u, v in product(*forms):
            line = v[0] + (v[-1] - v[0]) * ((u - u[0]) / (u[-1] - u[0]))
            if np.abs(line - v).max() <= EXACT * abs(v[-1] - v[0]):
                return True
        return False


def find_dependents(columns: Sequence[AnyColumn], cells: Mapping[str, Sequence[Any]]) -> list[Dependent]:
    """Of columns that determine each other the first one stays; no column follows from one that follows itself."""
    found = {
        place: _Values(column, cells[column.name])
        for place, column in enumerate(columns)
        # A number drawn anew within its bin, or an unknown cell, is in no table to look it up in.
        if column.missing != "unknown" and getattr(column, "draw", "values") != "uniform"
    }
    determines = {(a, b) for a in found for b in found if a != b and found[a].determine(found[b])}
    reasons = {b: [a for a in found if (a, b) in determines and (a < b or (b, a) not in determines)] for b in found}
    dependents = []
    for place, candidates in reasons.items():
        modelled = [a for a in candidates if not reasons[a]]
        if modelled:
            source, values = min((found[a] for a in modelled), key=lambda each: len(each.known)), found[place]
            keys = [*values.known, None]
            image = [keys[number] for number in values.numbers[source.first].tolist()]
            pairs = zip([*source.known, None], image, strict=False)  # a missing cell, where there is one, comes last
            dependents.append(Dependent(values.column, source.column.name, tuple(pairs), place))
    return dependents
