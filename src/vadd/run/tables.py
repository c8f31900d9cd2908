"""Runs on tables: rows out of samples, samples given something about columns, and cells filled."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vadd.errors import UserError
from vadd.kinds import TableKind
from vadd.kinds.arrays import Array
from vadd.kinds.table.codec import Columns, TableCodec, Where
from vadd.kinds.table.conditions import Condition
from vadd.kinds.table.reading import RawTable
from vadd.progress import Progress, silent
from vadd.run.conditions import conditioned_starts
from vadd.run.infilling import masked_starts, predicted

if TYPE_CHECKING:
    from vadd.run.run import Run

LATENTS = 128
"""Draws of z in the mean that the probabilities of cells are."""


def table_of(run: "Run") -> TableCodec:
    if not isinstance(run.kind, TableKind):
        raise UserError(f"{run.directory.path} is not a run on a table")
    return run.kind.codec


def starts_given(run: "Run", n: int, conditions: Mapping[int, Condition], **options: Any) -> Tensor:
    """(n, N) with the mask value where nothing is said."""
    if n < 1:
        raise UserError(f"the number of samples must be at least 1, not {n}")
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
    starts = masked_starts(run.model, run.shape, gaps, None, count)
    # A gap is to be filled with something, also where the model knows "missing" as a value.
    tokens = torch.cat(
        [part.tokens for part in run.restricted(table.present_sizes).stream(starts, progress=progress, **options)]
    )
    filled = tokens.view(len(gaps), count, -1).numpy()
    return [
        table.merged(rows, gaps, filled[:, number], options.get("seed", 0), first=number * len(gaps))
        for number in range(count)
    ]


def cell_probabilities(run: "Run", gaps: Array, *, draws: int = LATENTS, seed: int = 0) -> Array:
    """For rows of codes with gaps the probability of each value that could be there, given what is known of the row:
    (n, N, V), 0 where a cell is known. It is a mean over ``draws`` of z.
    """
    model = run.restricted(table_of(run).present_sizes).completing_model
    return predicted(model, masked_starts(model, run.shape, gaps, None, 1), draws, seed)
