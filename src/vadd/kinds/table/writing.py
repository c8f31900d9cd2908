"""Tables as Parquet, with the types of their columns. Needs pyarrow, which the extra ``tables`` brings."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vadd.errors import UserError
from vadd.files import whole_path, writing
from vadd.kinds.arrays import Array
from vadd.kinds.files import SampleFile
from vadd.kinds.table.codec import Columns, TableCodec
from vadd.kinds.table.columns import Column
from vadd.kinds.table.numbers import NumberColumn


def check_arrow(out: Path) -> None:
    """Before the work, not after."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UserError(f"to write {out.name} pyarrow is needed: pip install 'vadd[tables]'") from None


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


def arrow_table(table: TableCodec, cells: Columns) -> Any:
    import pyarrow as arrow

    arrays = [arrow.array(cells[column.name], arrow_type(column)) for column in table.shown]
    return arrow.Table.from_arrays(arrays, schema=_schema(table))


class ParquetFile(SampleFile):
    """Samples as rows with the types of the columns; ``cells`` decodes them."""

    def __init__(self, out: Path, table: TableCodec, cells: Callable[[Array], Columns]) -> None:
        self.out, self.table, self.cells = out, table, cells

    def begin(self) -> None:
        import pyarrow.parquet as parquet

        self.writer = parquet.ParquetWriter(self.part, _schema(self.table))

    def write(self, tokens: Array) -> None:
        with writing(self.out):
            self.writer.write_table(arrow_table(self.table, self.cells(tokens)))

    def finish(self) -> None:
        self.writer.close()


def _schema(table: TableCodec) -> Any:
    import pyarrow as arrow

    return arrow.schema([(column.name, arrow_type(column)) for column in table.shown])


def write_parquet(out: Path, columns: Columns, table: TableCodec, *, spelled: bool) -> None:
    """Columns of the table with their types, others as they are. Cells that are ``spelled`` are understood first."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    known = {column.name: column for column in table.shown}
    arrays = {
        name: arrow.array([known[name].cell_of(known[name].key(cell)) for cell in cells], arrow_type(known[name]))
        if name in known and spelled
        else arrow.array(cells)
        for name, cells in columns.items()
    }
    with whole_path(out) as part:
        parquet.write_table(arrow.table(arrays), part)


def write_cells(out: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns as they were given; what is of several types is text already."""
    check_arrow(out)
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    with whole_path(out) as part:
        parquet.write_table(arrow.table({name: arrow.array(list(cells)) for name, cells in columns.items()}), part)
