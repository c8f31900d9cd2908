r"""Densities over z, and importance sampling with a mixture of them: of :math:`\log E_{z \sim p}
e^{\mathrm{score}(z)}`.

With draws z_1..z_K, a fixed number from each component, and every draw weighed by the mixture density g (the balance
heuristic),

.. math:: \log \frac1K \sum_k e^{\mathrm{score}(z_k)} \frac{p(z_k)}{g(z_k)}

never exceeds the true logarithm in expectation, whatever the components are. Having the prior among them bounds every
weight p / g by K / K_prior, so that no single draw can dominate. (With more draws of a mixture the estimate need not
rise: a perfect recognition model alone is exact with one draw, and others only dilute it.) Sums run in float64, and
over draws in chunks: memory does not grow with K.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from vadd.core.places import precise
from vadd.errors import UserError

ProposalName = Literal["recognition", "revealed", "prior"]


MOST_PARTICLES = 2**20


@dataclass(frozen=True)
class Particles:
    """How a bound integrates z out: K draws, from which proposals, and how many at a time.

    ``recognition`` is r(z | x0, xt), which looks at all masked values; ``revealed`` is the same network shown only the
    values that are scored, the other masked ones still hidden; ``prior`` is p(z). Any choice is valid, see
    :mod:`vadd.core.densities`; they differ in tightness.

    Hidden means that the mask value stands in x0, where training never puts it. Networks that read x0 and xt alike
    (perceptrons, UNets) know it from xt; those that read x0 by a separate table (transformers, residual perceptrons)
    have left its entry as it started, and only a measurement can tell whether ``revealed`` is of use to them.
    """

    count: int
    proposals: tuple[ProposalName, ...] = ("recognition", "revealed", "prior")
    rows_per_call: int = 16384
    """Most sequences the denoiser sees at once; the chunk of draws is this over the size of the batch."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_PARTICLES:
            limit = "at least 1" if self.count < 1 else f"at most {MOST_PARTICLES:,}"
            raise UserError(f"the number of particles must be {limit}, not {self.count}")
        unknown = set(self.proposals) - set(get_args(ProposalName))
        if unknown or not self.proposals:
            said = ", ".join(map(repr, sorted(unknown))) or "none"
            raise UserError(f"proposals are {', '.join(get_args(ProposalName))}, not {said}")


@dataclass(frozen=True)
class DiagonalGaussian:
    """N(mean, diag(exp(log_std))^2) over the last dimension; ``mean`` and ``log_std`` have shape (..., d)."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def joined(cls, parts: Iterable["DiagonalGaussian"]) -> "DiagonalGaussian":
        """Of the examples of several parts, one after the other."""
        parts = list(parts)
        return cls(torch.cat([part.mean for part in parts]), torch.cat([part.log_std for part in parts]))

    def from_noise(self, noise: Tensor) -> Tensor:
        """Reparameterised draw: z = mean + std * noise, differentiable in both parameters."""
        return self.mean + self.log_std.exp() * noise

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        """``count`` draws from each, (count, ..., d)."""
        return self.from_noise(torch.randn(count, *self.mean.shape, generator=generator).to(self.mean))

    def log_prob(self, z: Tensor) -> Tensor:
        """Log density, summed over the last dimension, in the precision of z."""
        mean, log_std = self.mean.to(z.dtype), self.log_std.to(z.dtype)
        standardised = (z - mean) * (-log_std).exp()
        return (-0.5 * standardised**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def kl_to_standard_normal(self) -> Tensor:
        """KL(self || N(0, I)) for each dimension, in nats: (..., d)."""
        return 0.5 * (self.mean**2 + (2 * self.log_std).exp() - 1) - self.log_std

    def entropy(self) -> Tensor:
        """In nats, summed over the last dimension."""
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


def standard_normal_log_prob(z: Tensor) -> Tensor:
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(-1)


def standard_normal_nodes(dim: int, count: int, *, smooth: bool = True) -> tuple[Tensor, Tensor]:
    """Equal weights at the quantile midpoints in one and two dimensions, at a scrambled Sobol sequence in more, and
    where what is integrated is not ``smooth``: a square of K points has only sqrt(K) different ones on each side.
    """
    if dim <= 2 and smooth:
        side = round(count ** (1 / dim))
        axis = (torch.arange(side, dtype=torch.float64) + 0.5) / side
        uniforms = torch.cartesian_prod(*[axis] * dim).view(-1, dim)
    else:
        sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=0)  # type: ignore[no-untyped-call]
        # The normal quantiles of 0 and 1 are infinite.
        uniforms = sobol.draw(count, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    weights = torch.full((len(uniforms),), 1 / len(uniforms), dtype=torch.float64)
    return torch.special.ndtri(uniforms).float(), weights


class Proposal(Protocol):
    """Something to draw z from, for each of B examples."""

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, B, d)"""

    def log_prob(self, z: Tensor) -> Tensor:
        """z (K, B, d) -> (K, B), in the precision of z."""


Mixture = Sequence[tuple[Proposal, int]]
"""Several proposals, and how many of the K draws come from each."""


def even_mixture(components: Sequence[Proposal], particles: int) -> Mixture:
    """As many draws from each component as possible; the first ones get what is left over."""
    share, left = divmod(particles, len(components))
    # A component without a draw would enter the density as log 0.
    return [(component, count) for i, component in enumerate(components) if (count := share + (i < left))]


def log_density(mixture: Mixture, z: Tensor) -> Tensor:
    """log g(z) for z (K, B, d): (K, B)."""
    particles = sum(count for _, count in mixture)
    terms = [component.log_prob(z) + math.log(count / particles) for component, count in mixture]
    return torch.logsumexp(torch.stack(terms), dim=0)


def log_mean_weight(
    score: Callable[[Tensor], Tensor],
    log_prior: Callable[[Tensor], Tensor],
    mixture: Mixture,
    chunk: int,
    generator: torch.Generator,
) -> Tensor:
    """The estimate above for every example: (B,) float64. ``score`` and ``log_prior`` map at most ``chunk`` draws z
    (k, B, d) to (k, B).
    """
    parts = []
    for component, count in mixture:
        for first in range(0, count, chunk):
            z = component.draws(min(chunk, count - first), generator)
            z64 = precise(z)
            # Divided by the density of the whole mixture, not of the component that this draw came from: that bounds
            # the weight, and the mean of the weights stays unbiased.
            log_weight = precise(score(z)) + log_prior(z64) - log_density(mixture, z64)
            parts.append(torch.logsumexp(log_weight, dim=0))
    return reduce(torch.logaddexp, parts) - math.log(sum(count for _, count in mixture))
