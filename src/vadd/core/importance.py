r"""Importance sampling of :math:`\log E_{z \sim p} e^{\mathrm{score}(z)}` with a mixture of proposals.

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
from typing import Protocol

import torch
from torch import Tensor

from vadd.core.precision import precise


class Proposal(Protocol):
    """Something to draw z from, for each of B examples."""

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, B, d)"""
        ...

    def log_prob(self, z: Tensor) -> Tensor:
        """z (K, B, d) -> (K, B), in the precision of z."""
        ...


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
