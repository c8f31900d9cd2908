"""Infilling: a trained model fills what is missing in sequences of which a part is known.

Known positions are never masked and so never change. With nothing known it is sampling, with everything known the
sequences come back as they are.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from vadd.core import MaskedDiffusion, Sampler, ValueDraw
from vadd.core.noise import BLOCK
from vadd.core.sampler import Grid, LatentPolicy, sample
from vadd.data.dataset import TO_FILL, Array
from vadd.errors import UserError
from vadd.sampling import choose, noise_for

if TYPE_CHECKING:
    from vadd.run import Run


def infill(
    run: "Run",
    x: Tensor | Array,
    known: Tensor | Array | None = None,
    *,
    steps: int,
    count: int = 1,
    seed: int = 0,
    sampler: str | Sampler | None = None,
    grid: Grid | None = None,
    latent: LatentPolicy | Tensor | None = None,
    values: ValueDraw | None = None,
    progress: Callable[..., object] = lambda done: None,
    record: Callable[[Tensor], object] | None = None,
) -> Tensor:
    """``count`` completions of each of the n sequences ``x``, (n, count, N) integers.

    ``x`` has the shape (n, N) or (n, *shape), and so has ``known``, true where a value is to stay; without it -1 in
    ``x`` marks what is to be filled. ``latent`` is a policy, or a z for each completion, (n, count, d). Sampler, grid
    and latent policy are the recipe's unless given. ``progress`` is told how many are done; ``record`` is given how the
    first completions (a block of them) come about, (steps + 1, rows, N), V for the mask.
    """
    starts = masked_starts(run.model, x, known, count)
    chosen = run.recipe.sampling.latent_policy if latent is None else latent
    how, times = choose(run.recipe.sampling, sampler, grid)
    policy = _one_for_each_row(chosen, len(starts) // count, count)
    chunks: list[Tensor] = []
    for first, last in pairwise(_borders(len(starts), run.recipe.network.rows_at_once, record is not None)):
        drawn = sample(
            run.model,
            starts[first:last],
            steps,
            noise_for(seed, range(first, last)),
            sampler=how,
            grid=times,
            latent=policy[first:last] if isinstance(policy, Tensor) else policy,
            values=values,
            record=record is not None and first == 0,
        )
        if record is not None and drawn.trajectory is not None:
            record(drawn.trajectory.cpu())
        chunks.append(drawn.tokens.cpu())
        progress(done=last)
    return torch.cat(chunks).view(-1, count, run.model.positions)


def _borders(rows: int, at_once: int, first_alone: bool) -> list[int]:
    """Where to cut ``rows``, into whole blocks but for the last; the first block by itself if it is recorded."""
    size = BLOCK * max(1, at_once // BLOCK)
    start = min(BLOCK, rows) if first_alone else 0
    return sorted({0, rows, *range(start, rows, size)})


def masked_starts(model: MaskedDiffusion, x: Tensor | Array, known: Tensor | Array | None, count: int) -> Tensor:
    """(n * count, N) int64 with the mask value where there is something to fill; ``count`` rows for each sequence."""
    if count < 1:
        raise UserError(f"the number of completions must be at least 1, not {count}")
    flat = _integers(model, x)
    if known is None:
        stays = flat != TO_FILL
    else:
        marks = torch.as_tensor(known)
        if marks.dtype != torch.bool or marks.shape != x.shape:
            raise UserError(f"known says true or false for each entry of x {tuple(x.shape)}; it is {_told(marks)}")
        stays = marks.reshape(len(flat), -1).cpu()
    given = flat[stays]
    if len(given) and (given.min() < 0 or given.max() >= model.values):
        wrong = int(given.min() if given.min() < 0 else given.max())
        raise UserError(f"the sequences to fill hold the value {wrong}; the model knows 0..{model.values - 1}")
    return torch.where(stays, flat, model.mask_value).repeat_interleave(count, dim=0)


def _integers(model: MaskedDiffusion, x: Tensor | Array) -> Tensor:
    """(n, N) int64."""
    found = x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise UserError(f"sequences to fill are integers; these are {_told(found)}")
    positions = found[0].numel() if found.ndim >= 2 and len(found) else 0
    if positions > model.positions:
        raise UserError(f"the sequences to fill have {positions} positions, more than the model's {model.positions}")
    if positions != model.positions:
        raise UserError(f"sequences to fill have the shape (n, {model.positions}), not {tuple(found.shape)}")
    return found.reshape(len(found), -1).to("cpu", torch.int64)


def _one_for_each_row(latent: LatentPolicy | Tensor, sequences: int, count: int) -> LatentPolicy | Tensor:
    """Latents (n, count, d) as (n * count, d); a policy as it is."""
    if not isinstance(latent, Tensor):
        return latent
    if latent.ndim != 3 or latent.shape[:2] != (sequences, count):
        expected = f"({sequences}, {count}, d)"
        raise UserError(f"latents for these completions have the shape {expected}, not {tuple(latent.shape)}")
    return latent.flatten(0, 1)


def _told(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
