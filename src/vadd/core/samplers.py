r"""Other samplers than Algorithm 2. :class:`Parallel`, :class:`InOrder` and :class:`FirstHitting` plan ahead as well.

:class:`Ordered` and :class:`EntropyBounded` look at the predictions before they reveal anything, :class:`Remask` masks
again what was revealed. They may give better samples, but from another distribution than the model's own;
:mod:`vadd.core.paths` has its likelihood.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from vadd.core.host import Noise, precise
from vadd.core.masking import Schedule
from vadd.core.sampling import Grid, PlannedSampler, RevealPlan, Sampler, Walk, on_the_grid
from vadd.settings import Fraction, checked_fields


def ranks(keys: Tensor) -> Tensor:
    """(n, N): the place of every entry in its row, smallest key first; of equals the one to the left."""
    # Stable, so that equals are ordered alike on every device.
    return keys.argsort(dim=1, stable=True).argsort(dim=1)


def shares(left: Tensor, steps_left: int) -> Tensor:
    """ceil(left / steps left)."""
    return -(-left // steps_left)


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


class AdaptiveSampler(Sampler):
    """Asks the network about everything that is hidden and decides then."""

    looks_at_values: bool = True
    """Whether :meth:`uncertainty` depends on the values drawn. If not, the order is a function of the sequence, and the
    likelihood exact.
    """

    @abstractmethod
    def uncertainty(self, logits: Tensor, drawn: Tensor) -> Tensor:
        """How unsure each prediction is, logits (M, V) and values drawn (M,) -> (M,)."""

    @abstractmethod
    def revealed(self, step: int, where: Tensor, uncertainty: Tensor) -> Tensor:
        """(n, N): of the M predicted positions ``where`` those revealed, by the ``uncertainty`` (M,) of each."""

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        times, _ = on_the_grid(walk.hidden_at_start, steps, walk.model.schedule, grid)
        for step in walk.steps(times):
            drawn, unsure = [], []
            for asked in walk.ask(walk.hidden):
                drawn.append(walk.how.token_sampler(asked.logits, asked.uniforms))
                unsure.append(self.uncertainty(asked.logits, drawn[-1]))
            if unsure:
                where = walk.x == walk.model.mask_value
                revealed = self.revealed(step, where, torch.cat(unsure))
                walk.x = torch.where(revealed, walk.x.masked_scatter(where, torch.cat(drawn)), walk.x)
                walk.hidden = walk.hidden & ~revealed.cpu()


Order = Literal["confidence", "margin", "entropy"]


@checked_fields
@dataclass(frozen=True)
class Ordered(AdaptiveSampler):
    """ceil(left / steps left) positions at every step, the surest first.

    Surest by the probability of the value drawn (``confidence``), by the lead of the likeliest value over the next
    (``margin``), or by the lowest ``entropy``.
    """

    by: Annotated[Order, Field()] = "confidence"

    @property
    def looks_at_values(self) -> bool:  # type: ignore[override]
        return self.by == "confidence"

    def uncertainty(self, logits: Tensor, drawn: Tensor) -> Tensor:
        if self.by == "entropy":
            return entropies(logits)
        probabilities = precise(logits).softmax(dim=-1)
        if self.by == "confidence":
            return -probabilities.gather(1, drawn[:, None])[:, 0]
        likeliest = probabilities.topk(min(2, probabilities.shape[1]), dim=-1).values
        return likeliest[:, -1] - likeliest[:, 0]

    def revealed(self, step: int, where: Tensor, uncertainty: Tensor) -> Tensor:
        allowed = shares(where.sum(dim=1, keepdim=True), step)
        return where & (ranks(spread_out(where, uncertainty)) < allowed)


@checked_fields
@dataclass(frozen=True)
class EntropyBounded(AdaptiveSampler):
    """As many of the surest positions as their dependence can be trusted not to matter: lowest entropy first, while
    the entropies of all but the largest add up to at most ``budget`` nats, a bound of what drawing them independently
    gets wrong. At least one at every step, whatever is left at the last.
    """

    budget: Annotated[float, Field(ge=0)] = 0.1
    looks_at_values: ClassVar[bool] = False  # type: ignore[misc]

    def uncertainty(self, logits: Tensor, drawn: Tensor) -> Tensor:
        return entropies(logits)

    def revealed(self, step: int, where: Tensor, uncertainty: Tensor) -> Tensor:
        if step == 1:
            return where
        ordered, places = spread_out(where, uncertainty).sort(dim=1, stable=True)
        before = ordered.cumsum(dim=1).roll(1, dims=1)  # of all that are surer: the sum without the largest
        before[:, 0] = 0
        return where & torch.zeros_like(where).scatter_(1, places, before <= self.budget)


def spread_out(where: Tensor, uncertainty: Tensor) -> Tensor:
    """(M,) at the true entries of (n, N), infinite elsewhere."""
    return uncertainty.new_full(where.shape, math.inf).masked_scatter_(where, uncertainty)


def entropies(logits: Tensor) -> Tensor:
    """(M, V) -> (M,), in nats, float64."""
    log_probabilities = precise(logits).log_softmax(dim=-1)
    # A probability that underflows to 0 gives 0 * -inf, which is to count as 0.
    return -(log_probabilities.exp() * log_probabilities).nan_to_num(nan=0.0).sum(dim=-1)


Rule = Literal["capped", "rescaled"]


@checked_fields
@dataclass(frozen=True)
class Remask(Sampler):
    r"""ReMDM (Wang et al. 2025): revealed positions may be masked again, so that mistakes can be corrected.

    Between t and s a revealed position is masked with probability :math:`\sigma`, a masked one revealed with
    probability :math:`(\alpha_s - (1 - \sigma) \alpha_t) / (1 - \alpha_t)`, which leaves the expected masked
    fraction on the schedule. ``capped``: :math:`\sigma = \min(\eta, \sigma_{max})`; ``rescaled``:
    :math:`\sigma = \eta\, \sigma_{max}`, where :math:`\sigma_{max} = \min(1, (1 - \alpha_s) / \alpha_t)`. Known
    positions stay.
    """

    rule: Annotated[Rule, Field()] = "capped"
    eta: Fraction = 0.02

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        times, left = on_the_grid(walk.hidden_at_start, steps, walk.model.schedule, grid)
        for step in walk.steps(times):
            reveal, sigma = self.probabilities(left[:, step], left[:, step - 1])
            revealed_before = walk.hidden_at_start & ~walk.hidden
            walk.reveal(walk.hidden & chosen(reveal, walk))
            # What this step revealed is not masked again at once, and what was given at the start never is.
            walk.mask(revealed_before & chosen(sigma, walk))

    def probabilities(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """That a masked position is revealed, and that a revealed one is masked, where the shares ``before`` and
        ``after`` a step are expected to be masked.
        """
        most = (after / positive(1 - before)).clamp(max=1)
        sigma = most.clamp(max=self.eta) if self.rule == "capped" else self.eta * most
        # Written with 1 - alpha, so that it is 1 and nothing less at the last step, where ``after`` and sigma are 0.
        return (before - after + sigma * (1 - before)) / positive(before), sigma


def chosen(probability: Tensor, walk: Walk) -> Tensor:
    """(n, N): coins for all positions, with the probability (n,) of their row."""
    return walk.noise.uniform(walk.x.shape[1]) < probability[:, None]


def positive(tensor: Tensor) -> Tensor:
    """To divide by: where it is 0, what it divides does not matter."""
    return tensor.clamp(min=torch.finfo(tensor.dtype).tiny)
