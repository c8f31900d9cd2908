"""The latent as a control: from examples to points z, along a path of points, and from points to samples."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.core import Drawing, MaskedBatch, MaskedDiffusion, Model, Noise, TokenSampler
from vadd.core.host import SAMPLING, step_generator
from vadd.data.dataset import chosen_examples
from vadd.errors import UserError, check_range
from vadd.kinds import TextKind
from vadd.kinds.arrays import TO_FILL, Array
from vadd.run.run import Run

JUDGED = 1000
"""Held-out examples by which the dimensions that matter are found."""


@torch.no_grad()
def point_of(model: Model, x0: Tensor) -> Tensor | None:
    """The posterior means of such examples and, where there are codes, the most probable one of each: (n, d)."""
    batch = MaskedBatch.all_masked(x0.to(model.device, torch.int64), model.mask_value)
    known = (batch.x0 != model.mask_value) & model.scored(batch.x0)

    def score(z: Tensor | None) -> Tensor:
        assert isinstance(model, MaskedDiffusion), "codes are for masked models"
        return model.log_likelihood(batch, z, known)

    return model.latent.point(score, batch)


def encode(run: Run, x0: Tensor) -> Tensor:
    """The points z of examples (n, N), (n, d)."""
    check_latent(run)
    points = [point_of(run.model, part) for part in torch.split(x0, run.recipe.network.rows_at_once)]
    return torch.cat([each.cpu() for each in points if each is not None])


def check_latent(run: Run) -> None:
    if run.model.latent.dim == 0:
        raise UserError(f"{run.directory.path} has no latent, like every MDLM; name a run of model=vadd")


def informative_dimensions(run: Run, count: int) -> list[int]:
    """The dimensions of z that say most about held-out examples, by the KL of the recognition model, largest first."""
    check_latent(run)
    posterior = run.model.encode(run.examples[:JUDGED])
    if posterior is None:
        raise UserError(f"{run.directory.path} has codes alone: there is no dimension to move along")
    chosen: list[int] = posterior.kl_to_standard_normal().mean(0).argsort(descending=True)[:count].tolist()
    return chosen


def line(first: Tensor, last: Tensor, points: int) -> Tensor:
    """Evenly from one point (d,) to another, both included: (points, d)."""
    if points < 2:
        raise UserError(f"a path has at least 2 points, not {points}")
    return first + torch.linspace(0, 1, points)[:, None] * (last - first)


def cross(centre: Tensor, dimensions: Sequence[int], values: Sequence[float]) -> Tensor:
    """``centre`` (d,) with one dimension set to each of the values: (dimensions, values, d)."""
    points = centre.repeat(len(dimensions), len(values), 1)
    for row, dimension in enumerate(dimensions):
        points[row, :, dimension] = torch.tensor(values, dtype=centre.dtype)
    return points


def examples(run: Run, name: str) -> Tensor:
    """Held-out examples by their numbers, all rows or one of an .npy, an image, or a text of which what follows is
    missing: (n, N), V where something is missing.
    """
    array = re.fullmatch(r"(.+\.npy)(?::(\d+))?", name)
    if re.fullmatch(r"\d+(,\d+)*", name):
        values = chosen_examples(run.examples, name)
    elif array is not None:
        values = run.kind.read_examples(Path(array[1]))
        if array[2] is not None:
            if int(array[2]) >= len(values):
                raise UserError(f"{array[1]} has no row {array[2]}; choose from 0..{len(values) - 1}")
            values = values[int(array[2])][None]
    elif run.kind.name == "image":
        values = run.kind.read_images(Path(name))
    elif isinstance(run.kind, TextKind):
        values = run.kind.templates.whole(name).values[None]
    else:
        raise UserError(f"{name!r} names no example: give the number of a held-out one or a row of a file, x.npy:0")
    low, high = int(values.min()), int(values.max())
    check_range(low, high, run.model.vocab_size, f"{name} holds the value", also=(TO_FILL,))
    return torch.from_numpy(np.where(values == TO_FILL, run.model.vocab_size, values).astype(np.int64))


def point_of_one(run: Run, name: str) -> Tensor:
    """The z of the example of this name, (d,)."""
    named = examples(run, name)
    if len(named) != 1:
        raise UserError(f"{name} holds {len(named)} examples; name one of them")
    return encode(run, named)[0]


@dataclass(frozen=True)
class Walk:
    """Points z in rows and columns, with the names of both."""

    z: Tensor
    """(rows, columns, d)"""
    rows: list[str]
    columns: list[str]

    @property
    def names(self) -> list[str]:
        return [f"{row} {column}".strip() for row in self.rows for column in self.columns]


def interpolation(run: Run, first: str, last: str, points: int) -> Walk:
    """From the z of one example to that of another, in one row."""
    z = line(point_of_one(run, first), point_of_one(run, last), points)
    return Walk(z[None], [""], [f"{share:.2f}" for share in torch.linspace(0, 1, points).tolist()])


def traversal(run: Run, around: str | None, dimensions: int, span: float, points: int) -> Walk:
    """A row for each of the most informative dimensions, moved from -span to span."""
    if points < 2 or not span > 0:
        raise UserError(f"a traversal takes at least 2 points and a span above 0, not {points} and {span}")
    moving = informative_dimensions(run, run.model.latent.dim)
    centre = point_of_one(run, "0" if around is None else around)
    if around is None:
        centre[moving] = 0.0  # and nothing else: a code stays one
    chosen = moving[:dimensions]
    values = torch.linspace(-span, span, points).tolist()
    return Walk(cross(centre, chosen, values), [f"z{d}" for d in chosen], [f"{value:+.2f}" for value in values])


def decode(run: Run, z: Tensor, *, steps: int, seed: int = 0, token_sampler: TokenSampler | None = None) -> Tensor:
    """A sample for each point z (n, d), (n, N), drawn with one z for all steps and with the same random numbers for
    all: where two differ, it is z that makes the difference.
    """
    samples = []
    for part in torch.split(z, run.recipe.network.rows_at_once):
        # Blocks of one row, all with the same generator: every row gets the same random numbers.
        noise = Noise([step_generator(seed, SAMPLING, 0) for _ in part], len(part), block=1)
        how = Drawing(grid=run.sampling.grid, z=part, token_sampler=token_sampler or TokenSampler())
        drawn = run.model.sample(len(part), steps, noise, how)
        samples.append(drawn.tokens.cpu())
    return torch.cat(samples)


@torch.no_grad()
def expected_values(run: Run, z: Tensor) -> Array:
    """For points z (rows, columns, d), everything masked: the mean of each position's distribution over 0..V-1, for
    values that have an order, (rows, columns, N). The mean, not a draw: so that nothing but z moves.
    """
    model, points = run.model, z.flatten(0, 1).to(run.model.device)
    states = torch.full((len(points), model.positions), model.mask_value, device=points.device)
    everywhere = torch.ones_like(states, dtype=torch.bool)
    logits = model.predict(states, points, torch.ones(len(points), device=points.device), everywhere)
    levels = torch.arange(model.vocab_size, dtype=torch.float32, device=points.device)
    return np.asarray((logits.float().softmax(-1) @ levels).view(*z.shape[:2], model.positions).cpu())
