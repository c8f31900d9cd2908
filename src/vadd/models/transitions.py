r"""Samplers that draw what a position becomes, instead of deciding first whether it is revealed.

A step from t to s < t draws every position that is not finished from :math:`p(x_s \mid x_t)`, which the network's
answer has a part in; so the network is asked about all of them at every step. That is how models sample that predict
scores (:mod:`vadd.models.sedd`) or whose noise is no mask (:mod:`vadd.models.uniform`).
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from vadd.core.noise import Noise
from vadd.core.precision import precise
from vadd.core.samplers import Grid, RevealPlan, Sampler, on_the_grid, step_grid
from vadd.core.schedule import Schedule
from vadd.core.token_sampler import TokenSampler
from vadd.errors import UserError

MOST_REVEALED = 1 - 1e-6
"""The probability of being revealed stays below 1 but at the last step, so that no state is impossible."""


class TransitionSampler(Sampler):
    """Draws x_s given x_t at every position that is not finished."""

    exact: ClassVar[bool] = True
    planned: ClassVar[bool] = False

    def to_predict(self, step: int, plan: RevealPlan, hidden: Tensor, noise: Noise) -> Tensor:
        return hidden

    def check_draws(self, token_sampler: TokenSampler) -> None:
        if not token_sampler.exact:
            raise UserError("temperature, top-k, top-p and float32 draws are for samplers that draw values alone")


class ScoreSampler(TransitionSampler):
    """Reveals a masked position with probability r sum_v c_v as the value v, in proportion to c_v; else it stays."""

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        on_grid = on_the_grid(hidden, steps, schedule, grid)
        rates = self.rates(schedule, on_grid.times[:, 1:], on_grid.times[:, :-1])
        # Beside each step its rate, in the place of what is left: nobody else asks for that.
        return replace(on_grid, left=torch.cat([torch.zeros(len(hidden), 1, dtype=torch.float64), rates], dim=1))

    @abstractmethod
    def rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        """r for steps from t to s."""

    def outcomes(self, logits: Tensor, now: Tensor, step: int, plan: RevealPlan, owners: Tensor) -> Tensor:
        """Log-probabilities of the V values, and of the mask: (M, V + 1)."""
        return transition(precise(logits), plan.left[owners.cpu(), step].to(logits.device), last=step == 1)


def transition(log_scores: Tensor, rate: Tensor, *, last: bool) -> Tensor:
    """(M, V) and (M,) -> log-probabilities of becoming each value or staying masked, (M, V + 1)."""
    values = log_scores.log_softmax(dim=-1)
    total = log_scores.logsumexp(dim=-1).exp()
    revealed = torch.ones_like(total) if last else (rate.to(total) * total).clamp(max=MOST_REVEALED)
    return torch.cat([values + revealed.log()[:, None], (1 - revealed).log()[:, None]], dim=-1)


@dataclass(frozen=True)
class Analytic(ScoreSampler):
    """The exact step of the reverse process where the scores hold still (Tweedie): r = rho, the probability with which
    the true process reveals. With scores that sum to one it is :class:`~vadd.core.samplers.Ancestral`.
    """

    def rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        return schedule.reveal_probability(t, s).nan_to_num(nan=0.0)


@dataclass(frozen=True)
class Euler(ScoreSampler):
    """The rate at t times the length of the step: r = w(t) (t - s). Under the linear schedule that is rho as well."""

    exact: ClassVar[bool] = False

    def rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        return (schedule.weight(t) * (t - s)).nan_to_num(nan=0.0)


@dataclass(frozen=True)
class UniformSteps(TransitionSampler):
    """The steps of a process whose noise is uniform: see :mod:`vadd.models.uniform`."""

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        """All of the noise is there at the start, however many positions are known: times run from 1 to 0."""
        times = step_grid(steps, grid).expand(len(hidden), -1)
        return RevealPlan(torch.zeros_like(hidden, dtype=torch.int64), times, schedule.masked_fraction(times))

    def outcomes(self, logits: Tensor, now: Tensor, step: int, plan: RevealPlan, owners: Tensor) -> Tensor:
        noisy = plan.left[owners.cpu()].to(logits.device)
        return uniform_step(precise(logits).softmax(-1), now, 1 - noisy[:, step], 1 - noisy[:, step - 1]).log()


def uniform_step(probabilities: Tensor, xt: Tensor, alpha_t: Tensor, alpha_s: Tensor) -> Tensor:
    r"""q(x_s | x_t, x0) with x0 drawn from ``probabilities`` (M, V), (M, V), for uniform noise:

    .. math:: p(x_s = v \mid x_t = y) = \frac{[\alpha_{t|s} 1_{v=y} + (1 - \alpha_{t|s})/V]\,
              [\alpha_s \mu_v + (1 - \alpha_s)/V]}{\alpha_t \mu_y + (1 - \alpha_t)/V}, \qquad
              \alpha_{t|s} = \alpha_t / \alpha_s.

    With mu = 1 at x0 it is the posterior of the forward process.
    """
    values = probabilities.shape[1]
    alpha_t, alpha_s = alpha_t[:, None], alpha_s[:, None]
    kept = alpha_t / alpha_s
    stays = torch.zeros_like(probabilities).scatter_(1, xt[:, None], 1.0)
    likelihood = kept * stays + (1 - kept) / values
    prior = alpha_s * probabilities + (1 - alpha_s) / values
    joint = likelihood * prior
    return joint / joint.sum(dim=-1, keepdim=True)
