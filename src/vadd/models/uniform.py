r"""Uniform noise instead of a mask: the other transition kernel.

Going forward a position keeps its value with probability :math:`\alpha(t)` and else takes any of the V values. Nothing
shows which positions are noise, so the denoiser is asked about all of them at every step, must see t, and can correct
what it got wrong. The sampler draws :math:`x_s` from the posterior of the forward process with the denoiser's
:math:`\mu` in the place of x0 (:func:`~vadd.models.transitions.uniform_step`), and its bound is

.. math:: \log p_T(x_0) \ge E \sum_{i=1}^T \log E_{z \sim p} \prod_j
          \frac{p_j(x_{s,j} \mid x_t, z)}{q(x_{s,j} \mid x_{t,j}, x_{0,j})}.

Without a latent each step costs the Kullback-Leibler divergence of the two posteriors, in closed form. With one,
training maximises the same with that divergence inside the exponent: by Jensen's inequality no more than the bound.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from vadd.core.gaussian import DiagonalGaussian
from vadd.core.latents import Evidence
from vadd.core.masking import MaskDraw, MaskedBatch, StepTimes
from vadd.core.model import MaskedDiffusion
from vadd.core.noise import Noise
from vadd.core.precision import precise
from vadd.core.samplers import Sampler
from vadd.errors import UserError
from vadd.models.transitions import UniformSteps, uniform_step


class UniformDiffusion(MaskedDiffusion):
    """A denoiser of uniform noise, with a latent or without one (UDLM, D3PM-uniform)."""

    samplers: ClassVar[Mapping[str, Sampler]] = {"ancestral": UniformSteps()}
    shows_mask: ClassVar[bool] = False
    counts_masks: ClassVar[bool] = False
    held_out_draw: ClassVar[MaskDraw] = StepTimes()

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The same batch with any of the values where it has the mask."""
        values = (batch.uniform(generator) * self.vocab_size).long()
        return replace(batch, xt=torch.where(batch.masked, values, batch.x0))

    def begun(self, x: Tensor, hidden: Tensor, noise: Noise) -> Tensor:
        values = (noise.uniform(self.positions) * self.vocab_size).long().to(x.device)
        return torch.where(hidden, values, x)

    def unfinished(self, x: Tensor, hidden_at_start: Tensor) -> Tensor:
        return hidden_at_start

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        return self.latent.posterior(self.noised(batch, torch.Generator().manual_seed(0)))

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """The step that the batch's draw is of, times the number of such steps."""
        before = batch.masking.before
        if before is None:
            raise UserError("uniform noise is trained on steps: diffusion.mask_draw is levels or steps")
        noised = self.noised(batch, generator)

        def score(z: Tensor | None) -> Tensor:
            return self.step_score(noised, before, z, None)

        return self.latent.evidence(score, noised, 1 / (batch.t - before), kl_weight, generator)

    def step_score(self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None) -> Tensor:
        """sum_j log p_j(x_s | x_t, z) / q(x_s | x_t, x0) for the step from t to ``before`` (B,), (K, B): at the ``xs``
        (B, N) given, or averaged over q.
        """
        particles, size = 1 if z is None else z.shape[0], len(batch.x0)
        scored = self.scored(batch.x0)
        everywhere = scored.repeat(particles, 1)
        flat_z = None if z is None else z.flatten(0, 1)
        logits = self.predict(batch.xt.repeat(particles, 1), flat_z, batch.t.repeat(particles), everywhere)
        owners = everywhere.nonzero()[:, 0] % size
        alpha_t, alpha_s = (self.schedule.alpha(precise(time)) for time in (batch.t, before))
        if not logits.requires_grad:
            logits = precise(logits)
        alpha_t, alpha_s = alpha_t.to(logits.dtype)[owners], alpha_s.to(logits.dtype)[owners]
        xt, x0 = (tokens[scored].repeat(particles) for tokens in (batch.xt, batch.x0))
        ours = uniform_step(logits.softmax(-1), xt, alpha_t, alpha_s)
        truth = torch.zeros_like(logits).scatter_(1, x0[:, None], 1.0)
        theirs = uniform_step(truth, xt, alpha_t, alpha_s)
        tiny = torch.finfo(logits.dtype).tiny
        ratio = ours.clamp(min=tiny).log() - theirs.clamp(min=tiny).log()
        if xs is None:
            each = (theirs * ratio).sum(dim=-1)
        else:
            each = ratio.gather(1, xs[scored].repeat(particles)[:, None])[:, 0]
        rows = everywhere.nonzero()[:, 0]
        return each.new_zeros(particles * size).index_add(0, rows, each).view(particles, size)

    def step_before(self, batch: MaskedBatch, before: Tensor, generator: torch.Generator) -> Tensor:
        """x_s (B, N) drawn from q(x_s | x_t, x0), for steps from t to ``before``."""
        size, positions = batch.x0.shape
        alpha_t, alpha_s = (
            self.schedule.alpha(precise(time)).repeat_interleave(positions) for time in (batch.t, before)
        )
        truth = precise(torch.zeros(size * positions, self.vocab_size, device=batch.x0.device))
        truth.scatter_(1, batch.x0.flatten()[:, None], 1.0)
        law = uniform_step(truth, batch.xt.flatten(), alpha_t, alpha_s)
        levels = batch.uniform(generator).flatten().to(law)[:, None]
        return torch.searchsorted(law.cumsum(-1), levels).clamp(max=self.vocab_size - 1).view(size, positions)
