"""Tables as Parquet, with the types of their columns. Needs pyarrow, which the extra ``tables`` brings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vadd.files import whole_path, writing
from vadd.kinds.arrays import Array
from vadd.kinds.files import Write
from vadd.kinds.table.codec import Columns, TableCodec
from vadd.kinds.table.columns import Column
from vadd.kinds.table.numbers import NumberColumn
from vadd.kinds.table.reading import parquet_library


def arrow_type(column: Column) -> Any:
    import pyarrow as arrow

    types = {
        "category": arrow.string(),
        "boolean": arrow.bool_(),
        "integer": arrow.int64(),
        "real": arrow.float64(),
        "date": arrow.date32(),
        "datetime": arrow.timestamp("us"),
    }
    return arrow.string() if isinstance(column, NumberColumn) and column.text else types[column.kind]


def arrow_table(columns: Mapping[str, Sequence[Any]], known: Iterable[Column] = ()) -> Any:
    """Those that are ``known`` with their types, others as they are."""
    import pyarrow as arrow

    types = {column.name: arrow_type(column) for column in known}
    return arrow.table({name: arrow.array(list(cells), types.get(name)) for name, cells in columns.items()})


@contextmanager
def parquet_file(out: Path, table: TableCodec, decode: Callable[[Array, int], Columns]) -> Iterator[Write]:
    """For samples; ``decode`` gets them and the number of the first of them."""
    count = 0

    def write(tokens: Array) -> None:
        nonlocal count
        writer.write_table(arrow_table(decode(tokens, count), table.shown))
        count += len(tokens)

    schema = arrow_table(dict.fromkeys(table.names, ()), table.shown).schema
    with writing(out), whole_path(out) as part, parquet_library(out).ParquetWriter(part, schema) as writer:
        yield write


def write_parquet(out: Path, columns: Mapping[str, Sequence[Any]], known: Iterable[Column] = ()) -> None:
    """See :func:`arrow_table`."""
    with whole_path(out) as part:
        parquet_library(out).write_table(arrow_table(columns, known), part)
