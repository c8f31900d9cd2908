r"""Which positions to reveal at each step: what a sampler is, and those that plan ahead.

A *planned* sampler decides before the network is asked: :class:`Ancestral` (Algorithm 2), :class:`Parallel`,
:class:`FirstHitting`. What it reveals does not depend on the values, so the network need only predict what is revealed,
and the result follows the model's own distribution for that plan: these are **exact**, and the step bound holds for
them. :mod:`vadd.core.adaptive_samplers` has those that are not.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from vadd.core.randomness import Noise
from vadd.core.schedule import Schedule
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.core.sampling import Walk

GridName = Literal["uniform", "cosine"]
Grid = GridName | Sequence[float]
"""A name, or the times themselves, rising from 0 to 1."""


def step_grid(steps: int, grid: Grid = "uniform") -> Tensor:
    """Times 0 = t_0 < ... < t_T = 1, float64 (steps + 1,). ``cosine`` takes smaller steps near t = 1, where most
    is hidden.
    """
    if steps < 1:
        raise UserError(f"sampling needs at least 1 step, not {steps}")
    fractions = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    if grid == "uniform":
        return fractions
    if grid == "cosine":
        times = (math.pi / 2 * fractions).sin()
        # The end must be 1 whatever the rounding.
        times[-1] = 1.0
        return times
    if isinstance(grid, str):  # type: ignore[unreachable]  # users may pass any word
        raise UserError(f"unknown step grid {grid!r}; choose from {', '.join(get_args(GridName))} or list the times")
    times = torch.tensor(list(grid), dtype=torch.float64)
    if len(times) != steps + 1 or times[0] != 0 or times[-1] != 1 or not (times.diff() > 0).all():
        raise UserError(f"a grid of {steps} steps is {steps + 1} times that rise from 0 to 1, not {list(grid)}")
    return times


class LikelihoodKind(NamedTuple):
    """What is known of the likelihood of a sampler."""

    kind: Literal["exact", "bound", "none"]
    why: str
    """In a few words; where there is none, why not."""


class RevealPlan(NamedTuple):
    """When everything that is hidden gets revealed."""

    step_of: Tensor
    """(n, N): the step T..1 at which a position is revealed, 0 where it was never hidden."""
    times: Tensor
    """(n, T + 1): the time that the denoiser is given at each step; index 0 is the end."""


@dataclass(frozen=True)
class Sampler(ABC):
    """How samples get from all masked to data."""

    exact: ClassVar[bool] = False
    """Whether it samples the model's own distribution for its plan."""
    uses_grid: ClassVar[bool] = True
    """Whether a grid of times means anything to it."""
    about: ClassVar[str] = ""
    """Why not every number of steps makes sense, if so."""

    def default_steps(self, positions: int, wanted: int) -> int:
        """The ``wanted`` number of steps or, if it makes no sense, the one that does."""
        return wanted

    def check(self, positions: int, steps: int) -> None:
        """Refuse a number of steps that makes no sense."""
        if steps < 1:
            raise UserError(f"sampling needs at least 1 step, not {steps}")
        if self.about and (possible := self.default_steps(positions, steps)) != steps:
            limit = "at most " if self.default_steps(positions, 1) == 1 else ""
            raise UserError(f"{self.about}: {limit}{possible} steps, not {steps}")

    @abstractmethod
    def run(self, walk: "Walk", steps: int, grid: Grid) -> None:
        """Take all steps of the ``walk``."""


class PlannedSampler(Sampler):
    """Decides at the start what is revealed when."""

    exact: ClassVar[bool] = True
    one_plan: ClassVar[bool] = False
    """Whether it always makes the same one."""

    @abstractmethod
    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        """From the positions hidden at the start, (n, N)."""

    def run(self, walk: "Walk", steps: int, grid: Grid) -> None:
        plan = self.plan(walk.hidden_at_start, steps, walk.model.schedule, grid, walk.noise)
        for step in walk.steps(plan.times):
            walk.reveal(plan.step_of == step)


def on_the_grid(hidden: Tensor, steps: int, schedule: Schedule, grid: Grid) -> tuple[Tensor, Tensor]:
    """The times, and what share of the positions hidden at the start is expected to be hidden before each step, both
    (n, T + 1). A row starts at the time whose expected masked fraction is the row's own, and its grid shrinks with it.
    """
    fraction = hidden.cpu().double().mean(dim=1, keepdim=True)
    times = schedule.time_at(fraction) * step_grid(steps, grid)
    # A row with nothing hidden has nothing to do; any shares will do for it.
    return times, schedule.masked_fraction(times) / fraction.clamp(min=1 / hidden.shape[1])


def ranks(keys: Tensor) -> Tensor:
    """(n, N): the place of every entry in its row, smallest key first; of equals the one to the left."""
    # Stable, so that equals are ordered alike on every device.
    return keys.argsort(dim=1, stable=True).argsort(dim=1)


def shares(left: Tensor, steps_left: int) -> Tensor:
    """ceil(left / steps left)."""
    return -(-left // steps_left)


class Ancestral(PlannedSampler):
    """Algorithm 2: every hidden position is revealed between t and s with probability rho, independently.

    A coin for each position at every step is the same as one draw for each: the interval of the grid it falls into.

    >>> from vadd.core import LinearSchedule
    >>> hidden, noise = torch.tensor([[True, True, True, False]]), Noise.of(torch.Generator().manual_seed(0), rows=1)
    >>> plan = Ancestral().plan(hidden, 8, LinearSchedule(), "uniform", noise)
    >>> plan.step_of
    tensor([[8, 6, 4, 0]])
    """

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        times, left = on_the_grid(hidden, steps, schedule, grid)
        levels = noise.uniform(hidden.shape[1])
        # ``left`` rises from 0 to 1 with the steps: a position is revealed at the step whose interval holds its level.
        step_of = torch.searchsorted(left, levels, right=True).clamp(1, steps).to(hidden.device)
        return RevealPlan(step_of * hidden, times)


class Parallel(PlannedSampler):
    """Exactly ceil(left / steps left) positions at every step, in random order."""

    uses_grid: ClassVar[bool] = False
    about: ClassVar[str] = "the parallel sampler reveals something at every step"

    def default_steps(self, positions: int, wanted: int) -> int:
        return min(wanted, positions)

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        order = ranks(self.keys(hidden, noise) + 2 * (~hidden.cpu()))  # what is known comes last
        total = hidden.cpu().sum(dim=1)
        left = [total]
        for step in range(steps, 0, -1):
            left.append(left[-1] - shares(left[-1], step))
        counts = torch.stack(left[::-1], dim=1)
        # The last to be revealed are those that the last steps begin with.
        step_of = torch.searchsorted(counts, total[:, None] - order, right=False).masked_fill(~hidden.cpu(), 0)
        return RevealPlan(step_of.to(hidden.device), schedule.time_at(counts.double() / hidden.shape[1]))

    def keys(self, hidden: Tensor, noise: Noise) -> Tensor:
        """Below 1, smallest first: (n, N)."""
        return noise.uniform(hidden.shape[1])


class InOrder(Parallel):
    """As many positions at every step, from left to right."""

    about: ClassVar[str] = "the left-to-right sampler reveals something at every step"
    one_plan: ClassVar[bool] = True

    def keys(self, hidden: Tensor, noise: Noise) -> Tensor:
        return (torch.arange(hidden.shape[1]) / hidden.shape[1]).expand(hidden.shape)


class FirstHitting(PlannedSampler):
    """One position after the other, each at the very time at which the continuous process reveals it: no grid, no
    discretisation. It takes as many steps as there are positions.
    """

    uses_grid: ClassVar[bool] = False
    about: ClassVar[str] = "the first-hitting sampler takes a step for each position"

    def default_steps(self, positions: int, wanted: int) -> int:
        return positions

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        known = ~hidden.cpu()
        fraction = hidden.cpu().double().mean(dim=1, keepdim=True)
        # The masked fraction at which the process reveals a position is uniform below the one that it starts from.
        levels = (noise.uniform(hidden.shape[1]) * fraction).masked_fill(known, 0)
        # The largest level is hit first, on the way down from 1; known positions have the lowest and come never.
        step_of = (ranks(levels) + 1).masked_fill(known, 0)
        ordered = torch.cat([torch.zeros_like(fraction), levels.sort(dim=1).values], dim=1)
        return RevealPlan(step_of.to(hidden.device), schedule.time_at(ordered))
