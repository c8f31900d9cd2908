r"""Samplers that draw what a position becomes, instead of deciding first whether it is revealed, and their bound.

A step from t to s < t draws every position that is not finished from :math:`p(x_s \mid x_t)`, which depends on the
network's answer; so the network is asked about all of them at every step. Models that predict scores
(:mod:`vadd.models.sedd`), learn their schedule (:mod:`vadd.models.genmd4`) or have other noise than a mask
(:mod:`vadd.models.uniform`) sample like that. The bound is

.. math:: \log p_T(x_0) \ge E \sum_{i=1}^T \log E_{z \sim p} \prod_j
          \frac{p_j(x_{s,j} \mid x_t, z)}{q(x_{s,j} \mid x_{t,j}, x_{0,j})}.
"""

import itertools
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from vadd.core.base import Model
from vadd.core.latents import Particles
from vadd.core.masking import MaskedBatch, Masking
from vadd.core.samplers import Grid, Sampler, on_the_grid, step_grid
from vadd.core.sampling import Drawing, Walk
from vadd.core.schedule import Schedule
from vadd.errors import UserError


class TransitionSampler(Sampler):
    """Draws x_s given x_t at every position that still holds the mask."""

    exact: ClassVar[bool] = True

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        check_values_alone(walk)
        times, _ = on_the_grid(walk.hidden_at_start, steps, walk.model.schedule, grid)
        # Of each step, from the last to the first; a row with nothing hidden has nothing to do.
        rates = self.step_rates(walk.model.schedule, times[:, 1:], times[:, :-1]).nan_to_num(nan=0.0)
        for step in walk.steps(times):
            rate = rates[:, step - 1]

            def law(where: Tensor, rows: Tensor, rate: Tensor = rate, last: bool = step == 1) -> Tensor:
                owners = rows[where[rows].nonzero()[:, 0]]
                logits = walk.logits(where, rows)
                return self.transition(logits, rate[owners.cpu()].to(logits.device), last=last)

            where = walk.hidden
            walk.x[where] = walk.draw(where, logits=law)

    @abstractmethod
    def step_rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        """What :meth:`transition` must know of steps from t to s."""

    @abstractmethod
    def transition(self, logits: Tensor, rate: Tensor, *, last: bool) -> Tensor:
        """The network's logits (M, V) and the rates (M,) -> log-probabilities of becoming each value or staying masked,
        (M, V + 1).
        """


def check_values_alone(walk: Walk) -> None:
    if not walk.how.token_sampler.exact:
        raise UserError("temperature, top-k, top-p and float32 draws are for samplers that draw values alone")


class TransitionModel(Model):
    """A model whose sampler draws transitions."""

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The batch with the noise of this model, where masks alone are not it."""
        return batch

    @abstractmethod
    def step_score(self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None) -> Tensor:
        """log prod_j p_j(x_s | x_t, z) / q(x_s | x_t, x0) of the step from t to ``before`` (B,), for z (K, B, d) or
        None: (K, B), at ``xs`` (B, N) or averaged over q.
        """

    def step_before(self, batch: MaskedBatch, before: Tensor, generator: torch.Generator) -> Tensor:
        """x_s (B, N) drawn from q(x_s | x_t, x0); for models with a latent."""
        raise NotImplementedError

    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        """With one state for every step of every example. Without a latent the expectation over x_s is a sum."""
        if how.latent_policy == "fixed" and not self.latent.absent:
            raise UserError("with this noise there are bounds for a new z at each step, not for one z")
        total = torch.zeros(len(x0), dtype=torch.float64)
        for s, t in itertools.pairwise(step_grid(steps, how.grid)):
            for rows in torch.split(torch.arange(len(x0), device=x0.device), particles.rows_per_call):
                start, before = (torch.full((len(rows),), float(time), device=x0.device) for time in (t, s))
                coins = torch.rand(len(rows), x0.shape[1], generator=generator, dtype=torch.float64)
                masked = (coins < self.schedule.masked_fraction(t)).to(x0.device)
                batch = MaskedBatch.of(x0[rows], Masking(masked, start, torch.ones_like(start)), self.mask_value)
                total[rows.cpu()] += self._bound_term(batch, before, particles, generator).cpu().double()
        return total

    def _bound_term(
        self, batch: MaskedBatch, before: Tensor, particles: Particles, generator: torch.Generator
    ) -> Tensor:
        batch = self.noised(batch, generator)
        if self.latent.absent:
            return self.step_score(batch, before, None, None)[0]
        xs = self.step_before(batch, before, generator)

        def score(z: Tensor | None) -> Tensor:
            return self.step_score(batch, before, z, xs)

        return self.latent.log_marginal(score, batch, torch.ones_like(batch.masked), particles, generator)
