r"""From all masked to data in T steps: the one loop that every sampler runs on.

At each step a :class:`~vadd.core.samplers.Sampler` says which hidden positions the network must predict; values are
drawn for them given a fresh latent, and revealed. Algorithm 2 (:class:`~vadd.core.samplers.Ancestral`) needs to know
only when a position is revealed, not its value, so the network sees the sequences that reveal something, and its output
layer the positions revealed. That is the same distribution as drawing "value or mask" everywhere, and much cheaper;
steps that reveal nothing cost nothing.

Given positions are never hidden and so never change: infilling is sampling from another start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from vadd.core.model import MaskedDiffusion, Predict
from vadd.core.noise import Noise
from vadd.core.samplers import Candidates, Grid, RevealPlan, Sampler
from vadd.core.token_sampler import TokenSampler
from vadd.errors import UserError

LatentPolicy = Literal["resample", "fixed"]
LOGITS_AT_ONCE = 1 << 26
"""Most logits the network writes in one call, unless a single sequence takes more."""


@dataclass(frozen=True)
class Samples:
    """Samples, what they cost, and how the first of them came about.

    >>> drawn = Samples(torch.tensor([[1, 0], [4, 2]]), evaluations=2, sequences=3)
    >>> f"{len(drawn.tokens)} samples, {drawn.sequences / len(drawn.tokens)} passes through the network for each"
    '2 samples, 1.5 passes through the network for each'
    """

    tokens: Tensor
    """(n, N) integers in 0..V-1."""
    evaluations: int
    """Steps at which the network was called: at most the number of steps."""
    sequences: int
    """Sequences that the network was shown, over all steps: at most n times the number of steps."""
    trajectory: Tensor | None = None
    """(steps + 1, rows, N), from the start to the sample, V for the mask, of as many rows as were recorded."""


@torch.no_grad()
def sample(
    model: MaskedDiffusion,
    start: int | Tensor,
    steps: int,
    noise: Noise | torch.Generator,
    *,
    sampler: Sampler | None = None,
    grid: Grid = "uniform",
    latent: LatentPolicy | Tensor = "resample",
    token_sampler: TokenSampler | None = None,
    record: int = 0,
    on_step: Callable[[int], object] = lambda evaluations: None,
) -> Samples:
    """Draw samples in ``steps`` steps.

    ``start`` is their number, or sequences (n, N) in which the mask value marks what is to be filled. ``latent`` is
    ``resample`` (a new z at each step, the paper's), ``fixed`` (one z for a whole trajectory) or the z to use, (n, d).
    The states of the first ``record`` samples are kept. ``on_step`` is called after every step with the number of
    times that the network has been called.

    >>> from vadd.core import LinearSchedule
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(3, 5, MlpSettings(width=16)), LinearSchedule())
    >>> sample(model, 4, steps=2, noise=torch.Generator().manual_seed(0)).tokens.shape
    torch.Size([4, 3])
    >>> sample(model, torch.tensor([[1, 5, 2]]), 1, torch.Generator()).tokens[0, [0, 2]]
    tensor([1, 2])
    """
    sampler, token_sampler = sampler or model.ancestral, token_sampler or TokenSampler()
    x = _start(model, start)
    sampler.check(model.positions, steps)
    sampler.check_draws(token_sampler)
    if isinstance(noise, torch.Generator):
        noise = Noise.of(noise, len(x))
    if noise.rows != len(x):
        raise ValueError(f"noise for {noise.rows} rows, but {len(x)} samples")
    hidden = hidden_at_start = x == model.mask_value
    model.check_start(hidden)
    # The order of the draws is part of what a seed means: labels, of a model that draws them; the plan; then at each
    # step z, the sampler's own numbers for choosing positions, the numbers for the values, and the sampler's numbers
    # for masking again.
    model = model if isinstance(latent, Tensor) else model.with_drawn_labels(hidden, noise)
    predict = model.predictions()
    plan = sampler.plan(hidden, steps, model.schedule, grid, noise)
    x = model.begun(x, hidden, noise)
    z: Tensor | None = None
    if isinstance(latent, Tensor):
        z = given_latents(model, latent, len(x))
    else:
        check_policy(latent)
    states = [x[:record].clone()]
    evaluations = sequences = 0
    for step in range(steps, 0, -1):
        t = plan.times[:, step].to(x.device, torch.float32)
        if isinstance(latent, str) and (latent == "resample" or step == steps):
            z = model.latent.draw(x, t, noise)
        # What this step reveals is not masked again at once, and what was given at the start never is.
        revealed_before = hidden_at_start & ~hidden
        where = sampler.to_predict(step, plan, hidden, noise)
        # Drawn even where nothing is predicted: the generators must not depend on which rows are here.
        numbers = token_sampler.numbers(noise, model.positions)
        own = sampler.numbers(step, plan, model.positions, noise)
        if where.any():
            drawn, uncertainty = _predict(
                model, predict, x, z, step, plan, where, (numbers, own), sampler, token_sampler
            )
            revealed = sampler.revealed(step, where, uncertainty)
            x[revealed] = drawn[revealed[where]]
            evaluations += 1
            sequences += int(where.any(dim=1).sum()) * sampler.shown(step, plan)
        remasked = sampler.remasked(step, plan, revealed_before, noise)
        if remasked is not None:
            x[remasked] = model.mask_value
        hidden = model.unfinished(x, hidden_at_start)
        if record:
            states.append(x[:record].clone())
        on_step(evaluations)
    return Samples(x, evaluations, sequences, torch.stack(states) if record else None)


def _start(model: MaskedDiffusion, start: int | Tensor) -> Tensor:
    if isinstance(start, int):
        if start < 1:
            raise UserError(f"the number of samples must be at least 1, not {start}")
        return torch.full((start, model.positions), model.mask_value, device=model.device)
    if start.ndim != 2 or start.shape[1] != model.positions or len(start) == 0:
        raise UserError(f"sequences to fill have the shape (n, {model.positions}), not {tuple(start.shape)}")
    model.check_values(start, "the sequences to fill hold", also_masks=True)
    return start.to(model.device, torch.int64, copy=True)


def check_policy(policy: str) -> None:
    if policy not in get_args(LatentPolicy):
        raise UserError(f"unknown latent policy {policy!r}; choose from {', '.join(get_args(LatentPolicy))}")


def given_latents(model: MaskedDiffusion, z: Tensor, count: int) -> Tensor:
    """The z that was given for ``count`` samples, as the prior draws it."""
    dim = model.latent.dim
    if dim == 0:
        raise UserError("this model has no latent: there is no z to give")
    if z.shape != (count, dim):
        raise UserError(f"latents for {count} samples have the shape ({count}, {dim}), not {tuple(z.shape)}")
    return z.to(model.device, torch.float32)


def _predict(
    model: MaskedDiffusion,
    predict: Predict,
    x: Tensor,
    z: Tensor | None,
    step: int,
    plan: RevealPlan,
    where: Tensor,
    numbers: tuple[Tensor, Tensor | None],
    sampler: Sampler,
    token_sampler: TokenSampler,
) -> tuple[Tensor, Tensor | None]:
    """Values drawn for the M positions ``where``, and how uncertain each is, both (M,)."""
    drawn, uncertainties = [], []
    t = plan.times[:, step].to(x.device, torch.float32)
    for rows in _parts(where, model.vocab_size):
        logits = predict(x, z, t, where, rows)
        here, asked = x[rows], where[rows]
        logits = sampler.outcomes(logits, here[asked], step, plan, rows[asked.nonzero()[:, 0]])
        # Random numbers live on the CPU, wherever the model is.
        for_values, own = (each if each is None else each[rows.cpu()] for each in numbers)
        assert for_values is not None
        values = token_sampler(logits, token_sampler.uniforms(for_values, asked, model.vocab_size))
        found = Candidates(here, asked, t[rows], logits, values, rows, own, model.mask_value)
        drawn.append(sampler.settled(model, found, step, plan))
        uncertainties.append(sampler.uncertainty(logits, drawn[-1]))
    known = [uncertainty for uncertainty in uncertainties if uncertainty is not None]
    return torch.cat(drawn), torch.cat(known) if known else None


def _parts(where: Tensor, vocab_size: int) -> Iterator[Tensor]:
    """The rows that ask for something, so many at a time that their logits fit."""
    counts = where.sum(dim=1)
    rows = counts.nonzero()[:, 0]
    yield from torch.split(rows, max(1, LOGITS_AT_ONCE // (int(counts.max()) * vocab_size)))
