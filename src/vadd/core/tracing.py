"""Samplers as functions of their random numbers, which torch.export can trace: tensors in, samples out, no generator.

Only samplers that plan ahead can be: what they reveal depends on their own random numbers, not on what the network
answers, so the steps are the same operations for all samples.
"""

import torch
from torch import Tensor, nn

from vadd.core.base import Model
from vadd.core.categorical import CodedLatent, LabelledLatent
from vadd.core.gaussian import GaussianLatent
from vadd.core.host import Noise
from vadd.core.latents import Latent
from vadd.core.model import MaskedDiffusion
from vadd.core.sampling import Drawing, PlannedSampler, RevealPlan
from vadd.errors import UserError


class GivenNumbers(Noise):
    """Uniform numbers (rows, N) that were drawn elsewhere."""

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    def uniform(self, *shape: int) -> Tensor:
        return self.numbers


def check_traceable(model: Model, how: Drawing) -> PlannedSampler:
    """The sampler, if it can be written down as a function."""
    sampler = how.sampler or model.samplers["ancestral"]
    planned = [name for name, other in model.samplers.items() if isinstance(other, PlannedSampler)]
    if not isinstance(model, MaskedDiffusion) or not planned:
        raise UserError(f"only masked models (MDLM, VADD) can be traced, not {type(model).__name__}")
    if not isinstance(sampler, PlannedSampler):
        name = next((name for name, other in model.samplers.items() if other == sampler), type(sampler).__name__)
        raise UserError(
            f"the sampler {name} looks at predictions or masks again, so a file cannot hold its steps; "
            f"choose from {', '.join(planned)}"
        )
    if how.token_sampler.precision == "float32":
        raise UserError("a file cannot hold draws in float32; leave precision=float32 out")
    if model.latent.conditional:
        raise UserError("a file cannot hold a prior that reads the state; choose another with prior=trained or flow")
    return sampler


class TracedSampler(nn.Module):
    """(values, levels, z) -> samples (n, N) in ``steps`` steps.

    ``values`` (n, steps, N) are uniform numbers in [0, 1) that values are drawn from, the first step first; ``levels``
    (n, N) those that say when a position is revealed, None for a single step. ``z`` (n, d), or (n, steps, d) with a new
    one at each step, is what :class:`TracedPrior` gives; None without a latent.
    """

    def __init__(self, model: Model, steps: int, how: Drawing) -> None:
        super().__init__()
        self.sampler = check_traceable(model, how)
        self.sampler.check(model.positions, steps)
        self.model, self.steps, self.how = model, steps, how

    def forward(self, values: Tensor, levels: Tensor | None, z: Tensor | None) -> Tensor:
        model, count = self.model, values.shape[0]
        # One row in memory for all samples: networks read it once.
        x = values.new_full((1, model.positions), model.mask_value, dtype=torch.int64).expand(count, model.positions)
        plan = self.plan(x == model.mask_value, levels)
        first = torch.arange(count * model.positions).view(count, -1) == 0
        for index, step in enumerate(range(self.steps, 0, -1)):
            revealed = plan.step_of == step
            # A step may reveal nothing, and runtimes stumble over tensors without entries: one position is always asked
            # for, and left as it is unless it is revealed.
            where = revealed | first
            asked = where.flatten().nonzero()[:, 0]
            latent = z[:, index] if z is not None and z.ndim == 3 else z
            logits = model.predict(x, latent, plan.times[:, step].float(), where)
            torch._check(logits.shape[0] == asked.shape[0])  # type: ignore[no-untyped-call]  # one size, two symbols
            before, uniforms, changes = (
                tensor.flatten().index_select(0, asked) for tensor in (x, values[:, index], revealed)
            )
            drawn = torch.where(changes, self.how.token_sampler.draw(logits, uniforms), before)
            x = x.flatten().scatter(0, asked, drawn).view(count, model.positions)
        return x

    def plan(self, hidden: Tensor, levels: Tensor | None) -> RevealPlan:
        if levels is None:
            times = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(hidden.shape[0], 2)
            return RevealPlan(hidden.to(torch.int64), times)
        return self.sampler.plan(hidden, self.steps, self.model.schedule, self.how.grid, GivenNumbers(levels))


class TracedPrior(nn.Module):
    """(noise, choice) -> z (n, d) as the denoiser is given it.

    ``noise`` (n, k) are standard normal numbers, ``choice`` (n,) labels or codes, or None.
    """

    def __init__(self, latent: Latent, positions: int, mask_value: int) -> None:
        super().__init__()
        self.latent, self.positions, self.mask_value = latent, positions, mask_value

    def forward(self, noise: Tensor | None, choice: Tensor | None) -> Tensor:
        latent, z = self.latent, None
        inner = latent.inner if isinstance(latent, LabelledLatent | CodedLatent) else latent
        if isinstance(inner, GaussianLatent) and noise is not None:
            xt = noise.new_full((1, self.positions), self.mask_value, dtype=torch.int64)
            labels = choice if isinstance(latent, LabelledLatent) else None
            z = inner.prior.from_noise(noise[None], xt.expand(noise.shape[0], -1), labels)[0]
        if isinstance(latent, LabelledLatent | CodedLatent):
            assert choice is not None, "a latent with labels or codes is given them"
            return latent.joined(z, choice)
        assert z is not None
        return z
