"""Exact expectations of the likelihood bounds, by enumeration of masks and sums over a grid of z."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.helpers.exact import (
    KnownSchedule,
    TableDenoiser,
    all_sequences,
    exact_count_weights,
    index_of,
    nonempty_masks,
    normal_log_density,
    quantile_nodes,
    sampler_distribution,
)
from vadd.core import Evidence, Latent, MaskedBatch, MaskedDiffusion, Noise, Particles, step_bound, step_grid
from vadd.core.base import Denoiser
from vadd.core.latents import Score
from vadd.core.sampling import Grid
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer


@dataclass(frozen=True)
class PriorGrid:
    """Points (Z, 1) and weights (Z,) that stand for the standard normal prior of a latent with d = 1."""

    z: Tensor
    weights: Tensor

    @classmethod
    def quantiles(cls, count: int) -> "PriorGrid":
        """Of equal weight: exact where predictions are constant between quantiles, as in :mod:`tests.helpers.exact`."""
        return cls(quantile_nodes(count), torch.full((count,), 1 / count, dtype=torch.float64))

    @classmethod
    def even(cls, count: int = 400) -> "PriorGrid":
        """Evenly spaced over 8 standard deviations: converges fast where predictions are smooth in z."""
        z = torch.linspace(-8, 8, count, dtype=torch.float64)
        return cls(z[:, None], normal_log_density(z).softmax(0))


NO_LATENT = PriorGrid.quantiles(1)

Inner = Callable[[Tensor, Tensor], Tensor]
"""log prod_{j in U} mu_j for every z of a grid (Z, B) and the weights (Z,) -> what one step contributes (B,)."""


def log_mean(log_values: Tensor, weights: Tensor) -> Tensor:
    """log E_z exp: the joint probability with the latent summed out."""
    return (log_values + weights.log()[:, None]).logsumexp(0)


def mean_log(log_values: Tensor, weights: Tensor) -> Tensor:
    """E_z log: what a single particle from the prior gives on average."""
    return weights @ log_values


def relative_second_moment(log_values: Tensor, weights: Tensor) -> Tensor:
    """E f^2 / (E f)^2 over z."""
    return (log_mean(2 * log_values, weights) - 2 * log_mean(log_values, weights)).exp()


@torch.no_grad()
def log_mu_table(denoiser: Denoiser, prior: PriorGrid, t: float) -> Tensor:
    """log mu_j(xt, z, t) for every z of the grid and every state xt: (Z, (V + 1) ** N, N, V)."""
    states = all_sequences(denoiser.positions, denoiser.vocab_size + 1)
    size, nodes = len(states), len(prior.z)
    xt, z = states.repeat(nodes, 1), prior.z.repeat_interleave(size, dim=0)
    times = torch.full((len(xt),), t, dtype=torch.float64)
    logits = denoiser(xt, z, times, torch.ones_like(xt, dtype=torch.bool))
    return F.log_softmax(logits.double(), -1).view(nodes, size, denoiser.positions, denoiser.vocab_size)


def log_joint(
    table: Tensor, prior: PriorGrid, x0: Tensor, hidden: Tensor, revealed: Tensor, inner: Inner = log_mean
) -> Tensor:
    """log p(x_U | xt), one for each x0 (B, N), when ``hidden`` (N,) is masked and U = ``revealed`` (N,) is scored."""
    values = table.shape[-1]
    state = index_of(x0.masked_fill(hidden, values), values + 1)
    log_mu = table[:, state].gather(-1, x0.expand(len(table), -1, -1)[..., None])[..., 0]
    return inner(log_mu[..., revealed].sum(-1), prior.weights)


def assignment_probabilities(positions: int, known: KnownSchedule, times: list[float]) -> Tensor:
    """Of every assignment of positions to steps, (T ** N,) in the order of ``all_sequences(N, T)``."""
    steps = len(times) - 1
    # A position is masked between t_{i-1} and t_i with probability alpha(t_{i-1}) - alpha(t_i).
    share = torch.tensor([known.alpha(times[i]) - known.alpha(times[i + 1]) for i in range(steps)], dtype=torch.float64)
    return share[all_sequences(positions, steps)].prod(1)


def assignment_bounds(denoiser: Denoiser, times: list[float], prior: PriorGrid, inner: Inner = log_mean) -> Tensor:
    """sum_i log p(x_{U_i} | x_{t_i}) for every assignment of positions to steps and every x0: (T ** N, V ** N)."""
    x0 = all_sequences(denoiser.positions, denoiser.vocab_size)
    tables = [log_mu_table(denoiser, prior, t) for t in times[1:]]
    rows = []
    for step_of in all_sequences(denoiser.positions, len(tables)):
        row = torch.zeros(len(x0), dtype=torch.float64)
        for step in step_of.unique().tolist():
            row += log_joint(tables[step], prior, x0, step_of <= step, step_of == step, inner)
        rows.append(row)
    return torch.stack(rows)


def exact_step_bound(
    denoiser: Denoiser, known: KnownSchedule, times: list[float], prior: PriorGrid, inner: Inner = log_mean
) -> Tensor:
    """E sum_i log p(x_{U_i} | x_{t_i}) for every x0: (V ** N,)."""
    probabilities = assignment_probabilities(denoiser.positions, known, times)
    return probabilities @ assignment_bounds(denoiser, times, prior, inner)


def exact_integral(denoiser: Denoiser, prior: PriorGrid) -> Tensor:
    """The integral of w(t) E log p(x_S | xt) for every x0, (V ** N,): k masked positions carry the weight 1/k.

    For denoisers without time input. Without a latent it is the ELBO, with one the K-sample DELBO as K grows.
    """
    table, x0 = log_mu_table(denoiser, prior, 1.0), all_sequences(denoiser.positions, denoiser.vocab_size)
    masks = nonempty_masks(denoiser.positions)
    terms = torch.stack([log_joint(table, prior, x0, hidden=mask, revealed=mask) for mask in masks])
    return exact_count_weights(masks) @ terms


def exact_log_likelihood(denoiser: Denoiser, known: KnownSchedule, times: list[float], nodes: int) -> Tensor:
    """log p_T of the sampler for every x0, (V ** N,), with z on ``PriorGrid.quantiles(nodes)``."""
    table_like = cast(TableDenoiser, denoiser)  # the enumeration asks for no more than the protocol
    return sampler_distribution(table_like, known, times, fixed_z=False, nodes=nodes).log()


def grid_times(steps: int, grid: Grid = "uniform") -> list[float]:
    return step_grid(steps, grid).tolist()


def bound_draws(
    model: MaskedDiffusion,
    x0: Tensor,
    steps: int,
    particles: Particles,
    generator: torch.Generator,
    *,
    repeats: int,
    grid: Grid = "uniform",
) -> Tensor:
    """Independent draws of the step bound of each example: (repeats, B)."""
    return step_bound(model, x0.repeat(repeats, 1), steps, particles, generator, grid=grid).view(repeats, len(x0))


def standard_error(draws: Tensor) -> Tensor:
    """Of the mean over the first dimension."""
    return draws.std(0) / math.sqrt(len(draws))


class DoubleDenoiser(nn.Module):
    """An MLP denoiser that computes in float64, so that sums over its predictions are exact."""

    def __init__(self, network: MlpDenoiser) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = network.positions, network.vocab_size, network.uses_time
        self.network = network.double()

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits: Tensor = self.network(xt, None if z is None else z.double(), t.double(), where)
        return logits


class DoubleRecognizer(nn.Module):
    def __init__(self, network: SiameseMlpRecognizer) -> None:
        super().__init__()
        self.network = network.double()

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.network(x0, xt, t.double())
        return mean, log_std


class GridLatent(Latent):
    """Sums z out over a grid. With the same seed the bounds draw the same masks as with any other latent, so the
    difference is due to the particles alone.
    """

    def __init__(self, prior: PriorGrid) -> None:
        super().__init__()
        self.prior = prior

    dim = 1

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        return noise.normal(1)

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.prior.z, self.prior.weights

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        raise NotImplementedError("for judging only")

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        return log_mean(score(self.prior.z[:, None].expand(-1, len(batch.x0), -1)), self.prior.weights)
