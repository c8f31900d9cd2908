r"""Uniform noise instead of a mask: the other transition kernel.

Going forward a position keeps its value with probability :math:`\alpha(t)` and else takes any of the V values. Nothing
shows which positions are noise, so the denoiser is asked about all of them at every step, must see t, and can correct
what it got wrong. The sampler draws :math:`x_s` from the posterior of the forward process with the denoiser's
:math:`\mu` in the place of x0 (:func:`uniform_step`); its bound is that of :mod:`vadd.models.transitions`.

Without a latent each step costs the Kullback-Leibler divergence of the two posteriors, in closed form. With one,
training maximises the same with that divergence inside the exponent: by Jensen's inequality no more than the bound.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from vadd.core.gaussian import DiagonalGaussian
from vadd.core.host import precise, summed_by_row, upload
from vadd.core.latents import Evidence
from vadd.core.masking import MaskDraw, MaskedBatch, StepTimes
from vadd.core.sampling import Grid, Sampler, Walk, step_grid
from vadd.models.transitions import TransitionModel, check_values_alone


class UniformSteps(Sampler):
    """Draws x_s given x_t at every position that was not given at the start."""

    exact: ClassVar[bool] = True

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        check_values_alone(walk)
        # All of the noise is there at the start, however many positions are known: times run from 1 to 0.
        times = step_grid(steps, grid)
        alpha: list[float] = (1 - walk.model.schedule.masked_fraction(times)).tolist()
        where = walk.hidden_at_start
        values = (walk.noise.uniform(walk.model.positions) * walk.model.vocab_size).long()
        hidden, values = upload([where, values], walk.x.device)
        walk.x = torch.where(hidden, values, walk.x)
        for step in walk.steps(times.expand(len(walk.x), -1)):
            for asked in walk.ask(where):
                probabilities = precise(asked.logits).softmax(-1)
                alphas = (probabilities.new_full((len(probabilities),), alpha[number]) for number in (step, step - 1))
                law = uniform_step(probabilities, asked.places.values(walk.x[asked.rows]), *alphas)
                walk.write(asked, walk.how.token_sampler(law.log(), asked.uniforms))


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


class UniformDiffusion(TransitionModel):
    """A denoiser of uniform noise, with a latent or without one (UDLM, D3PM-uniform)."""

    samplers: Mapping[str, Sampler] = {"ancestral": UniformSteps()}
    held_out_draw: ClassVar[MaskDraw] = StepTimes()

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The same batch with any of the values where it has the mask."""
        return replace(batch, xt=torch.where(batch.masked, self.noise_values(batch, generator), batch.x0))

    def noise_values(self, batch: MaskedBatch, generator: torch.Generator) -> Tensor:
        return (batch.uniform(generator) * self.vocab_size).long()

    def asked(self, x0: Tensor, masked: Tensor) -> Tensor:
        return self.scored(x0)

    stepped = asked

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        return [batch.uniform(generator), *super().numbers_ahead(batch, generator)]

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        return self.latent.posterior(self.noised(batch, torch.Generator().manual_seed(0)))

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """The step that the batch's draw is of, times the number of such steps."""
        before = batch.masking.before
        assert before is not None, "recipes of uniform noise draw levels or steps"
        noised = self.noised(batch, generator)
        score = partial(self.step_score, noised, before, xs=None)
        return self.latent.evidence(score, noised, 1 / (batch.t - before), kl_weight, generator)

    def step_score(
        self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None, last: bool | None = None
    ) -> Tensor:
        """sum_j log p_j(x_s | x_t, z) / q(x_s | x_t, x0) for the step from t to ``before`` (B,), (K, B): at the ``xs``
        (B, N) given, or averaged over q.
        """
        particles, size = 1 if z is None else z.shape[0], len(batch.x0)
        scored = self.places(batch.where(self.stepped(batch.x0, batch.masked)))
        everywhere = scored.repeated(particles)
        flat_z = None if z is None else z.flatten(0, 1)
        logits = self.predict(batch.xt.repeat(particles, 1), flat_z, batch.t.repeat(particles), everywhere)
        owners = scored.rows.repeat(particles)
        alpha_t, alpha_s = (self.schedule.alpha(precise(time)) for time in (batch.t, before))
        if not logits.requires_grad:
            logits = precise(logits)
        alpha_t, alpha_s = alpha_t.to(logits.dtype)[owners], alpha_s.to(logits.dtype)[owners]
        xt, x0 = (scored.values(tokens).repeat(particles) for tokens in (batch.xt, batch.x0))
        ours = uniform_step(logits.softmax(-1), xt, alpha_t, alpha_s)
        truth = torch.zeros_like(logits).scatter_(1, x0[:, None], 1.0)
        theirs = uniform_step(truth, xt, alpha_t, alpha_s)
        tiny = torch.finfo(logits.dtype).tiny
        ratio = ours.clamp(min=tiny).log() - theirs.clamp(min=tiny).log()
        if xs is None:
            each = (theirs * ratio).sum(dim=-1)
        else:
            each = ratio.gather(1, scored.values(xs).repeat(particles)[:, None])[:, 0]
        return summed_by_row(each, everywhere).view(particles, size)
