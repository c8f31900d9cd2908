r"""A label beside z: the denoiser is given [z, onehot(label)], and zeros where there is no label.

The recognition model is given the label too, else z would repeat it, and a z drawn from the prior would contradict it.
So is a learned prior.

Without a label the model is the mixture :math:`\sum_y \pi_y p(x \mid y)` over the labels, by how frequent each was: a
sample draws its label first. Training drops the label of a share of the examples: guidance moves away from what the
denoiser predicts without one, and completions are drawn without one, because what is known tells their label.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import torch
from torch import Tensor, nn

from vadd.core.importance import DiagonalGaussian
from vadd.core.latents import Evidence, GaussianLatent, Latent, Particles, Score
from vadd.core.masking import MaskedBatch
from vadd.core.priors import Prior
from vadd.core.randomness import Noise


class LabelledRecognizer(nn.Module):
    """A recognition model whose posterior is shifted and scaled by the label: a row for each and one for none, which
    start at no change.
    """

    def __init__(self, recognizer: nn.Module, classes: int, dim: int) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.table = nn.Parameter(torch.zeros(classes + 1, 3 * dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.recognizer(x0, xt, t)
        scale, shift, wider = self.table[labels].chunk(3, dim=-1)
        return mean * (1 + scale) + shift, log_std + wider


class LabelledLatent(Latent):
    """One of ``classes`` labels beside the z of an ``inner`` latent, which may be none.

    Training takes the labels of the batch and drops a share ``dropout`` of them. Samples and bounds are for the label
    that is :attr:`given`, by default none. ``shares`` says how frequent the labels are; by default they are equal.
    ``recognized`` says whether the recognition model is given the label.
    """

    def __init__(
        self,
        classes: int,
        inner: Latent,
        dropout: float = 0.1,
        shares: Sequence[float] | None = None,
        *,
        recognized: bool = True,
    ) -> None:
        super().__init__()
        self.classes, self.dropout = classes, dropout
        self.inner = inner
        self.shares = torch.tensor(shares or [1 / classes] * classes, dtype=torch.float64)
        if isinstance(inner, GaussianLatent) and recognized:
            inner.recognizer = LabelledRecognizer(inner.recognizer, classes, inner.dim)
            inner.reads_labels = True
        self.dim = inner.dim + classes
        self.exact = inner.exact
        self.given: int | None = None

    @property
    def absent(self) -> bool:  # type: ignore[override]
        return self.inner.absent

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        return self.inner.conditional

    def with_label(self, label: int | None) -> "LabelledLatent":
        """The same for samples and bounds of one label."""
        other = copy.copy(self)
        other.given = label
        return other

    def with_prior(self, prior: Prior) -> Latent:
        return self._with_module("inner", self.inner.with_prior(prior))

    def draw_labels(self, nothing_known: Tensor, noise: Noise) -> Tensor:
        """(B,): a label for each of the rows (B,) of which nothing is known, ``classes`` (no label) for the others."""
        ends = self.shares.cumsum(0)
        # By inversion of the distribution function: one uniform number for each row. Rounding may reach the end.
        drawn = torch.searchsorted(ends, noise.uniform() * ends[-1], right=True).clamp(max=self.classes - 1)
        return torch.where(nothing_known, drawn.to(nothing_known.device), self.classes)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        labels = self._given(len(xt), xt.device) if labels is None else labels
        return self._joined(self.inner.draw(xt, t, noise, labels), labels)

    def log_correction(self, z: Tensor, xt: Tensor, nothing_known: Tensor, labels: Tensor | None = None) -> Tensor:
        labels = self._given(len(xt), xt.device) if labels is None else labels
        return self.inner.log_correction(z[..., : self.inner.dim], xt, nothing_known, labels)

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        labels = self._given(1, xt.device) if labels is None else labels
        nodes, weights = self.inner.prior_nodes(count, xt, labels)
        return self._joined(nodes, labels.expand(len(weights))), weights

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        labels = self._labels_of(batch)
        if batch.labels is not None and self.training:
            # Coins of the whole batch, however it is divided.
            coins = batch.normal(1, 1, generator)[0, :, 0]
            kept = coins >= (NormalDist().inv_cdf(self.dropout) if 0 < self.dropout < 1 else 99 * (self.dropout - 0.5))
            labels = torch.where(kept, labels, self.classes)
        batch = replace(batch, labels=labels)
        return self.inner.evidence(self._labelled(score, labels), batch, weight, kl_weight, generator)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        labels = self._given(len(batch.x0), batch.x0.device)
        batch = replace(batch, labels=labels)
        return self.inner.log_marginal(self._labelled(score, labels), batch, revealed, particles, generator)

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        return self.inner.posterior(replace(batch, labels=self._labels_of(batch)))

    def point(self, score: Score, batch: MaskedBatch) -> Tensor:
        labels = self._given(len(batch.x0), batch.x0.device)
        inner = self.inner.point(self._labelled(score, labels), replace(batch, labels=labels))
        return self._joined(inner, labels)

    def unlabelled(self, z: Tensor) -> Tensor:
        """What the denoiser would be given without the label."""
        return torch.cat([z[..., : self.inner.dim], torch.zeros_like(z[..., self.inner.dim :])], dim=-1)

    def _labels_of(self, batch: MaskedBatch) -> Tensor:
        """(B,): the examples' own where the batch has them, else what is given."""
        return self._given(len(batch.x0), batch.x0.device) if batch.labels is None else batch.labels

    def _given(self, count: int, device: torch.device) -> Tensor:
        """(count,): the label that is given; ``classes`` stands for none."""
        return torch.full((count,), self.classes if self.given is None else self.given, device=device)

    def _labelled(self, score: Score, labels: Tensor) -> Score:
        """The score of z (K, B, d) or None, with the labels (B,) beside it."""

        def labelled(z: Tensor | None) -> Tensor:
            return score(self._joined(z, labels) if z is not None else self._joined(None, labels)[None])

        return labelled

    def _joined(self, z: Tensor | None, labels: Tensor) -> Tensor:
        """What the denoiser is given: z, then the label."""
        one_hot = (labels[:, None] == torch.arange(self.classes, device=labels.device)).float()
        return one_hot if z is None else torch.cat([z, one_hot.to(z.dtype).expand(*z.shape[:-1], -1)], dim=-1)
