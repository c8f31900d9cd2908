r"""A label beside z: the denoiser is given [z, onehot(label)], and zeros where there is no label.

The recognition model knows the label too: else z would say what the label says already, and a z drawn from the prior
would contradict it. So does a learned prior.

Without a label the model is the mixture :math:`\sum_y \pi_y p(x \mid y)` over the labels, by how frequent each was: a
sample draws its label first. A share of the training examples drops the label all the same. What the denoiser says
without one is what guidance pushes away from, and what completions are drawn with: what is known tells their label.
"""

import copy
from collections.abc import Sequence
from statistics import NormalDist

import torch
from torch import Tensor, nn

from vadd.core.gaussian import DiagonalGaussian
from vadd.core.latents import Evidence, GaussianLatent, Latent, Particles, Score
from vadd.core.masking import MaskedBatch
from vadd.core.noise import Noise
from vadd.core.priors import FlowPrior, Prior
from vadd.errors import UserError


class LabelledRecognizer(nn.Module):
    """A recognition model whose posterior is shifted and scaled by the label: a row for each and one for none. All
    start at nothing changed.
    """

    def __init__(self, recognizer: nn.Module, classes: int, dim: int) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.table = nn.Parameter(torch.zeros(classes + 1, 3 * dim))
        self.labels: Tensor | None = None
        """(B,), of the examples that are about to be read; whoever asks sets them."""

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.recognizer(x0, xt, t)
        labels = self.labels
        if labels is None:
            labels = torch.full((len(x0),), len(self.table) - 1, device=x0.device)
        scale, shift, wider = self.table[labels].chunk(3, dim=-1)
        return mean * (1 + scale) + shift, log_std + wider


class LabelledLatent(Latent):
    """One of ``classes`` labels beside the z of an ``inner`` latent, which may be none.

    Training takes the labels of the batch and drops a share ``dropout`` of them. Samples and bounds are for the label
    that is :attr:`given`, by default none. ``shares`` says how frequent the labels are; by default they are alike.
    ``recognized`` says whether the recognition model is shown the label.
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
        self.dim = inner.dim + classes
        self.exact = inner.exact
        self.given: int | Tensor | None = None
        """A label, or one for each row (B,); the number ``classes`` stands for none."""

    @property
    def absent(self) -> bool:
        return self.inner.absent

    @property
    def conditional(self) -> bool:
        return self.inner.conditional

    def with_label(self, label: int | Tensor | None) -> "LabelledLatent":
        """The same for samples of one label, or of one for each row."""
        other = copy.copy(self)
        other.given = label
        return other

    def with_drawn_labels(self, nothing_known: Tensor, noise: Noise) -> "LabelledLatent":
        """The same with a label for each of the rows (B,) of which nothing is known, and none for the others."""
        ends = self.shares.cumsum(0)
        # By inversion of the distribution function: one uniform number for each row. Rounding may reach the end.
        drawn = torch.searchsorted(ends, noise.uniform() * ends[-1], right=True).clamp(max=self.classes - 1)
        return self.with_label(torch.where(nothing_known, drawn.to(nothing_known.device), self.classes))

    def with_prior(self, prior: Prior) -> "LabelledLatent":
        if not isinstance(self.inner, GaussianLatent):
            raise UserError("this model has no Gaussian latent: there is no prior to change")
        other = copy.copy(self)
        other._modules = {**self._modules, "inner": self.inner.with_prior(prior)}
        return other

    def draw(self, xt: Tensor, t: Tensor, noise: Noise) -> Tensor:
        labels = self._given(len(xt), xt.device)
        self._tell(labels)
        return self._beside(self.inner.draw(xt, t, noise), labels)

    def log_correction(self, z: Tensor, xt: Tensor, nothing_known: Tensor) -> Tensor:
        self._tell(self._given(len(xt), xt.device))
        return self.inner.log_correction(z[..., : self.inner.dim], xt, nothing_known)

    def prior_nodes(self, count: int, xt: Tensor) -> tuple[Tensor, Tensor]:
        self._tell(self._given(1, xt.device))
        nodes, weights = self.inner.prior_nodes(count, xt)
        return self._beside(nodes, self._given(len(weights), xt.device)), weights

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        labels = self._labels_of(batch)
        if batch.labels is not None and self.training:
            # Coins of the whole batch, however it is divided.
            coins = batch.normal(1, 1, generator)[0, :, 0]
            kept = coins >= (NormalDist().inv_cdf(self.dropout) if 0 < self.dropout < 1 else 99 * (self.dropout - 0.5))
            labels = torch.where(kept, labels, self.classes)
        self._tell(labels)
        return self.inner.evidence(self._labelled(score, labels), batch, weight, kl_weight, generator)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        labels = self._given(len(batch.x0), batch.x0.device)
        self._tell(labels)
        return self.inner.log_marginal(self._labelled(score, labels), batch, revealed, particles, generator)

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        self._tell(self._labels_of(batch))
        return self.inner.posterior(batch)

    def point(self, score: Score, batch: MaskedBatch) -> Tensor:
        labels = self._given(len(batch.x0), batch.x0.device)
        self._tell(labels)
        return self._beside(self.inner.point(self._labelled(score, labels), batch), labels)

    def unlabelled(self, z: Tensor) -> Tensor:
        """What the denoiser would be given without the label."""
        return torch.cat([z[..., : self.inner.dim], torch.zeros_like(z[..., self.inner.dim :])], dim=-1)

    def _labels_of(self, batch: MaskedBatch) -> Tensor:
        """(B,): the examples' own where the batch has them, else what is given."""
        return self._given(len(batch.x0), batch.x0.device) if batch.labels is None else batch.labels

    def _given(self, count: int, device: torch.device) -> Tensor:
        """(count,): the label that is given; ``classes`` stands for none."""
        if isinstance(self.given, Tensor):
            assert len(self.given) == count, "labels were drawn for other rows"
            return self.given.to(device)
        return torch.full((count,), self.classes if self.given is None else self.given, device=device)

    def _tell(self, labels: Tensor) -> None:
        if isinstance(self.inner, GaussianLatent) and isinstance(self.inner.recognizer, LabelledRecognizer):
            self.inner.recognizer.labels = labels
        if isinstance(self.inner, GaussianLatent) and isinstance(self.inner.prior, FlowPrior):
            self.inner.prior.labels = labels

    def _labelled(self, score: Score, labels: Tensor) -> Score:
        """The score of z (K, B, d) or None, with the labels (B,) beside it."""

        def labelled(z: Tensor | None) -> Tensor:
            return score(self._beside(z, labels) if z is not None else self._beside(None, labels)[None])

        return labelled

    def _beside(self, z: Tensor | None, labels: Tensor) -> Tensor:
        one_hot = (labels[:, None] == torch.arange(self.classes, device=labels.device)).float()
        return one_hot if z is None else torch.cat([z, one_hot.to(z.dtype).expand(*z.shape[:-1], -1)], dim=-1)
