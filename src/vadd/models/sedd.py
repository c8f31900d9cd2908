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

from vadd.core.masking import MaskedBatch
from vadd.core.model import MaskedDiffusion
from vadd.core.precision import at_least_single, precise
from vadd.core.samplers import Sampler
from vadd.models.transitions import Analytic, Euler, transition


class ScoreEntropy(MaskedDiffusion):
    """A network of log-scores log V c (M, V), trained by score entropy; without a latent."""

    samplers: ClassVar[Mapping[str, Sampler]] = {"ancestral": Analytic(), "euler": Euler()}

    def predict(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        """log c, (M, V)."""
        return super().predict(xt, z, t, where) - math.log(self.vocab_size)

    def scores(self, xt: Tensor, t: Tensor, where: Tensor) -> Tensor:
        """The ratios p_t(x with v at i) / p_t(x) at the M positions ``where``: (M, V)."""
        ratio = self.schedule.alpha(t) / self.schedule.masked_fraction(t)
        owners = where.nonzero()[:, 0]
        return ratio[owners, None] * self.predict(xt, None, t, where).exp()

    def log_likelihood(self, batch: MaskedBatch, z: Tensor | None, where: Tensor) -> Tensor:
        """sum_{i in where} log c_i[x0_i] - sum_v c_v + 1: (1, B)."""
        log_scores = at_least_single(self.predict(batch.xt, z, batch.t, where))
        truth = log_scores.gather(1, batch.x0[where][:, None])[:, 0]
        each = truth - log_scores.logsumexp(dim=-1).exp() + 1
        return self._summed(each, where)[None]

    def step_score(self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None) -> Tensor:
        """What the step from t to ``before`` (B,) of the analytic sampler adds to the bound, averaged over what the
        true process reveals in it: sum over masked i of E_q log p(x_s | x_t) / q(x_s | x_t, x_0), (1, B).
        """
        where = batch.masked & self.scored(batch.x0)
        owners = where.nonzero()[:, 0]
        log_scores = precise(self.predict(batch.xt, z, batch.t, where))
        rho = self.schedule.reveal_probability(precise(batch.t), precise(before))[owners]
        last = bool((before == 0).all())
        found = transition(log_scores, rho, last=last)
        revealed = found.gather(1, batch.x0[where][:, None])[:, 0] - rho.log()
        stayed = torch.where(rho < 1, found[:, -1] - (1 - rho).clamp(min=1e-300).log(), 0.0)
        return self._summed(rho * revealed + torch.where(rho < 1, (1 - rho) * stayed, 0.0), where)[None]

    def _summed(self, each: Tensor, where: Tensor) -> Tensor:
        each = each if each.requires_grad else precise(each)
        return each.new_zeros(len(where)).index_add(0, where.nonzero()[:, 0], each)
