r"""The paper's latent: Gaussian posteriors given by a recognition network, and the priors that z may have.

**Prior.** Where z comes from when sampling: the prior p(z), or p(z | x_t) where it reads what is known.

N(0, I) is the paper's. The aggregate posterior :math:`E_{x_0} r(z \mid x_0)` of a trained recognition model differs
from it, and a z that is likely under N(0, I) only decodes to nothing in particular. A :class:`FlowPrior` is fitted to
draws of the recognition model; with a reader of states it is *conditional*, p(z | x_t), and draws a z that agrees with
what is known. A prior of a model with labels is given the label of each row, the number of classes standing for none.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.densities import (
    DiagonalGaussian,
    Particles,
    Proposal,
    ProposalName,
    even_mixture,
    log_density,
    log_mean_weight,
    standard_normal_log_prob,
    standard_normal_nodes,
)
from vadd.core.latents import Evidence, Latent, Score, changed
from vadd.core.masking import MaskedBatch
from vadd.core.places import at_least_single, precise
from vadd.core.randomness import Noise


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


class Flow(Protocol):
    """A network that turns standard normal numbers into a density, see :class:`vadd.networks.flows.CouplingFlow`."""

    dim: int
    noise_dim: int
    """The normal numbers that a draw takes; a mixture needs one more than ``dim``, to choose a component."""

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor: ...

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor: ...

    def start_at(self, z: Tensor) -> None:
        """Begin near examples (n, d) of what is to be learnt, if that helps."""


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

    def context(self, xt: Tensor, labels: Tensor | None = None, count: int = 1) -> Tensor | None:
        """What the flow reads, (count, B, c)."""
        parts = [] if self.reader is None else [self.reader(xt)]
        if self.classes:
            rows = xt.shape[0]
            labels = torch.full((rows,), self.classes, device=xt.device) if labels is None else labels.to(xt.device)
            one_hot = F.one_hot(labels, self.classes + 1).float()[:, None].expand(-1, self.positions, -1)
            parts = [torch.cat([*(read.view(rows, self.positions, -1) for read in parts), one_hot], dim=-1).flatten(1)]
        return parts[0].expand(count, *parts[0].shape) if parts else None

    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.flow.from_noise(noise, self.context(xt, labels, noise.shape[0]))

    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        # The flow works in single precision. Half precision would be wrong by whole nats in its log-determinants.
        device = "cpu" if z.is_meta else z.device.type  # costs are counted on the meta device
        with torch.autocast(device, enabled=False):
            return self.flow.log_prob(z.float(), self.context(xt, labels, len(z))).to(z.dtype)


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
        noise_of_rows = noise.normal(self.prior.noise_dim).to(xt.device)
        return self.prior.from_noise(noise_of_rows[None], xt, labels)[0]

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


class SharedLatent(GaussianLatent):
    r"""One z with one meaning: the recognition model r(z | x0) does not see x_t, and one z serves all steps.

    The evidence is w log p(x_S | x_t, z) - lambda KL(r(z | x0) || p(z)): the KL counts once for an example, not once
    for every state. With the weights of :class:`~vadd.core.masking.StepTimes` its mean is a bound of the likelihood of
    the sampler that keeps one z for its T steps.
    """

    def __init__(self, recognizer: nn.Module, dim: int, mask_value: int, *, prior: Prior | None = None) -> None:
        super().__init__(recognizer, dim, prior=prior)
        self.mask_value = mask_value

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian:
        """r(z | x0): the recognition model is shown everything masked, whatever the state."""
        # One row in memory for all examples: a network may read it once.
        nothing_known = batch.x0.new_full((1, batch.x0.shape[1]), self.mask_value).expand_as(batch.x0)
        return self._recognized(batch, nothing_known, torch.ones_like(batch.t))

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        posterior = self.posterior(batch)
        z = posterior.from_noise(batch.normal(1, self.dim, generator))
        reconstruction = weight * score(z)[0]
        # z is drawn once, before the first step: its prior is that of the state in which everything is masked. The KL
        # counts once, so it is not weighted by w, which stands for a sum over steps.
        nothing_known = torch.full_like(batch.xt, self.mask_value)
        if isinstance(self.prior, StandardNormal):
            kl = self.prior.kl(posterior, z, nothing_known, batch.labels)
            return Evidence(reconstruction - kl_weight * kl, reconstruction, kl)
        # A prior that is trained with the model must follow the posterior at full weight while the KL is warmed up: its
        # weights get the gradient of log p(z) as it is, z gets kl_weight times that.
        follows = kl_weight * z + (1 - kl_weight) * z.detach()
        log_prior = self.prior.log_prob(follows, nothing_known, batch.labels)[0]
        kl = -posterior.entropy() - log_prior
        lag = (1 - kl_weight) * log_prior.detach()
        return Evidence(reconstruction + kl_weight * posterior.entropy() + log_prior - lag, reconstruction, kl)
