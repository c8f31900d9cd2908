r"""The latent variable z of the denoiser: its prior, its posterior, and the evidence it gives for the masked values.

Given z the revealed positions are independent; integrating z out makes them dependent: :math:`\log p(x_S \mid x_t) =
\log E_{z \sim p} \prod_{i \in S} \mu_i(x_t, z, t)[x_{0,i}]`. A :class:`Latent` says how z is drawn when sampling and
how that logarithm is bounded when training; the objective, the sampler and the bounds know nothing else about it.
:class:`NoLatent` turns VADD into MDLM. To add another latent, subclass :class:`Latent` (:mod:`vadd.core.categorical`
has one that is summed exactly); another prior is a :class:`~vadd.core.densities.Prior`.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor, nn

from vadd.core.densities import (
    DiagonalGaussian,
    Prior,
    PriorProposal,
    Proposal,
    StandardNormal,
    even_mixture,
    log_density,
    log_mean_weight,
)
from vadd.core.masking import MaskedBatch
from vadd.core.precision import at_least_single, precise
from vadd.core.randomness import Noise
from vadd.errors import UserError

Whole = TypeVar("Whole", bound=nn.Module)
Score = Callable[[Tensor | None], Tensor]
"""z of shape (K, B, d) -> (K, B): log prod_{i in S} mu_i(x_t, z, t)[x0_i]. Without a latent z is None and K = 1."""


def kl_warmup(step: int, warmup_steps: int, power: float = 1.0) -> float:
    """The KL weight lambda: rises from 0 to 1 over ``warmup_steps``, as a ``power`` of the step, and stays there."""
    return 1.0 if warmup_steps <= 0 else float(min(1.0, step / warmup_steps) ** power)


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
class Evidence:
    """What each example adds to the objective, all (B,), in nats, already times the weight w of its mask."""

    bound: Tensor
    """Training maximises the mean of it: w times a lower bound of log p(x_S | x_t), with the KL times lambda."""
    reconstruction: Tensor
    """w E_r log p(x_S | x_t, z)."""
    kl: Tensor
    """The KL of the recognition model from the prior, as it counts in the bound, or an estimate of it."""

    @classmethod
    def without_latent(cls, bound: Tensor) -> "Evidence":
        return cls(bound, bound, torch.zeros_like(bound))


class Latent(nn.Module, ABC):
    """What the objective, the bounds and the sampler ask of a latent variable. Labels are those of the rows, for models
    that have some; where there is a batch it holds them.
    """

    dim: int
    """The width d of z; 0 where there is none."""
    exact: bool = False
    """Whether :meth:`log_marginal` is, whatever the particles."""
    conditional: bool = False
    """Whether the prior depends on the state."""
    absent: bool = False
    """Whether there is nothing to draw: the model is one without a latent."""
    label_shares: Tensor | None = None
    """(C,), where the model is a mixture over labels: how much of each. None for one label, and without labels."""

    @abstractmethod
    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor | None:
        """One draw from the prior p(z | xt, t) for each of the states xt (B, N) at times t (B,), with the noise of
        these B rows: (B, d).
        """

    def draw_labels(self, nothing_known: Tensor, noise: Noise) -> Tensor | None:
        """(B,): a label for each of the rows of which nothing is known (B,), the number of classes (no label) for the
        others; None where the model does not draw labels.
        """
        return None

    def log_correction(self, z: Tensor, xt: Tensor, nothing_known: Tensor, labels: Tensor | None = None) -> Tensor:
        """log p(z | nothing known) - log p(z | xt) for draws z (K, B, d) given xt, (K, B): the weight that turns them
        into draws of the unconditional prior.
        """
        return z.new_zeros(z.shape[:2])

    @abstractmethod
    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor | None, Tensor]:
        """About ``count`` points (K, d) and weights (K,) that integrate over the prior of a state (N,), for exact
        answers on small problems.
        """

    @abstractmethod
    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        """A lower bound of log E_z exp score(z) for every example of the batch, to train on.

        ``weight`` (B,) is that of each example's mask; 0 where nothing is scored. Random numbers come through the batch
        (:meth:`~vadd.core.masking.MaskedBatch.normal`), which knows whether it is a part of a larger one.
        """

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        """The random numbers that :meth:`evidence` takes of the batch, in its order, to be sent with it."""
        return []

    @abstractmethod
    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        """An estimate of log E_z exp score(z), (B,) float64, that does not exceed it in expectation, for bounds.

        ``score`` counts the positions of ``revealed`` (B, N) only, a part of the masked ones; at least one in every
        example.
        """

    def proposed(
        self, batch: MaskedBatch, proposals: tuple[ProposalName, ...], generator: torch.Generator
    ) -> tuple[Tensor | None, Tensor]:
        """One z for each state of the batch, (B, d), and log p(z) / g(z), (B,) float64, g being what it was drawn from:
        here the prior.
        """
        z = self.draw(batch.xt, batch.t, Noise.of(generator, len(batch.xt)))
        return z, precise(torch.zeros_like(batch.t))

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        """r(z | x0, xt), for latents that have a recognition model."""
        return None

    def point(self, score: Score, batch: MaskedBatch) -> Tensor | None:
        """The z that stands for an example, (B, d): the mean of the recognition model, where there is one."""
        posterior = self.posterior(batch)
        return None if posterior is None else posterior.mean

    def with_prior(self, prior: Prior) -> "Latent":
        """The same recognition model, with another prior."""
        raise UserError("this model has no Gaussian latent: there is no prior to change")


def with_part(whole: Whole, name: str, part: nn.Module) -> Whole:
    """The same networks, but for one."""
    # A shallow copy shares the networks. Its table of modules must be another one, or the whole would change too.
    other = copy.copy(whole)
    other._modules = {**whole._modules, name: part}
    return other


class NoLatent(Latent):
    """No latent at all: the masked positions are predicted independently (MDLM)."""

    dim = 0
    exact = True
    absent = True

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> None:
        return None

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[None, Tensor]:
        return None, torch.ones(1, dtype=torch.float64, device=xt.device)

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        return Evidence.without_latent(weight * score(None)[0])

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        """Exact: there is nothing to integrate."""
        return precise(score(None)[0])


class Recognizer(Protocol):
    """A network (x0, xt, t) -> (mean, log_std), both (B, d), for the posterior r(z | x0, xt).

    It reads the clean tokens x0 and the masked ones xt, (B, N) in 0..V each, and the times t (B,). Keep log_std within
    sane limits, -8 to 3 say: one bad step should not end in infinities.
    """

    def __call__(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]: ...


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
        return with_part(self, "prior", prior)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        return self.prior.draw(xt, noise, labels)

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
