"""Infilling: a trained model fills what is missing in sequences of which a part is known.

Known positions are never masked and so never change: it is sampling from another start. With nothing known it is
sampling, with everything known the sequences come back as they are.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadd.core import MaskedBatch, MaskedDiffusion, Model, Noise
from vadd.core.gaussian import GaussianLatent
from vadd.core.host import PREDICTIONS, precise, step_generator
from vadd.core.shared import FlowPrior
from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL, Array
from vadd.networks.autoregressive import AutoregressiveTransformer
from vadd.settings import represented
from vadd.words import plural

CANDIDATE_ROWS = 8192
"""Most sequences that are scored at once where latents are chosen."""
CANDIDATES, CANDIDATE_VALUES = 8192, 50_000_000
"""Draws of z that are weighed by what is known, and most probabilities that are kept for it."""
TYPICAL, TYPICAL_VALUES, STEERED_ROWS = 512, 50_000_000, 2048
"""Draws of z that tell what its components mean, most probabilities of them at once, and most draws at once that lean
towards what is known.
"""
MOST_VALUES = 2**36
"""Of the sequences to fill, all copies of them together."""


def as_tensor(x: Any, what: str) -> Tensor:
    """Arrays, tensors and nested lists as a tensor on the CPU; errors begin with ``what`` they are."""
    if np.ma.is_masked(x):
        raise UserError(f"{what} are a masked array; x.filled(-1) gives its gaps a value")
    try:
        if isinstance(x, Tensor) and (x.is_nested or x.is_quantized):
            raise TypeError
        given = x if isinstance(x, Tensor) else torch.as_tensor(np.ascontiguousarray(x))
        return given.to_dense().cpu()
    except (TypeError, ValueError, RuntimeError, NotImplementedError):  # ragged lists, objects, tensors without values
        raise UserError(f"{what} are an array, a tensor or lists of equal length, not {type(x).__name__}") from None


def as_latents(z: Any) -> Tensor:
    """Finite numbers, on the device where they are."""
    usual = isinstance(z, Tensor) and z.layout is torch.strided and not (z.is_meta or z.is_quantized)
    given = z if usual else as_tensor(z, "latents")
    if given.is_complex() or not given.isfinite().all():
        raise UserError("latents are finite numbers")
    return given


def as_sequences(x: Any, what: str, *, booleans: bool = True) -> Tensor:
    """Whole numbers (n, ...) as (n, N)."""
    given = as_tensor(x, what)
    if given.is_floating_point() or given.is_complex() or (given.dtype == torch.bool and not booleans):
        raise UserError(f"{what} are integers; these are {_described(given)}")
    return given.flatten(1) if given.ndim > 1 else given.flatten()


def masked_starts(model: Model, shape: Sequence[int], x: Any, known: Any, count: int) -> Tensor:
    """(n * count, N) int64 with the mask value where there is something to fill; ``count`` rows for each sequence."""
    given = as_tensor(x, "sequences to fill")
    rows = given[None] if is_one_example(given, shape) else given
    flat = as_sequences(rows, "sequences to fill", booleans=False).long()
    if count * flat.numel() > MOST_VALUES:
        raise UserError(f"{represented(count)} completions of {plural(len(flat), 'example')} do not fit into memory")
    stays = flat != TO_FILL
    if known is not None:
        marks = as_tensor(known, "the marks of what is known")
        if marks.dtype != torch.bool or marks.shape != given.shape:
            said = f"{tuple(given.shape)}; it is {_described(marks)}"
            raise UserError(f"known says true or false for each entry of x {said}")
        stays = marks.reshape(flat.shape)
    # 0, which every position has, stands in for what is to be filled.
    model.check_sequences(flat.masked_fill(~stays, 0), "sequences to fill")
    return torch.where(stays, flat, model.mask_value).repeat_interleave(count, dim=0)


def is_one_example(x: Tensor, shape: Sequence[int]) -> bool:
    """Whether x is an example by itself, flat or not, rather than several of them."""
    positions = math.prod(shape)
    return tuple(x.shape) in (tuple(shape), (positions,)) and tuple(x.shape) != (1, positions)


@torch.no_grad()
def latents_that_fit(model: Model, starts: Tensor, candidates: int, noise: Noise) -> Tensor | None:
    """A z for each of the unfinished sequences (n, N) that agrees with what is known of it, (n, d).

    Of ``candidates`` draws from the prior one is kept, with probabilities in proportion to the likelihood of the known
    values given z and nothing else: sampling-importance-resampling. With many candidates it follows p(z | known). A
    prior that reads what is known proposes better ones, and is paid back for having looked: the law that many
    candidates come to is the same. A model without a latent has nothing to choose.
    """
    x = starts.to(model.device)
    known = (x != model.mask_value) & model.scored(x)
    if model.latent.dim == 0 or not isinstance(model, MaskedDiffusion):
        return None
    # Everything masked: what is known counts only in the likelihood of z.
    state = MaskedBatch.all_masked(x, model.mask_value)
    # Of a model that draws labels a row of which nothing is known draws its own, as it does without other rows.
    labels = model.latent.draw_labels((x == model.mask_value).all(dim=1), noise)
    prior = model.latent.prior if isinstance(model.latent, GaussianLatent) else None
    at_once = max(1, CANDIDATE_ROWS // len(x))
    if known.any() and isinstance(prior, FlowPrior) and isinstance(prior.flow, AutoregressiveTransformer):
        z, scores = _steered(model, prior, x, known, candidates, noise, labels)
    else:
        # One after the other, so that the first candidates are the same whatever their number.
        if prior is not None:
            numbers = torch.stack([noise.normal(prior.noise_dim) for _ in range(candidates)]).to(x.device)
            z = torch.cat([prior.from_noise(part, x, labels) for part in torch.split(numbers, at_once)])
        else:
            drawn = [model.latent.draw(x, state.t, noise, labels) for _ in range(candidates)]
            z = torch.stack([each for each in drawn if each is not None])
        scores = z.new_zeros(z.shape[:2])  # where nothing is known any z will do
    if known.any():
        scores = scores + torch.cat(
            [
                model.log_likelihood(state, part, known) + model.latent.log_correction(part, x, state.xt, labels)
                for part in torch.split(z, at_once)
            ]
        )
    cumulative = precise(scores).softmax(dim=0).cumsum(dim=0)
    levels = noise.uniform().to(cumulative) * cumulative[-1]
    # By inversion of the distribution function: one uniform number for each sequence.
    chosen = (cumulative <= levels).sum(dim=0).clamp(max=candidates - 1)
    return z[chosen, torch.arange(len(x), device=x.device)]


def _steered(
    model: MaskedDiffusion,
    prior: FlowPrior,
    x: Tensor,
    known: Tensor,
    candidates: int,
    noise: Noise,
    labels: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Draws (K, B, d) of a prior of position after position that lean towards what is known, and log weights (K, B)
    that make up for it. A component's gain is how probable the known value is where it was chosen, in a few draws.
    """
    flow = prior.flow
    assert isinstance(flow, AutoregressiveTransformer)
    values, places = torch.unique(torch.where(known, x, x[known][0]), return_inverse=True)
    table = _component_meanings(model, flow, x, values).log()
    drawn = torch.stack([noise.normal(prior.noise_dim) for _ in range(candidates)]).to(x.device)
    levels = noise.uniform(model.positions).to(drawn)
    at_once = max(1, STEERED_ROWS // candidates)
    parts = []
    for rows in torch.split(torch.arange(len(x), device=x.device), at_once):
        log_gains = torch.where(known[rows][..., None], table.T[places[rows]], 0.0)
        context = prior.context(x[rows], None if labels is None else labels[rows], candidates)
        parts.append(flow.steered(drawn[:, rows], levels[rows], log_gains, context))
    z, log_weights = zip(*parts, strict=True)
    return torch.cat(z, dim=1), torch.cat(log_weights, dim=1)


def _component_meanings(model: Model, flow: AutoregressiveTransformer, x: Tensor, values: Tensor) -> Tensor:
    """How probable each of the ``values`` is where a component was chosen, (C, values), on average in a few draws."""
    blank = MaskedBatch.all_masked(x[:1].expand(TYPICAL, -1), model.mask_value)
    some = model.latent.draw(blank.xt, blank.t, Noise.of(step_generator(0, PREDICTIONS), TYPICAL))
    assert some is not None
    chosen, said, mean = (some.new_zeros(len(flow.means), count) for count in (1, len(values), len(values)))
    at_once = max(1, TYPICAL_VALUES // (model.positions * max(model.vocab_size, len(flow.means))))
    for z, xt, t in zip(*(torch.split(each, at_once) for each in (some, blank.xt, blank.t)), strict=True):
        everywhere = torch.ones_like(xt, dtype=torch.bool)
        probabilities = model.predict(xt, z, t, everywhere).float().softmax(-1)[:, values]
        shares = flow.component_shares(z).flatten(0, 1)
        chosen, said = chosen + shares.sum(0)[:, None], said + shares.T @ probabilities
        mean = mean + probabilities.sum(0) / (TYPICAL * model.positions)
    # A component that was seldom drawn may mean anything.
    return (said + mean) / (chosen + 1)


@torch.no_grad()
def predicted(model: Model, starts: Tensor, draws: int, seed: int) -> Array:
    """Of every hidden position of ``starts`` (n, N) the distribution given what is known, (n, N, V); 0 elsewhere.

    It is the mean over ``draws`` of z of what the denoiser predicts for that position, z chosen as
    :func:`latents_that_fit` chooses it: the law of completing that position alone.
    """
    draws = 1 if model.latent.dim == 0 else draws
    weighed = model.latent.dim > 0 and not model.latent.conditional
    candidates = _Candidates(model, starts, draws, step_generator(seed, PREDICTIONS)) if weighed else None
    probabilities = torch.zeros(*starts.shape, model.vocab_size, dtype=torch.float64)
    for rows in torch.split(torch.arange(len(starts)), max(1, CANDIDATE_ROWS // draws)):
        x = starts[rows].to(model.device)
        hidden = x == model.mask_value
        t = model.schedule.time_at(hidden.double().mean(dim=1).cpu()).to(x.device, torch.float32)
        z: Tensor | None = None
        if candidates is not None:
            z = candidates.fitting(x, ~hidden & model.scored(x))
        elif model.latent.conditional:
            # The same numbers for every part: which rows are here does not matter.
            noise = Noise.of(step_generator(seed, PREDICTIONS), draws * len(x))
            z = model.latent.draw(x.repeat(draws, 1), t.repeat(draws), noise)
        logits = model.predict(x.repeat(draws, 1), z, t.repeat(draws), hidden.repeat(draws, 1))
        mean = precise(logits).softmax(-1).view(draws, -1, model.vocab_size).mean(dim=0)
        at, positions = hidden.cpu().nonzero(as_tuple=True)
        probabilities[rows[at], positions] = mean.cpu().double()
    return probabilities.numpy()


class _Candidates:
    """Draws of z from the prior, the same for all rows, and what each of them says of every position at first: all
    rows weigh them by it, so that there can be many more than are looked at closely.
    """

    def __init__(self, model: Model, starts: Tensor, draws: int, generator: torch.Generator) -> None:
        self.draws = draws
        count = max(draws, min(CANDIDATES, CANDIDATE_VALUES // (model.positions * model.vocab_size)))
        blank = MaskedBatch.all_masked(starts[:1].expand(count, -1).to(model.device), model.mask_value)
        self.z = model.latent.draw(blank.xt, blank.t, Noise.of(generator, count))
        self.offset = float(torch.rand(1, generator=generator, dtype=torch.float64))
        logits = model.predict(blank.xt, self.z, blank.t, torch.ones_like(blank.xt, dtype=torch.bool))
        self.log_mu = precise(logits).log_softmax(-1).view(count, model.positions, model.vocab_size)

    def fitting(self, x: Tensor, known: Tensor) -> Tensor | None:
        """(draws * n, d): for each of the rows (n, N) so many that fit what is ``known`` of it, chosen in proportion to
        its likelihood; draw after draw of all rows.
        """
        if self.z is None:
            return None
        scores = self.log_mu.new_zeros(len(self.z), len(x))
        for position in known.any(dim=0).nonzero()[:, 0].tolist():
            values = x[:, position].clamp(max=self.log_mu.shape[-1] - 1)
            scores += torch.where(known[:, position], self.log_mu[:, position, values], 0.0)
        cumulative = scores.softmax(dim=0).T.contiguous().cumsum(dim=1)
        # Evenly spaced levels, moved together: heavy candidates come about as often as they weigh.
        levels = (torch.arange(self.draws, dtype=cumulative.dtype, device=x.device) + self.offset) / self.draws
        chosen = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True).clamp(max=len(self.z) - 1)
        return self.z[chosen.T].flatten(0, 1)


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
