"""What the field calls a likelihood of a masked model, number by number, each with what it really is.

Where the data's own distribution is known, the excess tells: no bound can lie below it in expectation, and numbers that
do are not bounds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vadd.core import Drawing, IidTimes, MaskedBatch, MaskedDiffusion, Masking, Particles, Sampler
from vadd.core.model import k_sample_delbo
from vadd.errors import UserError

CUT = 0.1
"""Where an ELBO that is cut off begins."""
FEW = 4
"""Steps of the NELBO."""


@dataclass(frozen=True)
class Convention:
    name: str
    estimate: Callable[..., Tensor]
    """Log-likelihoods (n,) from ``model``, ``x0`` and ``generator``."""
    how: Drawing | None = None
    """The sampler that it is a likelihood of, where it is one."""
    steps: int = 1
    warning: str | None = None
    """Why it is not a bound."""


def conventions_of(model: MaskedDiffusion, particles: Particles, draws: int, how: Drawing) -> Iterator[Convention]:
    """All that exist for the model. ``draws`` are masks for each example."""
    positions = model.positions

    def of_sampler(name: str, sampler: Sampler, steps: int) -> Convention:
        drawing = Drawing(sampler=sampler, latent_policy=how.latent_policy, token_sampler=how.token_sampler)

        def bound(model: MaskedDiffusion, x0: Tensor, generator: torch.Generator) -> Tensor:
            return model.bound(x0, steps, particles, generator, drawing)

        return Convention(name, bound, drawing, steps)

    samplers = MaskedDiffusion.samplers
    if model.latent.absent:
        yield Convention("continuous-time ELBO", lambda model, **given: model.elbo(draws=draws, **given))
        cut = partial(masked_mean, masks=partial(_from, CUT), draws=draws, particles=particles)
        yield Convention(f"the same from t = {CUT} on", cut, warning="leaves out a part of the integral")
    if positions > FEW:
        yield of_sampler(f"NELBO at T = {FEW}", samplers["ancestral"], FEW)
    yield of_sampler("any-order, one position a step", samplers["parallel"], positions)
    yield of_sampler("left to right, one position a step", samplers["left-to-right"], positions)
    yield of_sampler("surest first (margin), one position a step", samplers["margin"], positions)
    each = partial(pseudo_likelihood, particles=particles)
    yield Convention("pseudo-likelihood: each given all others", each, warning="no factorisation of p(x)")
    if model.latent.absent:
        half = partial(masked_mean, masks=_half, draws=draws, particles=particles)
        yield Convention("pseudo-likelihood: half hidden", half, warning="one term of the integral for all")
    else:
        delbo = partial(k_sample_delbo, particles=particles, draws=draws)
        yield Convention("K-sample DELBO (the paper)", delbo, warning="dependence counts several times")


@torch.no_grad()
def pseudo_likelihood(model: MaskedDiffusion, x0: Tensor, generator: torch.Generator, particles: Particles) -> Tensor:
    """sum_i log p(x_i | all others), (B,): each position hidden by itself."""
    total = torch.zeros(len(x0), dtype=torch.float64)
    t = torch.full((len(x0),), float(model.schedule.time_at(torch.tensor(1 / model.positions, dtype=torch.float64))))
    scored = model.scored(x0)
    for position in range(model.positions):
        hidden = torch.zeros_like(scored)
        hidden[:, position] = scored[:, position]
        rows = hidden.any(dim=1).nonzero()[:, 0]
        if len(rows):
            masking = Masking(hidden, t.to(x0.device), torch.ones_like(t))[rows.to(x0.device)]
            batch = MaskedBatch.of(x0[rows], masking, model.mask_value)
            total[rows.cpu()] += model.log_joint(particles, generator, batch, masking.masked)
    return total


Masks = Callable[[int, MaskedDiffusion, torch.Generator], Masking]
"""For so many rows."""


@torch.no_grad()
def masked_mean(
    model: MaskedDiffusion, x0: Tensor, generator: torch.Generator, masks: Masks, draws: int, particles: Particles
) -> Tensor:
    """The mean over ``draws`` masks of w sum_{i in S} log mu_i, (B,), for a model without a latent."""
    if not model.latent.absent:
        raise UserError("sums over single positions are for models without a latent")
    total = torch.zeros(len(x0), dtype=torch.float64)
    for _ in range(draws):
        masking = masks(len(x0), model, generator).to(x0.device)
        batch = MaskedBatch.of(x0, masking, model.mask_value)
        found = model.log_joint(particles, generator, batch, masking.masked & model.scored(x0))
        total += masking.weight.cpu().double() * found
    return total / draws


def _from(start: float, rows: int, model: MaskedDiffusion, generator: torch.Generator) -> Masking:
    return IidTimes(start)(rows, model.positions, model.schedule, generator)


def _half(rows: int, model: MaskedDiffusion, generator: torch.Generator) -> Masking:
    """Half of the positions, and each counts twice."""
    count = max(1, model.positions // 2)
    masked = torch.rand(rows, model.positions, generator=generator).argsort(dim=1) < count
    t = model.schedule.time_at(torch.full((rows,), count / model.positions, dtype=torch.float64)).float()
    return Masking(masked, t, torch.full_like(t, model.positions / count))
