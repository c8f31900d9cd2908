"""Runs on tables: rows out of samples, rows that fulfil conditions, and cells filled.

Where a condition leaves one value, it is given like anything known. Else a value is drawn for the position first, one
position after the other, from the model's prediction times the share of each value that fulfils the condition. A draw
is kept with the probability of the conditions given z and the earlier positions: rejection sampling, which is exact.
With one z for all steps z is chosen by what is known, as for completions.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vadd.core import Model, Noise
from vadd.core.host import BLOCK, CONDITIONS, step_generator
from vadd.core.sampling import inverted
from vadd.errors import UserError
from vadd.kinds import TableKind
from vadd.kinds.arrays import Array
from vadd.kinds.table.codec import Columns, TableCodec, Where
from vadd.kinds.table.columns import Condition
from vadd.kinds.table.reading import RawTable
from vadd.progress import Progress, silent
from vadd.run.infilling import latents_that_fit, masked_starts, predicted
from vadd.run.sampling import SamplingOptions

if TYPE_CHECKING:
    from vadd.run.run import Run

LATENTS = 128
"""Draws of z in the mean that the probabilities of cells are."""
ATTEMPTS = 500
"""Rounds of rejection before conditions are called too rare."""


def table_of(run: "Run") -> TableCodec:
    if not isinstance(run.kind, TableKind):
        raise UserError(f"{run.directory.path} is not a run on a table")
    return run.kind.codec


def starts_given(run: "Run", n: int, conditions: Mapping[int, Condition], **options: Any) -> Tensor:
    """(n, N) with the mask value where nothing is said."""
    table = table_of(run)
    shares = {position: table.columns[position].shares(condition) for position, condition in conditions.items()}
    return conditioned_starts(run.completing_model, n, shares, run.options(**options))


def sample_rows(run: "Run", n: int, where: Where = (), *, progress: Progress = silent, **options: Any) -> Columns:
    """``n`` rows of the table, as columns of cells; those that fulfil ``where``."""
    table, conditions = table_of(run), run.kind.where(where)
    start: int | Tensor = starts_given(run, n, conditions, **options) if conditions else n
    tokens = torch.cat([part.tokens for part in run.stream(start, progress=progress, **options)]).numpy()
    return table.decode(tokens, options.get("seed", 0), conditions=conditions)


def fill_rows(
    run: "Run", rows: RawTable, count: int = 1, *, progress: Progress = silent, **options: Any
) -> list[Columns]:
    """``count`` copies of a table with its missing cells filled, and nothing else changed."""
    table = table_of(run)
    gaps = table.gaps(rows)
    # A gap is to be filled with something, also where the model knows "missing" as a value.
    filled = run.restricted(table.present_sizes).infill(gaps, count=count, progress=progress, **options).numpy()
    return table.copies(rows, filled, options.get("seed", 0))


def cell_probabilities(run: "Run", gaps: Array, *, draws: int = LATENTS, seed: int = 0) -> Array:
    """For rows of codes with gaps the probability of each value that could be there, given what is known of the row:
    (n, N, V), 0 where a cell is known. It is a mean over ``draws`` of z.
    """
    model = run.restricted(table_of(run).present_sizes).completing_model
    return predicted(model, masked_starts(model, run.shape, gaps, None, 1), draws, seed)


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
    generators = [step_generator(options.seed, CONDITIONS, block) for block in range(-(-n // BLOCK))]
    return torch.cat([_accepted(model, options, start, several, generator) for generator in generators])[:n]


@torch.no_grad()
def _accepted(
    model: Model, options: SamplingOptions, start: Tensor, shares: Mapping[int, Tensor], generator: torch.Generator
) -> Tensor:
    """The rows of one block."""
    x = start.repeat(BLOCK, 1)
    waiting = torch.arange(BLOCK)
    for _ in range(ATTEMPTS):
        drawn, kept = _attempt(model, options, x[waiting].to(model.device), shares, generator)
        x[waiting[kept]] = drawn[kept]
        waiting = waiting[~kept]
        if not len(waiting):
            return x
    raise UserError("hardly any row of the model fulfils all conditions; give fewer, or wider ones")


def _attempt(
    model: Model, options: SamplingOptions, x: Tensor, shares: Mapping[int, Tensor], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A value for each of the positions in turn, and which of the rows are kept."""
    kept = torch.ones(len(x), dtype=torch.bool)
    one_latent = options.z is None and options.latent_policy == "fixed"
    for number, (position, share) in enumerate(shares.items()):
        where = torch.zeros_like(x, dtype=torch.bool)
        where[:, position] = True
        masked = x == model.mask_value
        t = model.schedule.time_at(masked.double().mean(dim=1).cpu()).to(x.device, torch.float32)
        noise = Noise.of(generator, len(x))
        fits = one_latent and not bool(masked.all())
        z = latents_that_fit(model, x, options.candidates, noise) if fits else None
        z = model.latent.draw(x, t, noise) if z is None else z
        weights = model.predict(x, z, t, where).double().softmax(-1).cpu() * share
        allowed = weights.sum(dim=1)
        if number or z is not None:  # else it is the same for all rows, and all may stay
            kept &= torch.rand(len(x), generator=generator, dtype=torch.float64) < allowed
        # Rows of which nothing is allowed are not kept: any value will do for them.
        logits = torch.where(allowed[:, None] > 0, weights, share).log()
        uniforms = torch.rand(len(x), generator=generator, dtype=torch.float64)
        x[:, position] = inverted(logits - logits.amax(dim=1, keepdim=True), uniforms).to(x.device)
    return x.cpu(), kept
