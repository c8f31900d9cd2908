"""Which values a column has: categories by frequency, numbers by quantiles."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from vadd.errors import UserError
from vadd.kinds.table.columns import KIND_NAMES, CategoryColumn, Gaps
from vadd.kinds.table.numbers import AnyColumn, Bin, NumberColumn, to_number
from vadd.kinds.table.schema import ColumnSpec

MOST_MEMBERS = 256
"""Training values that a bin remembers; of more, so many quantiles."""


def fit_column(
    name: str, spec: ColumnSpec, cells: Sequence[Any], training: Sequence[Any], source: str, *, spelled: bool = False
) -> AnyColumn:
    """The values of a column: those of all ``cells``, drawn back from those of the ``training`` rows. In a CSV all
    cells are ``spelled``, and text says nothing about their type.
    """
    has_gaps = any(cell is None for cell in cells)
    missing: Gaps = spec.missing if has_gaps else "never"
    if spec.kind in ("category", "boolean"):
        return _fit_categories(name, spec, cells, training, missing)
    try:
        numbers = [to_number(cell, spec.kind, spec.format) for cell in cells if cell is not None]
        learnt = [to_number(cell, spec.kind, spec.format) for cell in training if cell is not None]
    except ValueError:
        wanted = f"the column {name!r} is to be {KIND_NAMES[spec.kind]}"
        raise UserError(f"{source}: {wanted}, and not every cell is one") from None
    bins = _fit_bins(numbers, Counter(learnt), spec.values)
    text = not spelled and spec.format is not None and any(isinstance(cell, str) for cell in cells)
    return NumberColumn(name, spec.kind, missing, bins, spec.draw, spec.format, text)


def _fit_categories(
    name: str, spec: ColumnSpec, cells: Sequence[Any], training: Sequence[Any], missing: Gaps
) -> CategoryColumn:
    column = CategoryColumn(name, spec.kind, missing, ())
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
    return CategoryColumn(name, spec.kind, missing, tuple(kept), tuple(rare), spellings)


def _fit_bins(numbers: list[float], training: "Counter[float]", most: int) -> tuple[Bin, ...]:
    counts = Counter(numbers)
    groups = [[number] for number in sorted(counts)]
    if len(groups) > most:
        groups = _quantile_groups(sorted(counts), counts, most)
    return tuple(_bin(group, training) for group in groups)


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
