r"""The latent variable z of the denoiser: its prior, its posterior, and the evidence it gives for the masked values.

Given z the revealed positions are independent; integrating z out makes them dependent: :math:`\log p(x_S \mid x_t) =
\log E_{z \sim p} \prod_{i \in S} \mu_i(x_t, z, t)[x_{0,i}]`. A :class:`Latent` says how z is drawn when sampling and
how that logarithm is bounded when training; the objective, the sampler and the bounds know nothing else about it.
:class:`NoLatent` turns VADD into MDLM. To add another latent, subclass :class:`Latent` (:mod:`vadd.core.categorical`
has one that is summed exactly); another prior is a :class:`~vadd.core.gaussian.Prior`.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from vadd.core.host import Noise, precise
from vadd.core.masking import MaskedBatch
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.core.gaussian import DiagonalGaussian, Particles, Prior, ProposalName

Changed = TypeVar("Changed", bound=nn.Module)
Score = Callable[[Tensor | None], Tensor]
"""z of shape (K, B, d) -> (K, B): log prod_{i in S} mu_i(x_t, z, t)[x0_i]. Without a latent z is None and K = 1."""


def kl_warmup(step: int, warmup_steps: int, power: float = 1.0) -> float:
    """The KL weight lambda: rises from 0 to 1 over ``warmup_steps``, as a ``power`` of the step, and stays there."""
    return 1.0 if warmup_steps <= 0 else float(min(1.0, step / warmup_steps) ** power)


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
    """The width d of z; 0 without a latent."""
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
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: "Particles", generator: torch.Generator
    ) -> Tensor:
        """An estimate of log E_z exp score(z), (B,) float64, that does not exceed it in expectation, for bounds.

        ``score`` counts the positions of ``revealed`` (B, N) only, a part of the masked ones; at least one in every
        example.
        """

    def proposed(
        self, batch: MaskedBatch, proposals: "tuple[ProposalName, ...]", generator: torch.Generator
    ) -> tuple[Tensor | None, Tensor]:
        """One z for each state of the batch, (B, d), and log p(z) / g(z), (B,) float64, g being what it was drawn from:
        here the prior.
        """
        z = self.draw(batch.xt, batch.t, Noise.of(generator, len(batch.xt)))
        return z, precise(torch.zeros_like(batch.t))

    def posterior(self, batch: MaskedBatch) -> "DiagonalGaussian | None":
        """r(z | x0, xt), for latents that have a recognition model."""
        return None

    def point(self, score: Score, batch: MaskedBatch) -> Tensor | None:
        """The z that stands for an example, (B, d): the mean of the recognition model, where there is one."""
        posterior = self.posterior(batch)
        return None if posterior is None else posterior.mean

    def with_prior(self, prior: "Prior") -> "Latent":
        """The same recognition model, with another prior."""
        raise UserError("this model has no Gaussian latent: there is no prior to change")


def changed(module: Changed, **attributes: Any) -> Changed:
    """The same networks, with other ``attributes``."""
    # A shallow copy shares the tables of modules and buffers: with those the original would change too.
    other = copy.copy(module)
    other._modules, other._buffers = dict(module._modules), dict(module._buffers)
    for name, value in attributes.items():
        setattr(other, name, value)
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
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: "Particles", generator: torch.Generator
    ) -> Tensor:
        """Exact: there is nothing to integrate."""
        return precise(score(None)[0])


class Recognizer(Protocol):
    """A network (x0, xt, t) -> (mean, log_std), both (B, d), for the posterior r(z | x0, xt).

    It reads the clean tokens x0 and the masked ones xt, (B, N) in 0..V each, and the times t (B,). Limit log_std, for
    example to -8..3: otherwise one bad step may give infinite values.
    """

    def __call__(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]: ...
