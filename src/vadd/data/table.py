"""Tables: rows of categories, numbers and dates, with cells missing, as data sets of small integers."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.data.known_tables import known_table
from vadd.errors import UserError
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.reading import RawTable, read_table
from vadd.kinds.table.schema import Missing, Schema, infer, inspect, read_schema, refuse_problems, with_skipped

__all__ = ["TableCodec", "load_table", "open_table", "schema_for", "table_dataset"]


def open_table(path: Path | None, name: str | None) -> RawTable:
    """The user's own file, or one of those that ship with a package."""
    if path is not None:
        return read_table(path)
    if name is None:
        raise UserError("which table? Give data.path=FILE or data.name")
    return known_table(name)


def schema_for(
    table: RawTable, schema_path: Path | None, skip: Sequence[str] = (), missing: Missing = "value"
) -> Schema:
    """Inferred, or as a file says; the columns ``skip`` are left out."""
    schema = infer(table, missing) if schema_path is None else read_schema(schema_path, table)
    return with_skipped(schema, skip, table.source)


def load_table(
    path: Path | None = None,
    *,
    name: str | None = None,
    schema_path: Path | None = None,
    skip: Sequence[str] = (),
    missing: Missing = "value",
    test_fraction: float = 0.1,
    seed: int = 0,
) -> DiscreteDataset:
    """Rows are shuffled by ``seed`` and the last ``test_fraction`` of them (at least one) held out."""
    table = open_table(path, name)
    schema = schema_for(table, schema_path, skip, missing)
    called = name if path is None or name is not None else path.stem
    return table_dataset(table, schema, name=called or "table", test_fraction=test_fraction, seed=seed)


def table_dataset(
    table: RawTable, schema: Schema, *, name: str, test_fraction: float = 0.1, seed: int = 0
) -> DiscreteDataset:
    refuse_problems(inspect(table, schema), table.source)
    held_out = max(1, math.floor(test_fraction * table.rows))
    if held_out >= table.rows:
        raise UserError(f"{table.source} has {table.rows} row(s); at least 2 are needed to train and to test")
    order = np.random.default_rng(seed).permutation(table.rows)
    codec = TableCodec.fit(table, schema, order[:-held_out].tolist())
    codes = torch.from_numpy(codec.encode(table)[order])
    return DiscreteDataset(
        name=name,
        vocab_size=codec.vocab_size,
        shape=(len(codec.columns),),
        train=codes[:-held_out],
        test=codes[-held_out:],
        table=codec,
        unknowns=any(column.missing == "unknown" for column in codec.columns),
    )
