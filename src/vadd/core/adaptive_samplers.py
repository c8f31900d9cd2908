"""Samplers that look at the predictions before they reveal anything (:class:`Ordered`, :class:`EntropyBounded`), or
mask again what was revealed (:class:`Remask`). They may give better samples, but from another distribution than the
model's own; :mod:`vadd.core.paths` has its likelihood.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from vadd.core.precision import precise
from vadd.core.samplers import Grid, Sampler, on_the_grid, ranks, shares
from vadd.core.sampling import Asked, Walk
from vadd.settings import Fraction, checked_fields


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
            unsure: list[Tensor] = []

            def note(_: Asked, logits: Tensor, drawn: Tensor, unsure: list[Tensor] = unsure) -> Tensor:
                unsure.append(self.uncertainty(logits, drawn))
                return drawn

            drawn = walk.draw(walk.hidden, finish=note)
            if unsure:
                where = walk.x == walk.model.mask_value
                revealed = self.revealed(step, where, torch.cat(unsure))
                walk.x = torch.where(revealed, walk.x.masked_scatter(where, drawn.values), walk.x)
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
