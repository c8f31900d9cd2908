"""Infilling: a trained model fills what is missing in sequences of which a part is known.

Known positions are never masked and so never change: it is sampling from another start. With nothing known it is
sampling, with everything known the sequences come back as they are.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vadd.core import MaskedBatch, MaskedDiffusion, Noise
from vadd.core.precision import precise
from vadd.data.dataset import TO_FILL, Array
from vadd.errors import UserError, check_range

CANDIDATE_ROWS = 8192
"""Most sequences that are scored at once where latents are chosen."""


def masked_starts(
    model: MaskedDiffusion, shape: Sequence[int], x: Tensor | Array, known: Tensor | Array | None, count: int
) -> Tensor:
    """(n * count, N) int64 with the mask value where there is something to fill; ``count`` rows for each sequence."""
    if count < 1:
        raise UserError(f"the number of completions must be at least 1, not {count}")
    flat = _integers(model, shape, x)
    if known is None:
        stays = flat != TO_FILL
    else:
        marks = torch.as_tensor(known)
        if marks.dtype != torch.bool or marks.shape != x.shape:
            raise UserError(f"known says true or false for each entry of x {tuple(x.shape)}; it is {_described(marks)}")
        stays = marks.reshape(len(flat), -1).cpu()
    given = flat[stays]
    if len(given):
        low, high = int(given.min()), int(given.max())
        what = "the sequences to fill hold the value"
        check_range(low, high, model.vocab_size, what, limits="; the model knows")
    return torch.where(stays, flat, model.mask_value).repeat_interleave(count, dim=0)


def _integers(model: MaskedDiffusion, shape: Sequence[int], x: Tensor | Array) -> Tensor:
    """(n, N) int64."""
    found = x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise UserError(f"sequences to fill are integers; these are {_described(found)}")
    found = found[None] if is_one_example(found, shape) else found
    positions = found[0].numel() if found.ndim >= 2 and len(found) else 0
    if positions > model.positions:
        raise UserError(f"the sequences to fill have {positions} positions, more than the model's {model.positions}")
    if positions != model.positions:
        raise UserError(f"sequences to fill have the shape (n, {model.positions}), not {tuple(found.shape)}")
    return found.reshape(len(found), -1).to("cpu", torch.int64)


def is_one_example(x: Tensor | Array, shape: Sequence[int]) -> bool:
    """Whether x is an example by itself, flat or not, rather than several of them."""
    positions = math.prod(shape)
    return tuple(x.shape) in (tuple(shape), (positions,)) and tuple(x.shape) != (1, positions)


def latent_rows(latent: Tensor, sequences: int, count: int) -> Tensor:
    """Latents (n, count, d), as completions are given back, as rows (n * count, d)."""
    if latent.shape[:2] != (sequences, count):
        raise UserError(f"latents for them have the shape ({sequences}, {count}, d), not {tuple(latent.shape)}")
    return latent.flatten(0, 1)


def as_given(filled: Tensor, x: Tensor | Array, shape: Sequence[int], count: int | None) -> Tensor:
    """Completions (n * count, N) in the shape of what was given: x itself, or with ``count`` (n, count, ...)."""
    if count is None:
        return filled.view(tuple(x.shape))
    if is_one_example(x, shape):
        return filled.view(count, *x.shape)
    return filled.view(len(x), count, *x.shape[1:])


@torch.no_grad()
def latents_that_fit(
    model: MaskedDiffusion, starts: Tensor, candidates: int, noise: Noise
) -> Tensor | Literal["fixed"]:
    """A z for each of the unfinished sequences (n, N) that agrees with what is known of it, (n, d).

    Of ``candidates`` draws from the prior one is kept, with probabilities in proportion to the likelihood of the known
    values given z and nothing else: sampling-importance-resampling. With many candidates it follows p(z | known). A
    prior that reads what is known proposes better ones, and is paid back for having looked: the law that many
    candidates come to is the same. A model without a latent has nothing to choose.
    """
    x = starts.to(model.device)
    known = (x != model.mask_value) & model.scored(x)
    if model.latent.dim == 0 or not model.shows_mask:
        return "fixed"
    # Everything masked: what is known counts only as something that z must explain.
    state = MaskedBatch.all_masked(x, model.mask_value)
    # One after the other, so that the first candidates are the same whatever their number.
    drawn = [model.latent.draw(x, state.t, noise) for _ in range(candidates)]
    z = torch.stack([each for each in drawn if each is not None])
    scores = z.new_zeros(z.shape[:2])  # where nothing is known any z will do
    if known.any():
        at_once = max(1, CANDIDATE_ROWS // len(x))
        scores = torch.cat(
            [
                model.log_likelihood(state, part, known) + model.latent.log_correction(part, x, state.xt)
                for part in torch.split(z, at_once)
            ]
        )
    cumulative = precise(scores).softmax(dim=0).cumsum(dim=0)
    levels = noise.uniform().to(cumulative) * cumulative[-1]
    # By inversion of the distribution function: one uniform number for each sequence.
    chosen = (cumulative <= levels).sum(dim=0).clamp(max=candidates - 1)
    return z[chosen, torch.arange(len(x), device=x.device)]


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
