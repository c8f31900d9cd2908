"""Samples given that some positions have values out of a part of what they can be.

Where the part is one value, it is given like anything known. Else a value is drawn for the position first, one position
after the other, from the model's prediction times the share of each value that fulfils the condition. A draw counts as
much as the conditions allow given z and the earlier positions: it is kept with that probability, which is rejection
sampling and exact. With one z for all steps z is chosen by what is known, as for completions.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from vadd.core import Model, Noise
from vadd.core.noise import BLOCK
from vadd.core.randomness import CONDITIONS, step_generator
from vadd.core.token_sampler import inverted
from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.run.infilling import latents_that_fit
from vadd.run.options import SamplingOptions

ATTEMPTS = 500
"""Rounds of rejection before conditions are called too rare."""


def conditioned_starts(model: Model, n: int, shares: Mapping[int, Array], options: SamplingOptions) -> Tensor:
    """(n, N) starts: at the positions of ``shares`` values that fulfil their conditions, elsewhere the mask value.

    ``shares[i]`` says for each of the first values of position i which share of it fulfils the condition.
    """
    start = torch.full((model.positions,), model.mask_value)
    several = {}
    for position, share in shares.items():
        possible = np.flatnonzero(share)
        if len(possible) == 1:
            start[position] = int(possible[0])
        else:
            several[position] = torch.zeros(model.vocab_size, dtype=torch.float64)
            several[position][: len(share)] = torch.from_numpy(share)
    if not several:
        return start.repeat(n, 1)
    # Whole blocks with generators of their own: the first rows are the same whatever n.
    draws = [_Draws(model, options, block) for block in range(-(-n // BLOCK))]
    return torch.cat([each.accepted(start, several) for each in draws])[:n]


class _Draws:
    """The rows of one block."""

    def __init__(self, model: Model, options: SamplingOptions, block: int) -> None:
        self.model, self.options = model, options
        self.generator = step_generator(options.seed, CONDITIONS, block)

    @torch.no_grad()
    def accepted(self, start: Tensor, shares: Mapping[int, Tensor]) -> Tensor:
        x = start.repeat(BLOCK, 1)
        waiting = torch.arange(BLOCK)
        for _ in range(ATTEMPTS):
            drawn, kept = self._attempt(x[waiting], shares)
            x[waiting[kept]] = drawn[kept]
            waiting = waiting[~kept]
            if not len(waiting):
                return x
        raise UserError("the conditions are too rare together: hardly any row of the model fulfils all of them")

    def _attempt(self, x: Tensor, shares: Mapping[int, Tensor]) -> tuple[Tensor, Tensor]:
        """A value for each of the positions in turn, and which of the rows are kept."""
        model, x = self.model, x.to(self.model.device, copy=True)
        kept = torch.ones(len(x), dtype=torch.bool)
        for number, (position, share) in enumerate(shares.items()):
            where = torch.zeros_like(x, dtype=torch.bool)
            where[:, position] = True
            hidden = (x == model.mask_value).double().mean(dim=1).cpu()
            t = model.schedule.time_at(hidden).to(x.device, torch.float32)
            z = self._latents(x, t)
            weights = model.predict(x, z, t, where).double().softmax(-1).cpu() * share
            allowed = weights.sum(dim=1)
            if number or z is not None:  # else it is the same for all rows, and all may stay
                kept &= torch.rand(len(x), generator=self.generator, dtype=torch.float64) < allowed
            # Rows of which nothing is allowed are not kept: any value will do for them.
            logits = torch.where(allowed[:, None] > 0, weights, share).log()
            uniforms = torch.rand(len(x), generator=self.generator, dtype=torch.float64)
            x[:, position] = inverted(logits - logits.amax(dim=1, keepdim=True), uniforms).to(x.device)
        return x.cpu(), kept

    def _latents(self, x: Tensor, t: Tensor) -> Tensor | None:
        noise = Noise.of(self.generator, len(x))
        if (
            self.options.z is None
            and self.options.latent_policy == "fixed"
            and bool((x != self.model.mask_value).any())
        ):
            fitting = latents_that_fit(self.model, x, self.options.candidates, noise)
            if fitting is not None:
                return fitting
        return self.model.latent.draw(x, t, noise)
