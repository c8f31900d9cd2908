"""Diagonal Gaussians over the latent."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from vadd.core.precision import precise


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
        """Log density, summed over the last dimension."""
        standardised = (z - self.mean) * (-self.log_std).exp()
        return (-0.5 * standardised**2 - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def kl_to_standard_normal(self) -> Tensor:
        """KL(self || N(0, I)) for each dimension, in nats: (..., d)."""
        return 0.5 * (self.mean**2 + (2 * self.log_std).exp() - 1) - self.log_std

    def precise(self) -> "DiagonalGaussian":
        """In float64, for long sums of logarithms."""
        return DiagonalGaussian(precise(self.mean), precise(self.log_std))


def standard_normal_log_prob(z: Tensor) -> Tensor:
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(-1)


@dataclass(frozen=True)
class GaussianProposal:
    """A posterior whose draws are the network's, and whose density is computed in float64."""

    posterior: DiagonalGaussian

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        return self.posterior.draws(count, generator)

    def log_prob(self, z: Tensor) -> Tensor:
        return self.posterior.precise().log_prob(z)
