r"""The latent variable z of the denoiser: its prior, its posterior, and the evidence it gives for the masked values.

Given z the revealed positions are independent; integrating z out makes them dependent: :math:`\log p(x_S \mid x_t) =
\log E_{z \sim p} \prod_{i \in S} \mu_i(x_t, z, t)[x_{0,i}]`. A :class:`Latent` says how z is drawn when sampling and
how that logarithm is bounded when training; the objective, the sampler and the bounds know nothing else about it.
:class:`NoLatent` is the trivial one and turns VADD into MDLM.

To add another latent (an informed prior p(z | x_t), codes that are summed exactly), subclass :class:`Latent`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from vadd.core.masking import MaskedBatch

Score = Callable[[Tensor | None], Tensor]
"""z of shape (K, B, d) -> (K, B): log prod_{i in S} mu_i(x_t, z, t)[x0_i]. Without a latent z is None and K = 1."""


@dataclass(frozen=True)
class DiagonalGaussian:
    """N(mean, diag(exp(log_std))^2) over the last dimension; ``mean`` and ``log_std`` have shape (..., d)."""

    mean: Tensor
    log_std: Tensor

    def from_noise(self, noise: Tensor) -> Tensor:
        """Reparameterised draw: z = mean + std * noise, differentiable in both parameters."""
        return self.mean + self.log_std.exp() * noise

    def log_prob(self, z: Tensor) -> Tensor:
        """Log density, summed over the last dimension."""
        standardised = (z - self.mean) * (-self.log_std).exp()
        return (-0.5 * standardised**2 - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def kl_to_standard_normal(self) -> Tensor:
        """KL(self || N(0, I)) for each dimension, in nats: (..., d)."""
        return 0.5 * (self.mean**2 + (2 * self.log_std).exp() - 1) - self.log_std


def standard_normal_log_prob(z: Tensor) -> Tensor:
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(-1)


def kl_warmup(step: int, warmup_steps: int) -> float:
    """The KL weight lambda: rises linearly from 0 to 1 over ``warmup_steps`` and stays there."""
    return 1.0 if warmup_steps <= 0 else min(1.0, step / warmup_steps)


@dataclass(frozen=True)
class Evidence:
    """What the model says of the masked values of each example, all (B,), in nats."""

    bound: Tensor
    """The (annealed) lower bound of log p(x_S | x_t) that training maximises."""
    reconstruction: Tensor
    """E_r log p(x_S | x_t, z)."""
    kl: Tensor
    """KL(r(z | x0, xt) || p(z)), or an estimate of it."""


class Latent(nn.Module, ABC):
    @abstractmethod
    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> Tensor | None:
        """``count`` independent draws from the prior: (count, d)."""

    @abstractmethod
    def prior_nodes(self, count: int) -> tuple[Tensor | None, Tensor]:
        """About ``count`` points (K, d) and weights (K,) that integrate over the prior, for exact answers on
        small problems.
        """

    @abstractmethod
    def evidence(self, score: Score, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """Bound log E_z exp score(z) from below for every example of the batch."""


class NoLatent(Latent):
    """No latent at all: the masked positions are predicted independently (MDLM)."""

    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> None:
        return None

    def prior_nodes(self, count: int) -> tuple[None, Tensor]:
        return None, torch.ones(1, dtype=torch.float64)

    def evidence(self, score: Score, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        log_likelihood = score(None)[0]
        return Evidence(log_likelihood, log_likelihood, torch.zeros_like(log_likelihood))


class Recognizer(Protocol):
    """A network (x0, xt, t) -> (mean, log_std), both (B, d), for the posterior r(z | x0, xt)."""

    def __call__(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]: ...


class GaussianLatent(Latent):
    """The paper's latent: prior N(0, I), diagonal Gaussian posterior given by a recognition network.

    With one particle the evidence is the DELBO's bracket, E_r log p(x_S | x_t, z) - lambda KL, the KL in closed form.
    With more it is the tighter importance-weighted bound log (1/K) sum_k p(x_S | x_t, z_k) (p(z_k) / r(z_k))^lambda.
    """

    def __init__(self, recognizer: nn.Module, dim: int, particles: int = 1) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.dim = dim
        self.particles = particles

    def posterior(self, x0: Tensor, xt: Tensor, t: Tensor) -> DiagonalGaussian:
        return DiagonalGaussian(*self.recognizer(x0, xt, t))

    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
        return torch.randn(count, self.dim, generator=generator).to(device)

    def prior_nodes(self, count: int) -> tuple[Tensor, Tensor]:
        """Equal weights at the quantile midpoints in one and two dimensions, at a scrambled Sobol sequence in more."""
        if self.dim <= 2:
            side = round(count ** (1 / self.dim))
            axis = (torch.arange(side, dtype=torch.float64) + 0.5) / side
            uniforms = torch.cartesian_prod(*[axis] * self.dim).view(-1, self.dim)
        else:
            sobol = torch.quasirandom.SobolEngine(self.dim, scramble=True, seed=0)  # type: ignore[no-untyped-call]
            uniforms = sobol.draw(count, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
        weights = torch.full((len(uniforms),), 1 / len(uniforms), dtype=torch.float64)
        return torch.special.ndtri(uniforms).float(), weights

    def evidence(self, score: Score, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        posterior = self.posterior(batch.x0, batch.xt, batch.t)
        noise = torch.randn(self.particles, *posterior.mean.shape, generator=generator).to(posterior.mean.device)
        z = posterior.from_noise(noise)
        log_likelihood = score(z)
        kl = posterior.kl_to_standard_normal().sum(-1)
        if self.particles == 1:
            bound = log_likelihood[0] - kl_weight * kl
        else:
            log_ratio = standard_normal_log_prob(z) - posterior.log_prob(z)
            bound = torch.logsumexp(log_likelihood + kl_weight * log_ratio, dim=0) - math.log(self.particles)
        return Evidence(bound, log_likelihood.mean(0), kl)
