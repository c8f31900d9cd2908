r"""The forward process: how fast positions disappear from data (t = 0) to all-masked (t = 1), and draws of masks.

A *schedule* is the survival probability :math:`\alpha(t)`, falling from 1 to 0. Everything else follows from it:

* loss weight :math:`w(t) = -\alpha'(t) / (1 - \alpha(t))`,
* reveal probability :math:`\rho = (\alpha(s) - \alpha(t)) / (1 - \alpha(t))` of a masked position going back from t
  to s < t.

Times are tensors of any shape. Subclasses state the *masked fraction* :math:`1 - \alpha` rather than :math:`\alpha`,
because it is what the weight divides by and it must stay accurate near t = 0.

The training objective is an integral over t of expectations over masks, :math:`\int_0^1 w(t)\, E_{x_t \mid
x_0}[\dots]\, dt`. A *mask draw* turns it into one weighted sample per example. There are three, equal in expectation;
they differ in variance:

* :class:`IidTimes` draws t uniformly for each example;
* :class:`StratifiedTimes` spreads the times of a batch evenly, ``t = (u + arange(B)) / B`` in random order;
* :class:`ExactCount` draws the *number* k of masked positions uniformly from 1..N and weighs the example by N / k.
  Integrated over t, the event "k of N masked" carries total weight 1/k under every schedule, and given that event the
  masked fraction follows Beta(k, N - k + 1), the k-th smallest of N uniforms. So one sorted row of uniforms gives
  both the mask and an exact t for denoisers with time input. No cut-off near t = 0, bounded weights, lowest
  variance.

All random numbers come from a CPU generator, so a seed means the same draw on every device.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor

from vadd.core.host import Places, upload
from vadd.errors import UserError
from vadd.settings import Count, Decay, checked_fields


class Schedule(ABC):
    """How many positions survive until time t, and what follows from it."""

    @abstractmethod
    def masked_fraction(self, t: Tensor) -> Tensor:
        """1 - alpha(t)."""

    @abstractmethod
    def alpha_prime(self, t: Tensor) -> Tensor:
        """The derivative of alpha, negative on (0, 1)."""

    @abstractmethod
    def time_at(self, masked_fraction: Tensor) -> Tensor:
        """The inverse of ``masked_fraction``."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - self.masked_fraction(t)

    def weight(self, t: Tensor) -> Tensor:
        return -self.alpha_prime(t) / self.masked_fraction(t)

    def reveal_probability(self, t: Tensor, s: Tensor) -> Tensor:
        return 1 - self.masked_fraction(s) / self.masked_fraction(t)


@checked_fields
@dataclass(frozen=True)
class PolynomialSchedule(Schedule):
    """alpha(t) = 1 - t^power, with weight power / t."""

    power: Annotated[float, Field(gt=0)] = 2.0

    def masked_fraction(self, t: Tensor) -> Tensor:
        return t**self.power

    def alpha_prime(self, t: Tensor) -> Tensor:
        return -self.power * t ** (self.power - 1)

    def time_at(self, masked_fraction: Tensor) -> Tensor:
        return masked_fraction ** (1 / self.power)

    def weight(self, t: Tensor) -> Tensor:
        # In closed form: the quotient of two small powers would lose digits near t = 0.
        return self.power / t


@dataclass(frozen=True)
class LinearSchedule(PolynomialSchedule):
    """alpha(t) = 1 - t, with weight 1 / t: the paper's schedule.

    >>> import torch
    >>> LinearSchedule().alpha(torch.tensor([0.0, 0.25, 1.0]))
    tensor([1.0000, 0.7500, 0.0000])
    >>> LinearSchedule().weight(torch.tensor([0.25, 1.0]))
    tensor([4., 1.])
    """

    power: float = 1.0


@dataclass(frozen=True)
class CosineSchedule(Schedule):
    """alpha(t) = 1 - cos(pi/2 (1 - t)) = 1 - sin(pi/2 t)."""

    def masked_fraction(self, t: Tensor) -> Tensor:
        return (math.pi / 2 * t).sin()

    def alpha_prime(self, t: Tensor) -> Tensor:
        return -math.pi / 2 * (math.pi / 2 * t).cos()

    def time_at(self, masked_fraction: Tensor) -> Tensor:
        return masked_fraction.asin() * (2 / math.pi)


@dataclass(frozen=True)
class Masking:
    """A draw of masks for a batch of B examples with N positions."""

    masked: Tensor
    """(B, N) bool, true where the value is hidden."""
    t: Tensor
    """(B,) time of each example."""
    weight: Tensor
    """(B,) weight in the objective; the mean over the batch estimates the integral over t."""
    before: Tensor | None = None
    """(B,) the time that a step of the sampler leads to from t, for draws of such steps."""

    def sparing(self, known: Tensor | None) -> "Masking":
        """With nothing masked where ``known`` (B, N) is not zero."""
        return self if known is None else replace(self, masked=self.masked & (known == 0))

    def to(self, device: torch.device) -> "Masking":
        return self._each(lambda tensor: tensor.to(device))

    def __getitem__(self, rows: "Rows") -> "Masking":
        return self._each(lambda tensor: tensor[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Masking":
        before = None if self.before is None else change(self.before)
        return Masking(change(self.masked), change(self.t), change(self.weight), before)


Rows = slice | Tensor
"""Some of the examples of a batch: a slice, or their numbers."""


class BatchPart(NamedTuple):
    """Which rows of a larger batch these are, where a batch is processed in parts or by several processes."""

    rows: Rows
    of: int
    """The size of the larger batch."""


@dataclass(frozen=True)
class MaskedBatch:
    """Clean tokens, the same tokens partly masked, and the draw that masked them.

    >>> x0 = torch.tensor([[7, 8, 9]])
    >>> masking = Masking(torch.tensor([[True, False, True]]), t=torch.tensor([0.7]), weight=torch.ones(1))
    >>> MaskedBatch.of(x0, masking, mask_value=10).xt
    tensor([[10,  8, 10]])
    >>> MaskedBatch.all_masked(x0, mask_value=10).xt
    tensor([[10, 10, 10]])
    """

    x0: Tensor
    """(B, N) integers in 0..V-1."""
    xt: Tensor
    """(B, N) integers in 0..V, where V is the mask."""
    masking: Masking
    part: BatchPart | None = None
    labels: Tensor | None = None
    """(B,) int64, for models that are given labels: those of the examples, to learn from."""
    places: Places | None = None
    """Where the network is asked, if that was found on the host; see :meth:`vadd.core.base.Model.batch`."""
    ahead: list[Tensor] = field(default_factory=list)
    """Random numbers that were drawn on the host and sent along, the next first."""

    @classmethod
    def of(cls, x0: Tensor, masking: Masking, mask_value: int, part: BatchPart | None = None) -> "MaskedBatch":
        """Hide the masked positions of ``x0`` (B, N) behind ``mask_value``."""
        return cls(x0, x0.masked_fill(masking.masked, mask_value), masking, part)

    @classmethod
    def all_masked(cls, x0: Tensor, mask_value: int) -> "MaskedBatch":
        """Everything hidden, t = 1: what sampling starts from."""
        ones = torch.ones(len(x0), device=x0.device)
        return cls.of(x0, Masking(torch.ones_like(x0, dtype=torch.bool), ones, ones), mask_value)

    @property
    def masked(self) -> Tensor:
        return self.masking.masked

    @property
    def t(self) -> Tensor:
        return self.masking.t

    def __getitem__(self, rows: Rows) -> "MaskedBatch":
        """Some of the examples, as a batch of its own."""
        return MaskedBatch(self.x0[rows], self.xt[rows], self.masking[rows])

    def where(self, mask: Tensor) -> Places | Tensor:
        """The places that were found on the host, or else the true entries of the ``mask``."""
        return mask if self.places is None else self.places

    def normal(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        """Standard normal numbers for every example, (draws, B, dim).

        A part of a larger batch gets its rows of the larger one's numbers, so that nothing depends on how a batch was
        divided.
        """
        if self.ahead:
            return self.ahead.pop(0)
        of, rows = self._whole()
        return torch.randn(draws, of, dim, generator=generator)[:, rows].to(self.x0.device)

    def uniform(self, generator: torch.Generator) -> Tensor:
        """Uniform numbers for every position, (B, N) float64 in [0, 1); of a part likewise."""
        if self.ahead:
            return self.ahead.pop(0)
        of, rows = self._whole()
        drawn = torch.rand(of, self.x0.shape[1], generator=generator, dtype=torch.float64)
        return drawn[rows].to(self.x0.device)

    def to(self, device: torch.device) -> "MaskedBatch":
        """All of it in one copy."""
        if device == self.x0.device:
            return self
        masking, places = self.masking, self.places
        numbered = (None, None) if places is None else (places.numbers, places.groups)
        own = (self.x0, self.xt, self.labels, masking.masked, masking.t, masking.weight, masking.before)
        x0, xt, labels, masked, t, weight, before, numbers, groups, *ahead = upload(
            [*own, *numbered, *self.ahead], device
        )
        masking = Masking(masked, t, weight, before)
        places = None if places is None else replace(places, numbers=numbers, groups=groups)
        return replace(self, x0=x0, xt=xt, labels=labels, masking=masking, places=places, ahead=ahead)

    def _whole(self) -> tuple[int, Rows]:
        return (len(self.x0), slice(None)) if self.part is None else (self.part.of, self.part.rows)


class MaskDraw(Protocol):
    """How training draws masks: for a batch of B examples with N positions, under a schedule."""

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking: ...


def _mask_at(t: Tensor, positions: int, schedule: Schedule, generator: torch.Generator) -> Tensor:
    """Mask each of ``positions`` independently with probability 1 - alpha(t); t (B,) gives (B, positions)."""
    # In float64: single-precision coins are multiples of 2^-24, too coarse for the masked fractions near t = 0.
    coins = torch.rand(len(t), positions, generator=generator, dtype=torch.float64)
    return coins < schedule.masked_fraction(t)[:, None]


@checked_fields
@dataclass(frozen=True)
class IidTimes:
    """Times drawn uniformly, each by itself."""

    epsilon: Decay = 1e-3
    """Times are drawn from [epsilon, 1]. The weight grows without limit towards t = 0, and with it the variance."""

    def uniforms(self, batch: int, generator: torch.Generator) -> Tensor:
        return torch.rand(batch, generator=generator, dtype=torch.float64)

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        span = 1 - self.epsilon
        t = 1 - span * self.uniforms(batch, generator)  # uniforms lie in [0, 1): t is never 0
        masked = _mask_at(t, positions, schedule, generator)
        # The times cover only a part of [0, 1]: times its length, their mean is an integral again.
        return Masking(masked, t.float(), (span * schedule.weight(t)).float())


class StratifiedTimes(IidTimes):
    """Times spread evenly over the batch."""

    def uniforms(self, batch: int, generator: torch.Generator) -> Tensor:
        return _stratified_uniforms(batch, generator)


@dataclass(frozen=True)
class ExactCount:
    """The number k of masked positions drawn uniformly from 1..N, spread evenly over the batch; weight N / k.

    >>> from vadd.core import LinearSchedule
    >>> drawn = ExactCount()(4, 4, LinearSchedule(), torch.Generator().manual_seed(0))
    >>> drawn.masked.sum(dim=1).sort().values
    tensor([1, 2, 3, 4])
    >>> drawn.weight * drawn.masked.sum(dim=1)
    tensor([4., 4., 4., 4.])
    """

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        return self.from_uniforms(_stratified_uniforms(batch, generator), positions, schedule, generator)

    def from_uniforms(
        self, uniforms: Tensor, positions: int, schedule: Schedule, generator: torch.Generator
    ) -> Masking:
        """With k = floor(u N) + 1 masked positions; ``uniforms`` (B,) in [0, 1)."""
        count = ((uniforms * positions).long() + 1).clamp(max=positions)  # rounding may reach 1
        # In float64: two equal levels, which would mask one position too many, are as good as impossible.
        levels = torch.rand(len(count), positions, generator=generator, dtype=torch.float64)
        threshold = levels.sort(dim=1).values.gather(1, count[:, None] - 1)
        t = schedule.time_at(threshold[:, 0])
        return Masking(levels <= threshold, t.float(), positions / count.float())


@dataclass(frozen=True)
class StepTimes:
    """The states of samplers that take few steps: T is drawn from ``shares``, a step i of its uniform grid from 1..T.

    Each position is masked with probability 1 - alpha(i / T) and weighs T rho_i, where rho_i is the probability that
    the sampler reveals a masked position at step i. The mean of w sum_{j in S} log mu_j is then the reconstruction in
    the bound of the likelihood of the sampler with T steps, averaged over T. T = 1 shows nothing but the mask; with
    large T the draw is like :class:`StratifiedTimes`. For the linear schedule the weight is 1 / t.
    """

    shares: tuple[tuple[int, float], ...] = ((1, 0.3), (2, 0.2), (4, 0.15), (8, 0.15), (16, 0.1), (32, 0.1))

    def __post_init__(self) -> None:
        if not self.shares or any(steps < 1 or not 0 < share < math.inf for steps, share in self.shares):
            raise UserError(f"diffusion.steps takes numbers of at least 1 with shares above 0, not {dict(self.shares)}")

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        counts = torch.tensor([steps for steps, _ in self.shares])
        shares = torch.tensor([share for _, share in self.shares], dtype=torch.float64)
        ends = shares.cumsum(0) / shares.sum()
        uniforms = _stratified_uniforms(batch, generator)
        which = torch.searchsorted(ends, uniforms, right=True).clamp(max=len(counts) - 1)
        steps = counts[which]
        # What is left of the uniform number, inside its T's share of [0, 1), spreads the steps evenly as well.
        inside = (uniforms - (ends - shares / shares.sum())[which]) / (shares / shares.sum())[which]
        step = torch.minimum((inside * steps).long() + 1, steps)  # rounding may reach the end
        t, before = step / steps.double(), (step - 1) / steps.double()
        masked = _mask_at(t, positions, schedule, generator)
        weight = steps * schedule.reveal_probability(t, before)
        return Masking(masked, t.float(), weight.float(), before=before.float())


@checked_fields
@dataclass(frozen=True)
class Levels:
    """The states of D3PM: a level i from 1..T, each position masked with probability 1 - alpha(i / T).

    The weight T rho_i makes the mean the bound of the sampler with T steps; ``auxiliary`` adds T times as much for
    every masked position, D3PM's cross-entropy of x0 beside the bound.
    """

    levels: Count = 1000
    auxiliary: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        masking = StepTimes(((self.levels, 1.0),))(batch, positions, schedule, generator)
        return replace(masking, weight=masking.weight + self.levels * self.auxiliary)


@dataclass(frozen=True)
class EvenWeights:
    """Any draw, with examples counted more alike than by w(t): by its power ``power``, 0 for all alike.

    The objective is then another mean of log p(x_S | x_t) over masks, no longer the integral. Each mask poses a problem
    of its own, so the best model is the same; but one that is short of time spends it where much is hidden, where
    few-step sampling begins and the latent matters.
    """

    draw: MaskDraw
    power: float = 0.0

    def __call__(self, batch: int, positions: int, schedule: Schedule, generator: torch.Generator) -> Masking:
        masking = self.draw(batch, positions, schedule, generator)
        # Of the weight alone: masks and random numbers stay those of the draw.
        return replace(masking, weight=masking.weight**self.power)


def _stratified_uniforms(batch: int, generator: torch.Generator) -> Tensor:
    """(u + 0..B-1) / B in random order: spread evenly over the batch, uniform for each of its members."""
    shift = torch.rand(1, generator=generator, dtype=torch.float64)
    # For a shift close to 1 the last of them would round to 1, and t to 0.
    return ((shift + torch.randperm(batch, generator=generator)) / batch).clamp(max=1 - 2**-53)
