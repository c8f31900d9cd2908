r"""Categorical codes beside z, or in its place: one of C values that is summed out exactly.

The denoiser is given [z, onehot(c)], d + C numbers, and

.. math:: p(x_S \mid x_t) = E_{z \sim p} \sum_c \pi_c \prod_{i \in S} \mu_i(x_t, [z, \mathrm{onehot}(c)], t)[x_{0,i}].

The probabilities :math:`\pi` are learned with the model. There is no recognition model for c: the sum runs over all
codes, in training as in the bounds. With codes alone nothing is left to bound, and the evidence is the logarithm
itself; the price is that training and bounds read every example C times. Sampling draws one code, and costs what it
did.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from vadd.core.importance import DiagonalGaussian
from vadd.core.latents import Evidence, Latent, NoLatent, Particles, Score
from vadd.core.masking import MaskedBatch
from vadd.core.precision import precise
from vadd.core.randomness import Noise
from vadd.errors import UserError


class CodedLatent(Latent):
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
        super().__init__()
        if codes < 2:
            raise UserError(f"there are at least 2 codes, not {codes}")
        self.inner = NoLatent() if inner is None else inner
        self.codes = codes
        self.dim = self.inner.dim + codes
        self.exact = self.inner.exact
        # All alike at first: what tells the codes apart is the denoiser's own map of them, which starts at random.
        self.logits = nn.Parameter(torch.zeros(codes))

    def probabilities(self) -> Tensor:
        """pi, (C,) float64, without gradient."""
        return precise(self.logits.detach()).softmax(0)

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> Tensor:
        z = self.inner.draw(xt, t, noise, labels)
        ends = self.probabilities().cumsum(0)
        # By inversion of the distribution function: one uniform number for each row. Rounding may reach the end.
        levels = noise.uniform().to(ends) * ends[-1]
        chosen = torch.searchsorted(ends, levels, right=True).clamp(max=self.codes - 1)
        return _joined(z, self._one_hot(chosen))

    def prior_nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Every node of the inner latent with every code, weighted by pi."""
        nodes, weights = self.inner.prior_nodes(math.ceil(count / self.codes), xt, labels)
        codes = self._one_hot(torch.arange(self.codes, device=xt.device)).repeat(len(weights), 1)
        z = None if nodes is None else nodes.repeat_interleave(self.codes, dim=0)
        return _joined(z, codes), (weights[:, None] * self.probabilities()).flatten()

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        return self.inner.evidence(self._summed(score, batch), batch, weight, kl_weight, generator)

    def log_marginal(
        self, score: Score, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        """Exact over the codes, and over z if the inner latent is."""
        # Each draw of z costs a pass for every code: so many fewer draws at once.
        fewer = replace(particles, rows_per_call=max(1, particles.rows_per_call // self.codes))
        return self.inner.log_marginal(
            self._summed(score, batch, particles.rows_per_call), batch, revealed, fewer, generator
        )

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        """Of z; codes have none."""
        return self.inner.posterior(batch)

    def point(self, score: Score, batch: MaskedBatch) -> Tensor:
        """The inner latent's point, and the code that is most probable given it and what is scored."""
        z = self.inner.point(score, batch)
        joint = torch.cat(list(self._joint(score, None if z is None else z[None], batch)), dim=1)
        return _joined(z, self._one_hot(joint[0].argmax(dim=0)))

    def _summed(self, score: Score, batch: MaskedBatch, rows: int | None = None) -> Score:
        """z of the inner latent, (K, B, d) or None -> log sum_c pi_c exp score([z, onehot(c)]), (K, B)."""

        def summed(z: Tensor | None) -> Tensor:
            total: Tensor | None = None
            for part in self._joint(score, z, batch, rows):
                log_sum = torch.logsumexp(part, dim=1)
                total = log_sum if total is None else torch.logaddexp(total, log_sum)
            assert total is not None, "there is at least one code"
            return total

        return summed

    def _joint(self, score: Score, z: Tensor | None, batch: MaskedBatch, rows: int | None = None) -> Iterator[Tensor]:
        """log pi_c + score([z, onehot(c)]) for z (K, B, d) or None (K = 1): parts of (K, C, B), together all codes.

        The score sees about ``rows`` sequences at once, or all of them.
        """
        draws, size = 1 if z is None else len(z), len(batch.x0)
        at_once = self.codes if rows is None else max(1, rows // (draws * size))
        log_pi = self.logits.log_softmax(0)
        for chosen in torch.split(torch.arange(self.codes, device=batch.x0.device), at_once):
            shape = (draws, len(chosen), size, -1)
            codes = self._one_hot(chosen)[None, :, None].expand(shape)
            pairs = _joined(None if z is None else z[:, None].expand(shape), codes)
            scores = score(pairs.flatten(0, 1)).view(draws, len(chosen), size)
            yield scores + log_pi[chosen].to(scores.dtype)[:, None]

    def _one_hot(self, chosen: Tensor) -> Tensor:
        """(n,) -> (n, C)"""
        return (chosen[:, None] == torch.arange(self.codes, device=chosen.device)).float()


def _joined(z: Tensor | None, codes: Tensor) -> Tensor:
    """What the denoiser is given: z, then the code."""
    return codes if z is None else torch.cat([z, codes.to(z.dtype)], dim=-1)
