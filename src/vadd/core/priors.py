r"""Where z comes from when sampling: the prior p(z), or p(z | x_t) where it looks at what is known already."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vadd.core.gaussian import DiagonalGaussian, standard_normal_log_prob
from vadd.core.noise import Noise


class Prior(nn.Module, ABC):
    """A density over z (d numbers) that can be evaluated and drawn from, for given states x_t (B, N)."""

    dim: int

    @abstractmethod
    def draw(self, xt: Tensor, noise: Noise) -> Tensor:
        """One draw for each of the states xt, with the noise of these B rows: (B, d)."""

    @abstractmethod
    def draws(self, count: int, xt: Tensor, generator: torch.Generator) -> Tensor:
        """``count`` draws for each of the states: (count, B, d)."""

    @abstractmethod
    def log_prob(self, z: Tensor, xt: Tensor) -> Tensor:
        """log p(z | xt) for z (K, B, d): (K, B), in the precision of z."""

    @abstractmethod
    def nodes(self, count: int) -> tuple[Tensor, Tensor]:
        """About ``count`` points (K, d) and weights (K,) that integrate over p(z | everything masked)."""

    def kl(self, posterior: DiagonalGaussian, z: Tensor, xt: Tensor) -> Tensor:
        """KL(posterior || prior) in nats, (B,): an estimate from draws z (K, B, d) of the posterior."""
        return (posterior.log_prob(z) - self.log_prob(z, xt)).mean(0)


class StandardNormal(Prior):
    """The paper's prior N(0, I), the same in every state; KLs in closed form."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def draw(self, xt: Tensor, noise: Noise) -> Tensor:
        return noise.normal(self.dim).to(xt.device)

    def draws(self, count: int, xt: Tensor, generator: torch.Generator) -> Tensor:
        return torch.randn(count, len(xt), self.dim, generator=generator).to(xt.device)

    def log_prob(self, z: Tensor, xt: Tensor) -> Tensor:
        return standard_normal_log_prob(z)

    def kl(self, posterior: DiagonalGaussian, z: Tensor, xt: Tensor) -> Tensor:
        return posterior.kl_to_standard_normal().sum(-1)

    def nodes(self, count: int) -> tuple[Tensor, Tensor]:
        return standard_normal_nodes(self.dim, count)


def standard_normal_nodes(dim: int, count: int) -> tuple[Tensor, Tensor]:
    """Equal weights at the quantile midpoints in one and two dimensions, at a scrambled Sobol sequence in more."""
    if dim <= 2:
        side = round(count ** (1 / dim))
        axis = (torch.arange(side, dtype=torch.float64) + 0.5) / side
        uniforms = torch.cartesian_prod(*[axis] * dim).view(-1, dim)
    else:
        sobol = torch.quasirandom.SobolEngine(dim, scramble=True, seed=0)  # type: ignore[no-untyped-call]
        uniforms = sobol.draw(count, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    weights = torch.full((len(uniforms),), 1 / len(uniforms), dtype=torch.float64)
    return torch.special.ndtri(uniforms).float(), weights


@dataclass(frozen=True)
class PriorProposal:
    """The prior of given states, to draw from like from any other proposal (:mod:`vadd.core.importance`)."""

    prior: Prior
    xt: Tensor

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        return self.prior.draws(count, self.xt, generator)

    def log_prob(self, z: Tensor) -> Tensor:
        return self.prior.log_prob(z, self.xt)
