r"""Which positions to reveal at each step: what a sampler is, and those that plan ahead.

All run on the one loop of :func:`vadd.core.sampling.sample`. A *planned* sampler decides before the network is asked:
:class:`Ancestral` (Algorithm 2), :class:`Parallel`, :class:`FirstHitting`. What it reveals does not depend on the
values, so the network need only be shown what is revealed, and the result follows the model's own distribution for that
plan: these are **exact**, and the step bound holds for them. :mod:`vadd.core.adaptive_samplers` has those that are not.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from vadd.core.noise import Noise
from vadd.core.schedule import Schedule
from vadd.core.token_sampler import TokenSampler
from vadd.errors import UserError

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


@dataclass(frozen=True)
class RevealPlan:
    """When everything that is hidden gets revealed."""

    step_of: Tensor
    """(n, N): the step T..1 at which a position is revealed, 0 where it was never hidden."""
    times: Tensor
    """(n, T + 1): the time that the denoiser is given at each step; index 0 is the end."""
    left: Tensor
    """(n, T + 1): what share of the positions hidden at the start is expected to be hidden before each step."""


@dataclass(frozen=True)
class Candidates:
    """What some of the rows were given at a step, before it is settled."""

    x: Tensor
    """(r, N) the states, with the mask where nothing is known."""
    where: Tensor
    """(r, N): the M positions that were predicted."""
    t: Tensor
    """(r,)"""
    logits: Tensor
    """(M, V)"""
    drawn: Tensor
    """(M,)"""
    rows: Tensor
    """(r,): which of all rows these are."""
    numbers: Tensor | None
    """(r, ...): the sampler's own random numbers."""
    mask_value: int


class Sampler(ABC):
    """What the loop of :func:`vadd.core.sampling.sample` asks at every step."""

    exact: ClassVar[bool]
    """Whether it samples the model's own distribution for its plan, the one that the step bound is about."""
    planned: ClassVar[bool] = True
    """Whether what is revealed when does not depend on the values."""
    uses_grid: ClassVar[bool] = True
    """Whether a grid of times means anything to it."""

    def check(self, positions: int, steps: int) -> None:
        """Refuse a number of steps that makes no sense."""
        if steps < 1:
            raise UserError(f"sampling needs at least 1 step, not {steps}")

    def default_steps(self, positions: int, wanted: int) -> int:
        """Where nobody has said how many: the ``wanted`` number or, if it makes no sense, the one that does."""
        return wanted

    @abstractmethod
    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        """From the positions hidden at the start, (n, N). Samplers that decide on the way plan the times only."""

    def to_predict(self, step: int, plan: RevealPlan, hidden: Tensor, noise: Noise) -> Tensor:
        """(n, N): the hidden positions that the network must predict at this step."""
        return plan.step_of == step

    def uncertainty(self, logits: Tensor, drawn: Tensor) -> Tensor | None:
        """How unsure each prediction is, logits (M, V) and values drawn (M,) -> (M,); None where nobody asks."""
        return None

    def outcomes(self, logits: Tensor, now: Tensor, step: int, plan: RevealPlan, owners: Tensor) -> Tensor:
        """The logits of what may stand at each of M positions after the step, from the network's (M, V), the values
        there ``now`` (M,) and the rows that they are of (M,). By default the network's: what is predicted is revealed.
        """
        return logits

    def check_draws(self, token_sampler: TokenSampler) -> None:
        """Refuse a way of drawing values that makes no sense."""
        return

    def numbers(self, step: int, plan: RevealPlan, positions: int, noise: Noise) -> Tensor | None:
        """Random numbers for :meth:`settled`, (n, ...)."""
        return None

    def settled(self, model: object, found: Candidates, step: int, plan: RevealPlan) -> Tensor:
        """(M,): what takes the place of the values drawn; the mask leaves a position as it is."""
        return found.drawn

    def shown(self, step: int, plan: RevealPlan) -> int:
        """How many sequences networks are shown for each row at this step."""
        return 1

    def revealed(self, step: int, where: Tensor, uncertainty: Tensor | None) -> Tensor:
        """(n, N): of the M predicted positions ``where`` those revealed, by the ``uncertainty`` (M,) of each."""
        return where

    def remasked(self, step: int, plan: RevealPlan, revealed: Tensor, noise: Noise) -> Tensor | None:
        """(n, N): of the positions that were ``revealed`` in earlier steps, those that are masked again."""
        return None


def on_the_grid(hidden: Tensor, steps: int, schedule: Schedule, grid: Grid) -> RevealPlan:
    """The times only. A row starts at the time whose expected masked fraction is the row's own, and its grid shrinks
    with it; nothing is said about when a position is revealed.
    """
    fraction = masked_share(hidden)
    times = schedule.time_at(fraction) * step_grid(steps, grid)
    # A row with nothing hidden has nothing to do; any shares will do for it.
    left = schedule.masked_fraction(times) / fraction.clamp(min=1 / hidden.shape[1])
    return RevealPlan(torch.zeros_like(hidden, dtype=torch.int64), times, left)


def masked_share(hidden: Tensor) -> Tensor:
    """(n, N) -> (n, 1), float64 on the CPU."""
    return hidden.cpu().double().mean(dim=1, keepdim=True)


def ranks(keys: Tensor) -> Tensor:
    """(n, N): the place of every entry in its row, smallest key first; of equals the one to the left."""
    # Stable, so that equals are ordered alike on every device.
    return keys.argsort(dim=1, stable=True).argsort(dim=1)


def shares(left: Tensor, steps_left: int) -> Tensor:
    """ceil(left / steps left)."""
    return -(-left // steps_left)


@dataclass(frozen=True)
class Ancestral(Sampler):
    """Algorithm 2: every hidden position is revealed between t and s with probability rho, independently.

    A coin for each position at every step is the same as one draw for each: the interval of the grid it falls into.

    >>> from vadd.core import LinearSchedule
    >>> hidden, noise = torch.tensor([[True, True, True, False]]), Noise.of(torch.Generator().manual_seed(0), rows=1)
    >>> plan = Ancestral().plan(hidden, 8, LinearSchedule(), "uniform", noise)
    >>> plan.step_of
    tensor([[8, 6, 4, 0]])
    """

    exact: ClassVar[bool] = True

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        on_grid = on_the_grid(hidden, steps, schedule, grid)
        levels = noise.uniform(hidden.shape[1])
        # ``left`` rises from 0 to 1 with the steps: a position is revealed at the step whose interval holds its level.
        step_of = torch.searchsorted(on_grid.left, levels, right=True).clamp(1, steps).to(hidden.device)
        return replace(on_grid, step_of=step_of * hidden)


@dataclass(frozen=True)
class Parallel(Sampler):
    """Exactly ceil(left / steps left) positions at every step, in random order."""

    exact: ClassVar[bool] = True
    uses_grid: ClassVar[bool] = False

    def check(self, positions: int, steps: int) -> None:
        super().check(positions, steps)
        if steps > positions:
            raise UserError(
                f"the parallel sampler reveals something at every step: at most {positions} steps, not {steps}"
            )

    def default_steps(self, positions: int, wanted: int) -> int:
        return min(wanted, positions)

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        order = ranks(noise.uniform(hidden.shape[1]) + 2 * (~hidden.cpu()))  # what is known comes last
        total = hidden.cpu().sum(dim=1)
        counts = torch.zeros(len(hidden), steps + 1, dtype=torch.int64)
        counts[:, steps] = total
        for step in range(steps, 0, -1):
            counts[:, step - 1] = counts[:, step] - shares(counts[:, step], step)
        # The last to be revealed are those that the last steps begin with.
        step_of = torch.searchsorted(counts, total[:, None] - order, right=False).masked_fill(~hidden.cpu(), 0)
        times = schedule.time_at(counts.double() / hidden.shape[1])
        return RevealPlan(step_of.to(hidden.device), times, counts / total.clamp(min=1)[:, None])


@dataclass(frozen=True)
class FirstHitting(Sampler):
    """One position after the other, each at the very time at which the continuous process reveals it: no grid, no
    discretisation. It takes as many steps as there are positions.
    """

    exact: ClassVar[bool] = True
    uses_grid: ClassVar[bool] = False

    def check(self, positions: int, steps: int) -> None:
        if steps != positions:
            raise UserError(f"the first-hitting sampler takes a step for each position: {positions} steps, not {steps}")

    def default_steps(self, positions: int, wanted: int) -> int:
        return positions

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        known = ~hidden.cpu()
        fraction = masked_share(hidden)
        # The masked fraction at which the process reveals a position is uniform below the one that it starts from.
        levels = (noise.uniform(hidden.shape[1]) * fraction).masked_fill(known, 0)
        # The largest level is hit first, on the way down from 1; known positions have the lowest and come never.
        step_of = (ranks(levels) + 1).masked_fill(known, 0)
        ordered = torch.cat([torch.zeros(len(hidden), 1, dtype=torch.float64), levels.sort(dim=1).values], dim=1)
        left = ordered / fraction.clamp(min=1 / hidden.shape[1])
        return RevealPlan(step_of.to(hidden.device), schedule.time_at(ordered), left)


@dataclass(frozen=True)
class LeftToRight(Sampler):
    """One position after the other, from the first to the last: the order of autoregressive models."""

    exact: ClassVar[bool] = True
    uses_grid: ClassVar[bool] = False

    def check(self, positions: int, steps: int) -> None:
        if steps != positions:
            raise UserError(
                f"an autoregressive model takes a step for each position, from left to right: {positions} steps, "
                f"not {steps}"
            )

    def default_steps(self, positions: int, wanted: int) -> int:
        return positions

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        """The n-th position at the n-th step, also where others before it are known: all rows go hand in hand."""
        step_of = torch.arange(steps, 0, -1, device=hidden.device).expand_as(hidden) * hidden
        left = torch.arange(steps + 1, dtype=torch.float64).expand(len(hidden), -1) / steps
        return RevealPlan(step_of, schedule.time_at(left), left)
