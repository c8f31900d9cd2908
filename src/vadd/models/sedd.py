r"""SEDD: a masked model that predicts scores, the ratios of the probabilities of neighbouring states.

At a masked position the score of the value v is :math:`s_v = p_t(x^{i \to v}) / p_t(x_t)`. Its size is known in
advance, :math:`s_v = \frac{\alpha}{1 - \alpha} c_v`, and the network is asked for :math:`\log V c_v` only (the
time-scaling of its parameterisation; one that starts with zeros starts with scores that sum to one). The truth has
:math:`c_v = P(x_{0,i} = v \mid x_t)`: so c is what the other masked models predict, but nothing makes it sum to one.
The score entropy becomes, term by term,

.. math:: w(t) \sum_{i \in S} [\log c_{x_{0,i}} - \textstyle\sum_v c_v + 1],

MDLM's bound with a penalty: for :math:`c = \lambda \mu` the bracket is :math:`\log \mu + \log \lambda - \lambda + 1`,
at most :math:`\log \mu`. It is a bound of the likelihood of the sampler with many steps.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from vadd.core.host import Where, at_least_single, precise, summed_by_row
from vadd.core.latents import Evidence
from vadd.core.masking import MaskedBatch, Schedule
from vadd.core.model import mask_integral
from vadd.core.sampling import Sampler
from vadd.models.transitions import TransitionModel, TransitionSampler

MOST_REVEALED = 1 - 1e-6
"""The probability of being revealed stays below 1 but at the last step, so that no state is impossible."""


class ScoreSampler(TransitionSampler):
    """Reveals a masked position with probability r sum_v c_v as the value v, in proportion to c_v; else it stays."""

    def transition(self, logits: Tensor, rate: Tensor, *, last: bool) -> Tensor:
        log_scores = precise(logits)
        total = log_scores.logsumexp(dim=-1).exp()
        revealed = torch.ones_like(total) if last else (rate.to(total) * total).clamp(max=MOST_REVEALED)
        values = log_scores.log_softmax(dim=-1) + revealed.log()[:, None]
        return torch.cat([values, (1 - revealed).log()[:, None]], dim=-1)


class Analytic(ScoreSampler):
    """The exact step of the reverse process with constant scores (Tweedie): r = rho, the probability with which the
    true process reveals. With scores that sum to one it is :class:`~vadd.core.samplers.Ancestral`.
    """

    def step_rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        return schedule.reveal_probability(t, s)


class Euler(ScoreSampler):
    """The rate at t times the length of the step: r = w(t) (t - s). Under the linear schedule that is rho as well."""

    exact: ClassVar[bool] = False

    def step_rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        return schedule.weight(t) * (t - s)


class ScoreEntropy(TransitionModel):
    """A network of log-scores log V c (M, V), trained by score entropy; without a latent."""

    samplers: Mapping[str, Sampler] = {"ancestral": Analytic(), "euler": Euler()}

    def predict(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        """log c, (M, V)."""
        return super().predict(xt, z, t, where) - math.log(self.vocab_size)

    def score_entropy(self, batch: MaskedBatch, where: Tensor) -> Tensor:
        """sum_{i in where} log c_i[x0_i] - sum_v c_v + 1: (B,)."""
        places = self.places(batch.where(where))
        log_scores = at_least_single(self.predict(batch.xt, None, batch.t, places))
        truth = log_scores.gather(1, places.values(batch.x0)[:, None])[:, 0]
        return summed_by_row(truth - log_scores.logsumexp(dim=-1).exp() + 1, places)

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        where = self.asked(batch.x0, batch.masked)
        # At t = 0, where nothing is masked, w(t) is infinite: a product would be no number.
        weight = torch.where(where.any(dim=1).to(batch.t.device), batch.masking.weight, 0.0)
        return Evidence.without_latent(weight * self.score_entropy(batch, where))

    @torch.no_grad()
    def elbo(self, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        return mask_integral(self, x0, draws, generator or torch.Generator().manual_seed(0), self.score_entropy)
