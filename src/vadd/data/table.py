"""Tables: rows of categories, numbers and dates, with cells missing."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field, model_validator

from vadd.data.dataset import ColumnName, DataSettings, DiscreteDataset, TestFraction, random_split
from vadd.errors import UserError
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.reading import RawTable, read_table
from vadd.kinds.table.schema import BINS, MOST_CATEGORIES, Draw, infer, read_schema, refuse_problems, with_skipped

IN_STATSMODELS = {"fair": "datasets/fair/fair.csv", "randhie": "datasets/randhie/randhie.csv"}
"""Tables that ship with that package: real data without a download."""


class TableData(DataSettings):
    """Rows of a table: categories, numbers, dates, with cells missing."""

    kind: Literal["table"] = "table"
    path: str | None = None
    """A .csv, .tsv or .parquet file."""
    name: Literal["fair", "randhie"] | None = None
    """Instead of a path: a table that ships with statsmodels."""
    schema_path: str | None = None
    """What the columns are, as `vadd data inspect FILE --schema` writes it; else it is inferred."""
    skip: tuple[ColumnName, ...] = ()
    """Columns to leave out."""
    dependent: bool = True
    """A column that is a function of another one is looked up in rows that are drawn, not modelled."""
    labels: bool = False
    """Never: a label of a table is one of its columns."""
    bins: int = Field(BINS, ge=2, le=MOST_CATEGORIES)
    """Most bins of a number, unless the schema says."""
    draw: Draw = "values"
    """How numbers come back, unless the schema says: from the training values of their bin; with tails in the first and
    last bin from between them; or uniformly within it.
    """
    missing: Literal["value", "unknown"] = "value"
    """Missing cells without a schema: a value of their own, drawn like others, or unknown: never scored."""
    test_fraction: TestFraction = 0.1

    @model_validator(mode="after")
    def _label_is_a_column(self) -> "TableData":
        if self.labels:
            raise ValueError(
                "a label of a table is one of its columns: leave data.labels out, and draw rows that have it with "
                "`vadd sample RUN --where COLUMN=VALUE`"
            )
        return self

    def read(self, seed: int) -> DiscreteDataset:
        if self.path is not None:
            return self.split(read_table(Path(self.path)), name=self.name or Path(self.path).stem, seed=seed)
        if self.name is None:
            raise UserError("no table is named; give data.path=FILE or data.name=NAME")
        return self.split(_in_statsmodels(self.name), name=self.name, seed=seed)

    def split(self, table: RawTable, *, name: str, seed: int = 0) -> DiscreteDataset:
        """The data set of a table in memory: as the schema says or, without one, as its cells look."""
        if self.schema_path is None:
            schema = infer(table, self.missing, self.bins, self.draw)
        else:
            schema = read_schema(Path(self.schema_path), table, self.bins, self.draw)
        schema = with_skipped(schema, self.skip, table.source)
        refuse_problems(table, schema)
        train, test = random_split(table.rows, self.test_fraction, seed, table.source, "row")
        codec = TableCodec.fit(table, schema, train.tolist(), dependent=self.dependent)
        codes, shape = codec.encode(table), (len(codec.columns),)
        learnt, held_out = (torch.from_numpy(codes[rows]) for rows in (train, test))
        unknowns = any(column.missing == "unknown" for column in codec.columns)
        return DiscreteDataset(name, codec.vocab_size, shape, learnt, held_out, table=codec, unknowns=unknowns)


def _in_statsmodels(name: str) -> RawTable:
    package = find_spec("statsmodels")  # not imported, which takes seconds
    places = (package.submodule_search_locations if package else None) or []
    files = [file for place in places if (file := Path(place) / IN_STATSMODELS[name]).is_file()]
    if not files:
        raise UserError(f"the table {name} ships with statsmodels: pip install 'vadd[tables]'")
    return replace(read_table(files[0]), source=name)
