r"""Samplers that draw what a position becomes, instead of deciding first whether it is revealed, and their bound.

A step from t to s < t draws every position that is not finished from :math:`p(x_s \mid x_t)`, which depends on the
network's answer; so the network is asked about all of them at every step. Models that predict scores
(:mod:`vadd.models.sedd`), learn their schedule (:mod:`vadd.models.genmd4`) or have other noise than a mask
(:mod:`vadd.models.uniform`) sample like that. The bound is

.. math:: \log p_T(x_0) \ge E \sum_{i=1}^T \log E_{z \sim p} \prod_j
          \frac{p_j(x_{s,j} \mid x_t, z)}{q(x_{s,j} \mid x_{t,j}, x_{0,j})}

and is estimated along one path of states from the forward process.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor

from vadd.core.base import Model
from vadd.core.gaussian import Particles
from vadd.core.host import precise, summed_by_row, upload
from vadd.core.masking import MaskedBatch, Masking, Schedule
from vadd.core.sampling import Drawing, Grid, Sampler, Walk, on_the_grid, step_grid
from vadd.errors import UserError

Chance = Callable[[Tensor, Tensor], Tensor]
"""See :meth:`TransitionModel.noise_chance`."""


class TransitionSampler(Sampler):
    """Draws x_s given x_t at every position that still holds the mask."""

    exact: ClassVar[bool] = True

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        check_values_alone(walk)
        times, _ = on_the_grid(walk.hidden_at_start, steps, walk.model.schedule, grid)
        # Of each step, from the last to the first; a row with nothing hidden has nothing to do.
        rates = self.step_rates(walk.model.schedule, times[:, 1:], times[:, :-1]).nan_to_num(nan=0.0)
        (rates,) = upload([rates], walk.x.device)
        for step in walk.steps(times):
            for asked in walk.ask(walk.hidden):
                law = self.transition(asked.logits, rates[asked.owners, step - 1], last=step == 1)
                walk.write(asked, walk.how.token_sampler(law, asked.uniforms))
            walk.hidden = (walk.x == walk.model.mask_value).cpu()

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
        raise UserError("this model has no temperature, top-k, top-p or float32 draws: leave them out")


class TransitionModel(Model):
    """A model whose sampler draws transitions."""

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The batch with the noise of this model, where masks alone are not it."""
        return batch

    def step_score(
        self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None, last: bool | None = None
    ) -> Tensor:
        """log prod_j p_j(x_s | x_t, z) / q(x_s | x_t, x0) of the step from t to ``before`` (B,), for z (K, B, d) or
        None: (K, B), at ``xs`` (B, N) or averaged over q. Here of a masked model without a latent. ``last`` says that
        all of ``before`` is 0, if it is known.
        """
        where = self.places(batch.where(self.stepped(batch.x0, batch.masked)))
        x0 = where.values(batch.x0)
        rho = self.schedule.reveal_probability(precise(batch.t), precise(before))[where.rows]
        sampler = cast(TransitionSampler, self.samplers["ancestral"])
        logits = self.predict(batch.xt, z, batch.t, where)
        law = sampler.transition(logits, rho, last=bool((before == 0).all()) if last is None else last)
        log_stay = self.log_stay(rho, x0)
        revealed = law.gather(1, x0[:, None])[:, 0] - (-torch.expm1(log_stay)).log()
        stays = log_stay.exp() if xs is None else precise((where.values(xs) == self.mask_value).to(log_stay))
        stayed = torch.where(stays > 0, law[:, -1] - log_stay, 0.0)
        return summed_by_row((1 - stays) * revealed + stays * stayed, where)[None]

    def stepped(self, x0: Tensor, masked: Tensor) -> Tensor:
        """Where :meth:`step_score` asks the network, (B, N) bool."""
        return masked & self.scored(x0)

    def log_stay(self, rho: Tensor, x0: Tensor) -> Tensor:
        """log of the probability that the forward process leaves positions masked that were x0 (M,), where ``rho`` (M,)
        is the schedule's of revealing them.
        """
        return (1 - rho).log()

    def noise_chance(self, x0: Tensor, t: Tensor) -> Tensor:
        """The probability that the forward process has reached a position by t (B,): (B, N) or (B, 1)."""
        return self.noise_chances(x0.device)(x0, t)

    def noise_chances(self, device: torch.device) -> Chance:
        """:meth:`noise_chance` of tensors on a device."""
        return lambda x0, t: self.schedule.masked_fraction(precise(t))[:, None]

    def noise_values(self, batch: MaskedBatch, generator: torch.Generator) -> Tensor:
        """What the forward process puts in the place of a value, (B, N)."""
        return torch.full_like(batch.x0, self.mask_value)

    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        """Along one path of the forward process for each example. States drawn by themselves at every step have the
        same mean, but much more spread: what one step reveals too early the next one does not reveal again.
        """
        if how.latent_policy == "fixed" and not self.latent.absent:
            raise UserError("with uniform noise a bound needs a new z at each step: --latent-policy resample")
        times = step_grid(steps, how.grid)
        chance = self.noise_chances(torch.device("cpu"))
        parts = torch.split(x0.cpu(), particles.rows_per_call)
        bounds = [self._path_bound(part, times, particles, generator, chance) for part in parts]
        return torch.cat(bounds).cpu().double()

    def _path_bound(
        self, x0: Tensor, times: Tensor, particles: Particles, generator: torch.Generator, chance: Chance
    ) -> Tensor:
        """The path is drawn on the host; what it adds up stays on the device."""
        total = precise(torch.zeros(len(x0), device=self.device))
        zeros, nowhere = torch.zeros(len(x0)), torch.zeros_like(x0, dtype=torch.bool)
        state = MaskedBatch.of(x0, Masking(nowhere, zeros, zeros), self.mask_value)
        for number, t in enumerate(times[1:]):
            before, state = state, self._noisier(state, torch.full_like(zeros, float(t)), generator, chance)
            step = replace(state, masking=replace(state.masking, before=before.t), ahead=[before.xt])
            if self.device.type != "cpu":
                step = replace(step, places=self.places(self.stepped(x0, state.masked))).to(self.device)
            (xs,), earlier = step.ahead, step.masking.before
            assert earlier is not None
            step.ahead.clear()
            score = partial(self.step_score, step, earlier, xs=xs, last=number == 0)
            everywhere = torch.ones_like(step.x0, dtype=torch.bool)
            total = total + precise(self.latent.log_marginal(score, step, everywhere, particles, generator))
        return total

    def _noisier(self, batch: MaskedBatch, t: Tensor, generator: torch.Generator, chance: Chance) -> MaskedBatch:
        """The same examples at the later times t (B,), given their states: a step of the forward process."""
        kept = (1 - chance(batch.x0, t)) / (1 - chance(batch.x0, batch.t))
        reached = batch.uniform(generator) >= kept
        xt = torch.where(reached, self.noise_values(batch, generator), batch.xt)
        return replace(batch, xt=xt, masking=Masking(batch.masked | reached, t, torch.ones_like(t)))
