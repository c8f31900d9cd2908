"""Exact answers by enumeration, for models so small that every state, mask and latent can be visited.

What is computed here uses neither the schedules nor the sampler of the package, only the networks it is given.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import settings
from scipy import integrate, stats
from torch import Tensor, nn
from torch.distributions import Normal

from vadd.core import CosineSchedule, LinearSchedule, PolynomialSchedule, Schedule

properties = settings(max_examples=25, deadline=None, derandomize=True)
"""For property tests: the same examples on every run, and no clock, since the machine may be shared."""


@dataclass(frozen=True)
class KnownSchedule:
    """A schedule of the package beside its alpha and the derivative of alpha, written down independently."""

    name: str
    schedule: Schedule
    alpha: Callable[[float], float]
    slope: Callable[[float], float]

    def reveal(self, t: float, s: float) -> float:
        return (self.alpha(s) - self.alpha(t)) / (1 - self.alpha(t))


LINEAR = KnownSchedule("linear", LinearSchedule(), lambda t: 1 - t, lambda t: -1.0)
COSINE = KnownSchedule(
    "cosine",
    CosineSchedule(),
    lambda t: 1 - math.cos(math.pi / 2 * (1 - t)),
    lambda t: -math.pi / 2 * math.sin(math.pi / 2 * (1 - t)),
)
SQUARE = KnownSchedule("square", PolynomialSchedule(2.0), lambda t: 1 - t * t, lambda t: -2 * t)
ROOT = KnownSchedule("root", PolynomialSchedule(0.5), lambda t: 1 - math.sqrt(t), lambda t: -0.5 / math.sqrt(t))

for_each_schedule = pytest.mark.parametrize("known", [LINEAR, COSINE, SQUARE, ROOT], ids=lambda known: known.name)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def all_sequences(positions: int, symbols: int) -> Tensor:
    """Every sequence of symbols in 0..symbols-1, in lexicographic order: (symbols ** positions, positions)."""
    return torch.tensor(list(itertools.product(range(symbols), repeat=positions)))


def index_of(sequences: Tensor, symbols: int) -> Tensor:
    """The place of each sequence (B, N) in :func:`all_sequences`."""
    radix = torch.tensor([symbols**power for power in reversed(range(sequences.shape[1]))])
    return (sequences * radix).sum(1)


def nonempty_masks(positions: int) -> Tensor:
    """Every mask that hides something: (2 ** positions - 1, positions) bool."""
    return all_sequences(positions, 2)[1:].bool()


def exact_count_weights(masks: Tensor) -> Tensor:
    """1 / (k C(N, k)) for a mask of k: the share of each in the sum over k of 1/k times the mean over k-subsets."""
    positions = masks.shape[1]
    return torch.tensor([1 / (k * math.comb(positions, k)) for k in masks.sum(1).tolist()], dtype=torch.float64)


@dataclass(frozen=True)
class RandomFunction:
    """A random number for each mask, times a wave in t if it is to depend on time."""

    positions: int
    timed: bool

    def __call__(self, masked: Tensor, t: Tensor) -> Tensor:
        table = torch.randn(2**self.positions, generator=seeded(7), dtype=torch.float64)
        value = table[(masked * 2 ** torch.arange(self.positions)).sum(1)]
        value = torch.where(masked.any(1), value, 0.0)  # nothing hidden counts zero, as in the objective
        return value * (1 + torch.sin(5 * t.double())) if self.timed else value


MaskFunction = Callable[[Tensor, Tensor], Tensor]
"""(masked (B, N), t (B,)) -> (B,)."""


def mask_integral(known: KnownSchedule, positions: int, function: MaskFunction, start: float = 0.0) -> float:
    """The integral over t in [start, 1] of w(t) times the sum over masks S, but the empty one, of P(S | t) f(S, t)."""
    masks = nonempty_masks(positions)
    count = masks.sum(1).double()

    def integrand(t: float) -> float:
        hidden = 1 - known.alpha(t)
        probability = hidden**count * (1 - hidden) ** (positions - count)
        value = function(masks, torch.full((len(masks),), t, dtype=torch.float64))
        return -known.slope(t) / hidden * float((probability * value).sum())

    return float(integrate.quad(integrand, start, 1, limit=200, epsabs=1e-10, epsrel=1e-10)[0])


def quantile_nodes(count: int) -> Tensor:
    """Standard normal quantiles of equal weight, (count, 1): a mean over them integrates over the prior."""
    return torch.from_numpy(stats.norm.ppf((np.arange(count) + 0.5) / count))[:, None]


def normal_log_density(z: Tensor, mean: Tensor | float = 0.0, std: Tensor | float = 1.0) -> Tensor:
    """By torch.distributions, whose methods are not typed."""
    result: Tensor = Normal(mean, std).log_prob(z)  # type: ignore[no-untyped-call]
    return result


def gauss_hermite(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights for the standard normal, both (count,), exact for polynomials up to degree 2 count - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return torch.from_numpy(nodes), torch.from_numpy(weights / weights.sum())


class TableDenoiser(nn.Module):
    """Random logits for every state; with ``latent`` they bend with a sine of z, with ``timed`` they move with t."""

    def __init__(
        self, positions: int, values: int, *, seed: int = 0, latent: bool = False, timed: bool = False
    ) -> None:
        super().__init__()
        self.positions, self.vocab_size = positions, values
        self.latent, self.uses_time = latent, timed
        shape = ((values + 1) ** positions, positions, values)
        generator = seeded(seed)

        def table() -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

        self.base, self.amplitude, self.frequency, self.slope = table(), table(), table(), table()

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        state = index_of(xt, self.vocab_size + 1)
        logits = self.base[state]
        if self.latent:
            assert z is not None
            logits = logits + 3 * self.amplitude[state] * torch.sin(2 * self.frequency[state] * z[:, :1, None] + 1)
        if self.uses_time:
            logits = logits + 3 * self.slope[state] * t[:, None, None]
        return logits[where]


class TableRecognizer(nn.Module):
    """Random mean and log standard deviation (d = 1) for every x0, xt, with a slope in t."""

    def __init__(self, positions: int, values: int, *, seed: int = 0) -> None:
        super().__init__()
        self.symbols = values + 1
        states = self.symbols**positions
        self.table = nn.Parameter(0.7 * torch.randn(states, states, 3, generator=seeded(seed), dtype=torch.float64))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        row = self.table[index_of(x0, self.symbols), index_of(xt, self.symbols)]
        return row[:, :1] + t[:, None] * row[:, 2:], row[:, 1:2]


class ConstantRecognizer(nn.Module):
    """The same posterior for every example; ``ConstantRecognizer(0, 0)`` returns the prior."""

    def __init__(self, mean: float, log_std: float) -> None:
        super().__init__()
        self.parameters_of_z = nn.Parameter(torch.tensor([mean, log_std], dtype=torch.float64))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        row = self.parameters_of_z.expand(len(x0), 2)
        return row[:, :1], row[:, 1:]


@torch.no_grad()
def step_matrix(denoiser: TableDenoiser, nodes: Tensor, t: float, rho: float) -> Tensor:
    """P(next state | state, z) for one step of the sampler and nodes (Z, 1): (Z, S, S) for the S = (V + 1) ** N states.

    Read row by row: a position that shows a value keeps it; a masked one stays masked with probability 1 - rho and
    takes the value v with probability rho mu[v]; given z the positions are independent.
    """
    positions, mask = denoiser.positions, denoiser.vocab_size
    states = all_sequences(positions, mask + 1)
    size, count = len(states), len(nodes)
    everywhere = torch.ones(count * size, positions, dtype=torch.bool)
    times = torch.full((count * size,), t, dtype=torch.float64)
    logits = denoiser(states.repeat(count, 1), nodes.repeat_interleave(size, dim=0), times, everywhere)
    mu = logits.view(count, size, positions, mask).softmax(-1)
    matrix = torch.ones(count, size, 1, dtype=torch.float64)
    for i in range(positions):
        shown = torch.eye(mask + 1, dtype=torch.float64)[states[:, i]].expand(count, -1, -1)
        hidden = torch.cat([rho * mu[:, :, i], torch.full((count, size, 1), 1 - rho)], dim=-1)
        one_position = torch.where(states[None, :, i, None] == mask, hidden, shown)
        matrix = (matrix[..., :, None] * one_position[..., None, :]).flatten(-2)
    return matrix


def sampler_distribution(
    denoiser: TableDenoiser, known: KnownSchedule, times: list[float], *, fixed_z: bool, nodes: int = 300
) -> Tensor:
    """Exact law of the output, (V ** N,) in the order of :func:`all_sequences`, for ``times`` rising from 0 to 1."""
    z = quantile_nodes(nodes)
    states = all_sequences(denoiser.positions, denoiser.vocab_size + 1)
    law = torch.zeros(nodes, 1, len(states), dtype=torch.float64)
    law[:, :, -1] = 1  # all masked is the last state
    for s, t in reversed(list(itertools.pairwise(times))):
        law = law @ step_matrix(denoiser, z, t, known.reveal(t, s))
        if not fixed_z:
            law = law.mean(0, keepdim=True).expand(nodes, -1, -1)  # the next step knows nothing of this step's z
    complete = (states < denoiser.vocab_size).all(1)
    return law.mean(0)[0, complete]


def chi_square_p_value(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """P(a chi-square at least as large) under ``probabilities``; cells that expect fewer than 5 are pooled."""
    observed, expected = np.asarray(counts, float).ravel(), np.asarray(probabilities, float).ravel() * np.sum(counts)
    assert not observed[expected == 0].any(), "an impossible outcome was observed"
    large = expected >= 5
    if expected[~large].sum() < 5:  # too little for a cell of its own: let it join the smallest large one
        large_indices = np.flatnonzero(large)
        large[large_indices[expected[large_indices].argmin()]] = False
    observed = np.append(observed[large], observed[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), df=len(expected) - 1))


def sigmas(draws: Tensor, exact: float) -> float:
    """How many standard errors the mean of independent ``draws`` lies from ``exact``. Beyond 5 by chance: 6e-7."""
    draws = draws.double()
    return abs(float(draws.mean()) - exact) / (float(draws.std()) / math.sqrt(len(draws)))
