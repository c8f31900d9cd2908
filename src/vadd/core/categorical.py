r"""A categorical variable beside z, one-hot: the denoiser is given [z, onehot(c)].

A **code** is one of C values that is summed out exactly,

.. math:: p(x_S \mid x_t) = E_{z \sim p} \sum_c \pi_c \prod_{i \in S} \mu_i(x_t, [z, \mathrm{onehot}(c)], t)[x_{0,i}].

The probabilities :math:`\pi` are learned with the model. There is no recognition model for c: the sum runs over all
codes, in training as in the bounds. With codes alone nothing is left to bound, and the evidence is the logarithm
itself; the price is that training and bounds read every example C times. Sampling draws one code, and costs what it
did.

A **label** is given; without one the denoiser reads zeros. The recognition model is given the label too, else z
would repeat it, and a z drawn from the prior would contradict it. So is a learned prior. Without a label the model is
the mixture :math:`\sum_y \pi_y p(x \mid y)` over the labels, by how frequent each was: a sample draws its label first.
Training drops the label of a share of the examples: guidance moves away from what the denoiser predicts without one,
and completions are drawn without one, because what is known tells their label.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from statistics import NormalDist

import torch
from torch import Tensor, nn

from vadd.core.gaussian import DiagonalGaussian, GaussianLatent, Particles, Prior, ProposalName
from vadd.core.host import Noise, precise
from vadd.core.latents import Evidence, Latent, NoLatent, Score, changed
from vadd.core.masking import MaskedBatch
from vadd.errors import UserError


class _CategoricalLatent(Latent):
    """One of ``count`` values beside the z of an ``inner`` latent, which may be none."""

    def __init__(self, count: int, inner: Latent) -> None:
        super().__init__()
        self.inner, self.count = inner, count
        self.dim, self.exact = inner.dim + count, inner.exact

    def joined(self, z: Tensor | None, chosen: Tensor) -> Tensor:
        """What the denoiser is given: z, then which value it is; zeros for ``count``, no value."""
        one_hot = (chosen[:, None] == torch.arange(self.count, device=chosen.device)).float()
        return one_hot if z is None else torch.cat([z, one_hot.to(z.dtype).expand(*z.shape[:-1], -1)], dim=-1)

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        return self.inner.numbers_ahead(batch, generator)

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        """Of z alone."""
        return self.inner.posterior(batch)


def _drawn(probabilities: Tensor, noise: Noise) -> Tensor:
    """(B,): by inversion of the distribution function, with one uniform number for each row."""
    ends = probabilities.cumsum(0)
    levels = noise.uniform().to(ends) * ends[-1]
    # Rounding may reach the end.
    return torch.searchsorted(ends, levels, right=True).clamp(max=len(ends) - 1)


class CodedLatent(_CategoricalLatent):
    """One of ``codes`` values c, summed exactly, beside the z of an ``inner`` latent; by default alone.

    Where the inner latent asks for the score of its z, it is given log sum_c pi_c exp score([z, onehot(c)]). So with a
    :class:`~vadd.core.latents.GaussianLatent` of one particle the evidence is
    w (E_r log sum_c pi_c p(x_S | x_t, z, c) - lambda KL(r(z) || p(z))), with more its importance-weighted form.

    >>> latent = CodedLatent(4)
    >>> latent.draw(torch.zeros(2, 3), torch.ones(2), Noise.of(torch.Generator().manual_seed(0), rows=2)).shape
    torch.Size([2, 4])
    >>> batch = MaskedBatch.all_masked(torch.tensor([[3, 1]]), mask_value=5)
    >>> evidence = latent.evidence(lambda z: z @ torch.ones(4).log(), batch, torch.ones(1), 1.0, torch.Generator())
    >>> round(evidence.bound.item(), 6), evidence.kl.item()
    (0.0, 0.0)
    """

    def __init__(self, codes: int, inner: Latent | None = None) -> None:
        if codes < 2:
            raise UserError(f"there are at least 2 codes, not {codes}")
        super().__init__(codes, NoLatent() if inner is None else inner)
        # All alike at first: what tells the codes apart is the denoiser's own map of them, which starts at random.
        self.logits = nn.Parameter(torch.zeros(codes))

    def probabilities(self) -> Tensor:
        """pi, (C,) float64, without gradient."""
        return precise(self.logits.detach()).softmax(0)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        return self.joined(self.inner.draw(xt, t, noise, labels), _drawn(self.probabilities(), noise))

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Every node of the inner latent with every code, weighted by pi."""
        nodes, weights = self.inner.prior_nodes(math.ceil(count / self.count), xt, labels)
        codes = torch.arange(self.count, device=xt.device).repeat(len(weights))
        z = None if nodes is None else nodes.repeat_interleave(self.count, dim=0)
        return self.joined(z, codes), (weights[:, None] * self.probabilities()).flatten()

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        return self.inner.evidence(self._summed(score, batch), batch, weight, kl_weight, generator)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        """Exact over the codes, and over z if the inner latent is."""
        summed = self._summed(score, batch, particles.rows_per_call)
        # Each draw of z costs a pass for every code: so many fewer draws at once.
        fewer = replace(particles, rows_per_call=max(1, particles.rows_per_call // self.count))
        return self.inner.log_marginal(summed, batch, revealed, fewer, generator)

    def proposed(
        self, batch: MaskedBatch, proposals: tuple[ProposalName, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """z as of the inner latent, the code by pi."""
        z, log_weight = self.inner.proposed(batch, proposals, generator)
        return self.joined(z, _drawn(self.probabilities(), Noise.of(generator, len(batch.xt)))), log_weight

    def point(self, score: Score, batch: MaskedBatch) -> Tensor:
        """The inner latent's point, and the code that is most probable given it and what is scored."""
        z = self.inner.point(score, batch)
        joint = torch.cat(list(self._joint(score, None if z is None else z[None], batch)), dim=1)
        return self.joined(z, joint[0].argmax(dim=0))

    def _summed(self, score: Score, batch: MaskedBatch, rows: int | None = None) -> Score:
        """z of the inner latent, (K, B, d) or None -> log sum_c pi_c exp score([z, onehot(c)]), (K, B)."""

        def summed(z: Tensor | None) -> Tensor:
            return reduce(torch.logaddexp, (part.logsumexp(dim=1) for part in self._joint(score, z, batch, rows)))

        return summed

    def _joint(self, score: Score, z: Tensor | None, batch: MaskedBatch, rows: int | None = None) -> Iterator[Tensor]:
        """log pi_c + score([z, onehot(c)]) for z (K, B, d) or None (K = 1): parts of (K, C, B), together all codes.

        The score sees about ``rows`` sequences at once, or all of them.
        """
        draws, size = 1 if z is None else len(z), len(batch.x0)
        at_once = self.count if rows is None else max(1, rows // (draws * size))
        log_pi = self.logits.log_softmax(0)
        for chosen in torch.split(torch.arange(self.count, device=batch.x0.device), at_once):
            shape = (draws, len(chosen), size, -1)
            codes = self.joined(None, chosen)[None, :, None].expand(shape)
            pairs = codes if z is None else torch.cat([z[:, None].expand(shape), codes.to(z.dtype)], dim=-1)
            scores = score(pairs.flatten(0, 1)).view(shape[:3])
            yield scores + log_pi[chosen].to(scores.dtype)[:, None]


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


class LabelledLatent(_CategoricalLatent):
    """One of ``classes`` labels beside the z of an ``inner`` latent, which may be none.

    Training takes the labels of the batch and drops a share ``dropout`` of them. Samples and bounds are for the label
    that is :attr:`given`, by default none. ``shares`` says how frequent the labels are; by default they are equal.
    ``recognized`` says whether the recognition model is given the label.
    """

    given: int | None = None

    def __init__(
        self,
        classes: int,
        inner: Latent,
        dropout: float = 0.1,
        shares: Sequence[float] | None = None,
        *,
        recognized: bool = True,
    ) -> None:
        super().__init__(classes, inner)
        self.classes, self.dropout = classes, dropout
        self.absent = inner.absent
        self.shares = torch.tensor(shares or [1 / classes] * classes, dtype=torch.float64)
        if isinstance(inner, GaussianLatent) and recognized:
            inner.recognizer = LabelledRecognizer(inner.recognizer, classes, inner.dim)
            inner.reads_labels = True

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        return self.inner.conditional

    @property
    def label_shares(self) -> Tensor | None:  # type: ignore[override]
        return self.shares if self.given is None else None

    def with_prior(self, prior: Prior) -> Latent:
        return changed(self, inner=self.inner.with_prior(prior))

    def draw_labels(self, nothing_known: Tensor, noise: Noise) -> Tensor | None:
        if self.given is not None:
            return None
        return torch.where(nothing_known, _drawn(self.shares, noise).to(nothing_known.device), self.classes)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        labels = self._known(labels, xt)
        return self.joined(self.inner.draw(xt, t, noise, labels), labels)

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        coins = [self._coins(batch, generator)] if batch.labels is not None and self.training else []
        return [*coins, *super().numbers_ahead(batch, generator)]

    def _coins(self, batch: MaskedBatch, generator: torch.Generator) -> Tensor:
        """(1, B, 1): for dropping labels; of the whole batch, however it is divided."""
        return batch.normal(1, 1, generator)

    def log_correction(self, z: Tensor, xt: Tensor, nothing_known: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.inner.log_correction(z[..., : self.inner.dim], xt, nothing_known, self._known(labels, xt))

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        labels = self._known(labels, xt[None])
        nodes, weights = self.inner.prior_nodes(count, xt, labels)
        return self.joined(nodes, labels.expand(len(weights))), weights

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        labels = self._known(batch.labels, batch.x0)
        if batch.labels is not None and self.training:
            coins = self._coins(batch, generator)[0, :, 0]
            kept = coins >= (NormalDist().inv_cdf(self.dropout) if 0 < self.dropout < 1 else 99 * (self.dropout - 0.5))
            labels = torch.where(kept, labels, self.classes)
        batch = replace(batch, labels=labels)
        return self.inner.evidence(self._labelled(score, labels), batch, weight, kl_weight, generator)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        labels = self._known(None, batch.x0)
        batch = replace(batch, labels=labels)
        return self.inner.log_marginal(self._labelled(score, labels), batch, revealed, particles, generator)

    def proposed(
        self, batch: MaskedBatch, proposals: tuple[ProposalName, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        labels = self._known(None, batch.x0)
        z, log_weight = self.inner.proposed(replace(batch, labels=labels), proposals, generator)
        return self.joined(z, labels), log_weight

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        return super().posterior(replace(batch, labels=self._known(batch.labels, batch.x0)))

    def point(self, score: Score, batch: MaskedBatch) -> Tensor:
        labels = self._known(None, batch.x0)
        return self.joined(self.inner.point(self._labelled(score, labels), replace(batch, labels=labels)), labels)

    def unlabelled(self, z: Tensor) -> Tensor:
        """What the denoiser would be given without the label."""
        return torch.cat([z[..., : self.inner.dim], torch.zeros_like(z[..., self.inner.dim :])], dim=-1)

    def _known(self, labels: Tensor | None, rows: Tensor) -> Tensor:
        """The labels (B,) or, without them, the one that is given for all rows (B, N); ``classes`` stands for none."""
        given = self.classes if self.given is None else self.given
        return torch.full((len(rows),), given, device=rows.device) if labels is None else labels

    def _labelled(self, score: Score, labels: Tensor) -> Score:
        """The score of z (K, B, d) or None, with the labels (B,) beside it."""
        return lambda z: score(self.joined(z, labels) if z is not None else self.joined(None, labels)[None])
