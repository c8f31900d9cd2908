"""Runs on tables: rows out of samples, samples given something about columns, and cells filled."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor

from vadd.data.dataset import TO_FILL, Array
from vadd.errors import UserError
from vadd.kinds.table import TableCodec
from vadd.kinds.table.codec import Columns
from vadd.kinds.table.conditions import Condition, parse_condition
from vadd.kinds.table.reading import RawTable
from vadd.progress import Progress, silent
from vadd.run.conditions import conditioned_starts
from vadd.run.infilling import masked_starts, predicted
from vadd.run.options import SamplingOptions, resolve

if TYPE_CHECKING:
    from vadd.run.run import Run

LATENTS = 128
"""Draws of z in the mean that the probabilities of cells are."""

Where = Sequence[str] | Mapping[str, object]
"""``["age=40-49", "sex=F"]`` or ``{"age": "40-49", "sex": "F"}``."""


def table_of(run: "Run") -> TableCodec:
    if run.table is None:
        raise UserError(f"{run.directory.path} is not a run on a table")
    return run.table


def conditions_of(run: "Run", where: Where) -> dict[int, Condition]:
    """What is said of which position."""
    table = table_of(run)
    texts = where if not isinstance(where, Mapping) else [f"{name}={_word(value)}" for name, value in where.items()]
    found: dict[int, Condition] = {}
    for text in texts:
        condition = _condition(table, text)
        position = table.position(condition.column, f"--where {text}")
        if position in found:
            raise UserError(
                f"--where says two things of the column {condition.column!r}; join them: {condition.column}=FROM-TO"
            )
        found[position] = condition
    return found


def _word(value: object) -> object:
    return "" if value is None else value


def _condition(table: TableCodec, text: str) -> Condition:
    """Column names may hold = themselves: the longest name that fits is meant."""
    fitting = [name for name in table.names if text.startswith(name)]
    for name in sorted(fitting, key=len, reverse=True):
        rest = text[len(name) :].lstrip()
        if rest.startswith(("=", ">=", "<=")):
            operator = rest[:2] if rest[:2] in (">=", "<=") else "="
            return Condition(text, name, operator, rest[len(operator) :].strip())
    return parse_condition(text)


def starts_given(run: "Run", n: int, conditions: Mapping[int, Condition], **options: Unpack[SamplingOptions]) -> Tensor:
    """(n, N) with the mask value where nothing is said."""
    if n < 1:
        raise UserError(f"the number of samples must be at least 1, not {n}")
    table = table_of(run)
    shares = {position: table.columns[position].shares(condition) for position, condition in conditions.items()}
    settings = resolve(run.model, run.recipe.sampling, **options)
    model = run.model if run.conditional is None else run.model.with_prior(run.conditional)
    return conditioned_starts(model, n, shares, settings)


def sample_rows(
    run: "Run", n: int, where: Where = (), *, progress: Progress = silent, **options: Unpack[SamplingOptions]
) -> Columns:
    """``n`` rows of the table, as columns of cells; those that fulfil ``where``."""
    table, conditions = table_of(run), conditions_of(run, where)
    start: int | Tensor = starts_given(run, n, conditions, **options) if conditions else n
    tokens = torch.cat([part.tokens for part in run.stream(start, progress=progress, **options)]).numpy()
    return table.decode(tokens, options.get("seed", 0), conditions=conditions)


def fill_rows(
    run: "Run", rows: RawTable, count: int = 1, *, progress: Progress = silent, **options: Unpack[SamplingOptions]
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
        merged(table, rows, gaps, filled[:, number], options.get("seed", 0), first=number * len(gaps))
        for number in range(count)
    ]


def merged(table: TableCodec, rows: RawTable, gaps: Array, filled: Array, seed: int, first: int = 0) -> Columns:
    """The cells of ``rows`` as they are, and where ``gaps`` are those of ``filled``."""
    drawn = table.decode(filled, seed, first)
    columns: Columns = {}
    for name, cells in rows.columns.items():
        if name not in drawn:
            columns[name] = list(cells)
            continue
        missing = gaps[:, table.position(name, "the table")] == TO_FILL
        columns[name] = [new if gap else old for old, new, gap in zip(cells, drawn[name], missing, strict=True)]
    return columns


def cell_probabilities(run: "Run", gaps: Array, *, draws: int = LATENTS, seed: int = 0) -> Array:
    """For rows of codes with gaps the probability of each value that could be there, given what is known of the row:
    (n, N, V), 0 where a cell is known. It is a mean over ``draws`` of z.
    """
    model = run.model.restricted(table_of(run).present_sizes)
    model = model if run.conditional is None else model.with_prior(run.conditional)
    return predicted(model, masked_starts(model, run.shape, gaps, None, 1), draws, seed)


def data_frame(columns: Columns) -> Any:
    """A pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise UserError("a DataFrame needs pandas: pip install 'vadd[tables]'") from None
    return pandas.DataFrame({name: pandas.Series(cells, dtype=_dtype(cells)) for name, cells in columns.items()})


def _dtype(cells: Sequence[Any]) -> str | None:
    """Integers and booleans with gaps stay what they are; pandas by itself would make floats and objects of them."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, bool) for cell in known):
        return "boolean" if len(known) < len(cells) else "bool"
    if known and all(isinstance(cell, int) for cell in known):
        return "Int64" if len(known) < len(cells) else "int64"
    if known and all(isinstance(cell, float) for cell in known):
        return "float64"
    return None
