r"""The paper's latent: Gaussian posteriors given by a recognition network, and the priors that z may have.

**Prior.** Where z comes from when sampling: the prior p(z), or p(z | x_t) where it reads what is known.

N(0, I) is the paper's. The aggregate posterior :math:`E_{x_0} r(z \mid x_0)` of a trained recognition model differs
from it, and a z that is likely under N(0, I) only decodes to nothing in particular. A :class:`FlowPrior` is fitted to
draws of the recognition model; with a reader of states it is *conditional*, p(z | x_t), and draws a z that agrees with
what is known. A prior of a model with labels is given the label of each row, the number of classes standing for none.

**Bounds** integrate z out by importance sampling with a mixture of densities, of :math:`\log E_{z \sim p}
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from vadd.core.host import Noise, at_least_single, precise
from vadd.core.latents import Evidence, Latent, Score, changed
from vadd.core.masking import MaskedBatch
from vadd.errors import UserError

ProposalName = Literal["recognition", "revealed", "prior"]


MOST_PARTICLES = 2**20


@dataclass(frozen=True)
class Particles:
    """How a bound integrates z out: K draws, from which proposals, and how many at a time.

    ``recognition`` is r(z | x0, xt), which looks at all masked values; ``revealed`` is the same network shown only the
    values that are scored, the other masked ones still hidden; ``prior`` is p(z). Any choice is valid, see
    :mod:`vadd.core.gaussian`; they differ in tightness.

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
            raise UserError(f"proposals takes {', '.join(get_args(ProposalName))}, not {said}")


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


@dataclass(frozen=True)
class PriorProposal:
    """The prior of given states and labels, to draw from like from any other proposal (:mod:`vadd.core.gaussian`)."""

    prior: Prior
    xt: Tensor
    labels: Tensor | None = None

    def draws(self, count: int, generator: torch.Generator) -> Tensor:
        return self.prior.draws(count, self.xt, generator, self.labels)

    def log_prob(self, z: Tensor) -> Tensor:
        return self.prior.log_prob(z, self.xt, self.labels)


class GaussianLatent(Latent):
    """The paper's latent: diagonal Gaussian posterior r(z | x0, xt) given by a recognition network, prior N(0, I).

    With one particle the evidence is the DELBO's bracket, w (E_r log p(x_S | x_t, z) - lambda KL). With more it is the
    tighter importance-weighted bound w log (1/K) sum_k p(x_S | x_t, z_k) (p(z_k) / r(z_k))^lambda.

    >>> from vadd.networks import MlpSettings, SiameseMlpRecognizer
    >>> latent = GaussianLatent(SiameseMlpRecognizer(2, 5, MlpSettings(width=16), latent_dim=3), dim=3)
    >>> batch = MaskedBatch.all_masked(torch.tensor([[3, 1]]), mask_value=5)
    >>> latent.posterior(batch).mean.shape, latent.draw(batch.xt, batch.t, Noise.of(torch.Generator(), rows=1)).shape
    (torch.Size([1, 3]), torch.Size([1, 3]))
    """

    def __init__(self, recognizer: nn.Module, dim: int, particles: int = 1, *, prior: Prior | None = None) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.reads_labels = False
        """Whether the recognition model is called with the labels as well."""
        self.dim = dim
        self.particles = particles
        self.prior = StandardNormal(dim) if prior is None else prior

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        return self.prior.conditional

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian:
        return self._recognized(batch, batch.xt, batch.t)

    def _recognized(self, batch: MaskedBatch, xt: Tensor, t: Tensor) -> DiagonalGaussian:
        labels = (batch.labels,) if self.reads_labels else ()
        mean, log_std = self.recognizer(batch.x0, xt, t, *labels)
        return DiagonalGaussian(at_least_single(mean), at_least_single(log_std))

    def with_prior(self, prior: Prior) -> Latent:
        return changed(self, prior=prior)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        z = noise.normal(self.prior.noise_dim).to(xt.device)
        return z if isinstance(self.prior, StandardNormal) else self.prior.from_noise(z[None], xt, labels)[0]

    def log_correction(self, z: Tensor, xt: Tensor, nothing_known: Tensor, labels: Tensor | None = None) -> Tensor:
        if not self.conditional:
            return super().log_correction(z, xt, nothing_known)
        return self.prior.log_prob(z, nothing_known, labels) - self.prior.log_prob(z, xt, labels)

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.prior.nodes(count, xt, labels)

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        return [batch.normal(self.particles, self.dim, generator)]

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        posterior = self.posterior(batch)
        z = posterior.from_noise(batch.normal(self.particles, self.dim, generator))
        log_likelihood = score(z)
        kl = self.prior.kl(posterior, z, batch.xt, batch.labels)
        # With several particles the bound is made of the ratios p(z) / r(z), and the KL is only logged.
        if self.particles == 1:
            bound = log_likelihood[0] - kl_weight * kl
        else:
            log_ratio = self.prior.log_prob(z, batch.xt, batch.labels) - posterior.log_prob(z)
            bound = torch.logsumexp(log_likelihood + kl_weight * log_ratio, dim=0) - math.log(self.particles)
        return Evidence(weight * bound, weight * log_likelihood.mean(0), weight * kl)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        prior = PriorProposal(self.prior, batch.xt, batch.labels)

        # What is masked but not revealed must be hidden from this proposal: there x_t has the mask.
        hiding = replace(batch, x0=torch.where(revealed, batch.x0, batch.xt))
        shown: dict[str, MaskedBatch] = {"recognition": batch, "revealed": hiding}
        components = [prior if name == "prior" else self.posterior(shown[name]) for name in particles.proposals]
        mixture = even_mixture(components, particles.count)
        # The denoiser sees every draw of a chunk as a batch of its own: chunk * B sequences in a call.
        chunk = max(1, particles.rows_per_call // len(batch.x0))
        return log_mean_weight(score, prior.log_prob, mixture, chunk, generator)

    def proposed(
        self, batch: MaskedBatch, proposals: tuple[ProposalName, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """From the prior or from the recognition model, which is shown everything: what will be revealed is not known
        yet.
        """
        prior = PriorProposal(self.prior, batch.xt, batch.labels)
        names = dict.fromkeys("prior" if name == "prior" else "recognition" for name in proposals)
        components: list[Proposal] = [prior if name == "prior" else self.posterior(batch) for name in names]
        drawn = torch.cat([component.draws(1, generator) for component in components])
        # A component for each row by itself: the states differ, so that no fixed shares would do.
        which = torch.randint(len(components), (len(batch.xt),), generator=generator).to(drawn.device)
        z = drawn.gather(0, which[None, :, None].expand(1, -1, self.dim))
        log_g = log_density([(component, 1) for component in components], precise(z))
        return z[0], (prior.log_prob(precise(z)) - log_g)[0]
