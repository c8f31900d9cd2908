r"""Densities over z: the posterior, the priors, and importance sampling with a mixture of them.

**Prior.** Where z comes from when sampling: the prior p(z), or p(z | x_t) where it reads what is known.

N(0, I) is the paper's. The aggregate posterior :math:`E_{x_0} r(z \mid x_0)` of a trained recognition model differs
from it, and a z that is likely under N(0, I) only decodes to nothing in particular. A :class:`FlowPrior` is fitted to
draws of the recognition model; with a reader of states it is *conditional*, p(z | x_t), and draws a z that agrees with
what is known. A prior of a model with labels is given the label of each row, the number of classes standing for none.

**Importance sampling** of :math:`\log E_{z \sim p} e^{\mathrm{score}(z)}` with a mixture of proposals.

With draws z_1..z_K, a fixed number from each component, and every draw weighed by the mixture density g (the balance
heuristic),

.. math:: \log \frac1K \sum_k e^{\mathrm{score}(z_k)} \frac{p(z_k)}{g(z_k)}

never exceeds the true logarithm in expectation, whatever the components are. Having the prior among them bounds every
weight p / g by K / K_prior, so that no single draw can dominate. (With more draws of a mixture the estimate need not
rise: a perfect recognition model alone is exact with one draw, and others only dilute it.) Sums run in float64, and
over draws in chunks: memory does not grow with K.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.precision import precise
from vadd.core.randomness import Noise


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


class Prior(nn.Module, ABC):
    """A density over z (d numbers) for given states x_t (B, N), and labels (B,) if there are any."""

    dim: int
    noise_dim: int
    """The standard normal numbers that a draw is made from."""
    conditional: bool = False
    """Whether it depends on the state."""

    @abstractmethod
    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        """Standard normal numbers (K, B, noise_dim) -> K draws for each of the states: (K, B, d)."""

    @abstractmethod
    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        """log p(z | xt) for z (K, B, d): (K, B), in the precision of z."""

    def draw(self, xt: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        """One draw for each of the states xt, with the noise of these B rows: (B, d)."""
        return self.from_noise(noise.normal(self.noise_dim).to(xt.device)[None], xt, labels)[0]

    def draws(self, count: int, xt: Tensor, generator: torch.Generator, labels: Tensor | None = None) -> Tensor:
        """``count`` draws for each of the states: (count, B, d)."""
        noise = torch.randn(count, len(xt), self.noise_dim, generator=generator)
        return self.from_noise(noise.to(xt.device), xt, labels)

    def nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """About ``count`` points (K, d) and weights (K,) that integrate over p(z | xt), of a single state (N,) with a
        label (1,).
        """
        # Where a number chooses a component, draws jump: of a square's few different numbers most components get none.
        smooth = self.noise_dim == self.dim
        points, weights = standard_normal_nodes(self.noise_dim, count, smooth=smooth)
        # Points of N(0, I) are mapped to the prior's own density, and their weights stay: a change of variables.
        return self.from_noise(points.to(xt.device)[:, None], xt[None], labels)[:, 0], weights.to(xt.device)

    def kl(self, posterior: DiagonalGaussian, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        """KL(posterior || prior) in nats, (B,): an estimate from draws z (K, B, d) of the posterior."""
        return (posterior.log_prob(z) - self.log_prob(z, xt, labels)).mean(0)


class StandardNormal(Prior):
    """The paper's prior N(0, I), the same in every state; KLs in closed form."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = self.noise_dim = dim

    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return noise

    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return standard_normal_log_prob(z)

    def kl(self, posterior: DiagonalGaussian, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return posterior.kl_to_standard_normal().sum(-1)


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


class Flow(Protocol):
    """A network that turns standard normal numbers into a density, see :class:`vadd.networks.flows.CouplingFlow`."""

    dim: int
    noise_dim: int
    """The normal numbers that a draw takes; a mixture needs one more than ``dim``, to choose a component."""

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor: ...

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor: ...

    def start_at(self, z: Tensor) -> None:
        """Begin near examples (n, d) of what is to be learnt, if that helps."""
        ...


class FlowPrior(Prior):
    """A learned prior: a flow, and for a conditional one a ``reader`` that turns states (B, N) into contexts (B, c).

    With ``classes`` it is p(z | label), and one density more for z without a label. A one-hot label ends the context;
    where the flow has contexts of ``positions`` of z, it ends each of them.
    """

    flow: Flow

    def __init__(
        self, flow: nn.Module, reader: nn.Module | None = None, classes: int = 0, *, positions: int = 1
    ) -> None:
        super().__init__()
        self.classes, self.positions = classes, positions
        self.flow = flow  # type: ignore[assignment]  # a Module that satisfies the protocol
        self.reader = reader
        self.dim, self.noise_dim = self.flow.dim, self.flow.noise_dim
        self.conditional = reader is not None

    def context(self, xt: Tensor, labels: Tensor | None = None) -> Tensor | None:
        read = None if self.reader is None else self.reader(xt)
        if not self.classes:
            return read
        if labels is None:
            labels = torch.full((xt.shape[0],), self.classes, device=xt.device)
        one_hot = F.one_hot(labels.to(xt.device), self.classes + 1).float()[:, None].expand(-1, self.positions, -1)
        parts = [one_hot] if read is None else [read.view(xt.shape[0], self.positions, -1), one_hot]
        return torch.cat(parts, dim=-1).flatten(1)

    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.flow.from_noise(noise, self._repeated(noise.shape[0], xt, labels))

    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        # The flow works in single precision. Half precision would be wrong by whole nats in its log-determinants.
        device = "cpu" if z.is_meta else z.device.type  # costs are counted on the meta device
        with torch.autocast(device, enabled=False):
            return self.flow.log_prob(z.float(), self._repeated(len(z), xt, labels)).to(z.dtype)

    def _repeated(self, count: int, xt: Tensor, labels: Tensor | None) -> Tensor | None:
        context = self.context(xt, labels)
        return None if context is None else context.expand(count, *context.shape)


@dataclass(frozen=True)
class PriorProposal:
    """The prior of given states and labels, to draw from like from any other proposal (:mod:`vadd.core.densities`)."""

    prior: Prior
    xt: Tensor
    labels: Tensor | None = None

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        return self.prior.draws(count, self.xt, generator, self.labels)

    def log_prob(self, z: Tensor) -> Tensor:
        return self.prior.log_prob(z, self.xt, self.labels)


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
