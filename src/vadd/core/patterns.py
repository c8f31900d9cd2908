"""Masks as people make them when they ask for completions: beginnings, ends, gaps, halves, rectangles.

A prior that is to read what is known must have seen such states when it was fitted; random masks alone do not show it
a digit without its lower half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vadd.core.masking import ExactCount, Masking, Schedule


@dataclass(frozen=True)
class InfillMasks:
    """For examples of ``shape``, each kind in turn: random positions, everything, a part of the sequence (its end, its
    beginning or its middle hidden) and, in two dimensions, what lies on one side of a line, and a rectangle or all but
    one. The weight of every mask is 1.
    """

    shape: tuple[int, ...]

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        scattered = ExactCount()(batch, positions, schedule, generator).masked
        places = _places(self.shape)
        kinds = [scattered, torch.ones_like(scattered), _between(positions, batch, generator)]
        if places is not None:
            kinds += [_beside_a_line(places, batch, generator), _rectangle(places, batch, generator)]
        which = torch.randint(len(kinds), (batch,), generator=generator)
        # Every kind is drawn for every example, and one is taken: no draw depends on what was chosen for the others.
        masked = torch.stack(kinds)[which, torch.arange(batch)]
        t = schedule.time_at(masked.double().mean(dim=1)).float()
        return Masking(masked, t, torch.ones(batch))


def _places(shape: Sequence[int]) -> Tensor | None:
    """Row and column of every position's middle, (N, 2) in (0, 1); None where the examples have only one dimension."""
    if len(shape) < 2:
        return None
    rows, columns, *rest = shape
    grid = torch.cartesian_prod((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns)
    return grid.repeat_interleave(int(torch.tensor(rest).prod()) if rest else 1, dim=0)


def _between(positions: int, batch: int, generator: torch.Generator) -> Tensor:
    """A stretch of the sequence hidden; in a third of the cases each it reaches to the beginning, or to the end."""
    ends = torch.rand(batch, 2, generator=generator).sort(dim=1).values
    kind = torch.randint(3, (batch,), generator=generator)
    first = torch.where(kind == 0, 0.0, ends[:, 0])
    last = torch.where(kind == 1, 1.0, ends[:, 1])
    place = torch.arange(positions) / positions
    return (place >= first[:, None]) & (place < last[:, None])


def _beside_a_line(places: Tensor, batch: int, generator: torch.Generator) -> Tensor:
    """What lies on one side of a line; half of the lines run along an axis, half of all through the middle."""
    angle = 2 * torch.pi * torch.rand(batch, generator=generator)
    straight = torch.randint(4, (batch,), generator=generator) * torch.pi / 2
    angle = torch.where(torch.rand(batch, generator=generator) < 0.5, straight, angle)
    # Rounded, so that the middle of an odd number of rows or columns lies on a straight line and not to both its sides.
    direction = torch.stack([angle.cos(), angle.sin()], dim=1).round(decimals=6)
    offset = torch.where(
        torch.rand(batch, generator=generator) < 0.5, 0.0, torch.rand(batch, generator=generator) - 0.5
    )
    return ((places - 0.5) @ direction.T > offset).T


def _rectangle(places: Tensor, batch: int, generator: torch.Generator) -> Tensor:
    """A rectangle hidden, or all but it."""
    corners = torch.rand(batch, 2, 2, generator=generator).sort(dim=1).values
    low, high = corners[:, None, 0], corners[:, None, 1]
    inside = ((places >= low) & (places <= high)).all(dim=-1)
    return inside ^ (torch.rand(batch, 1, generator=generator) < 0.5)
