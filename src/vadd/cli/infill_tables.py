"""``vadd infill --table``: the missing cells of a table, filled once or several times, and how probable they were."""

from pathlib import Path

import numpy as np

from vadd.cli.console import out_console
from vadd.cli.infill_tasks import MOST_SHOWN, Task
from vadd.cli.sample_files import csv_lines
from vadd.data.dataset import TO_FILL, Array
from vadd.errors import UserError
from vadd.files import write_whole
from vadd.kinds.table import TableCodec
from vadd.kinds.table.codec import Columns
from vadd.kinds.table.reading import RawTable, read_table
from vadd.kinds.table.writing import check_arrow, write_parquet
from vadd.run.run import Run
from vadd.run.tables import cell_probabilities, merged, table_of

IMPUTATION = "imputation"
"""The column that tells the copies of a table apart."""


class TableTask(Task):
    formats = (".csv", ".parquet")

    def __init__(self, table: TableCodec, rows: RawTable, seed: int) -> None:
        self.table, self.rows, self.seed = table, rows, seed
        self.x = table.gaps(rows)

    def check_format(self, out: Path | None) -> None:
        super().check_format(out)
        if out is not None and out.suffix == ".parquet":
            check_arrow(out)

    def run_for(self, run: Run) -> Run:
        # A gap is to be filled with something, also where the model knows "missing" as a value.
        return run.restricted(self.table.present_sizes)

    def copies(self, filled: Array) -> list[Columns]:
        """A table for each completion; ``filled`` is (rows, count, N)."""
        return [
            merged(self.table, self.rows, self.x, filled[:, number], self.seed, first=number * len(filled))
            for number in range(filled.shape[1])
        ]

    def show(self, filled: Array) -> None:
        lines = self._lines(self.copies(filled))
        for line in csv_lines(lines[: MOST_SHOWN + 1]).splitlines():
            out_console.out(line, highlight=False)
        if len(lines) > MOST_SHOWN + 1:
            out_console.out(f"... {len(lines) - MOST_SHOWN - 1} more; write them all with --out FILE.csv")

    def write(self, filled: Array, out: Path) -> None:
        copies = self.copies(filled)
        if out.suffix == ".csv":
            write_whole(out, csv_lines(self._lines(copies)))
            return
        columns: Columns = {IMPUTATION: [n for n, _ in enumerate(copies, 1) for _ in range(self.rows.rows)]}
        columns = (columns if len(copies) > 1 else {}) | {
            name: [cell for copy in copies for cell in copy[name]] for name in self.rows.columns
        }
        write_parquet(out, columns, self.table, spelled=self.rows.spelled)

    def _lines(self, copies: list[Columns]) -> list[list[str]]:
        """With names; cells that were there are as they were."""
        several = len(copies) > 1
        spell = {column.name: column.spell for column in self.table.columns}
        lines = [[IMPUTATION] * several + list(self.rows.columns)]
        for number, copy in enumerate(copies, start=1):
            columns = [
                [
                    cell if isinstance(cell, str) else spell[name](cell) if name in spell else _plain(cell)
                    for cell in cells
                ]
                for name, cells in copy.items()
            ]
            lines += [[str(number)] * several + list(row) for row in zip(*columns, strict=True)]
        return lines

    def write_probabilities(self, run: Run, filled: Array, out: Path) -> None:
        """A line for each filled cell: row, column, value, probability, and the copy where there are several."""
        chance = cell_probabilities(run, self.x, seed=self.seed)
        several = filled.shape[1] > 1
        lines = [[IMPUTATION] * several + ["row", "column", "value", "probability"]]
        labels = [column.labels() for column in self.table.columns]
        for number in range(filled.shape[1]):
            for row, position in np.argwhere(self.x == TO_FILL).tolist():
                code = int(filled[row, number, position])
                found = [str(row + 1), self.table.names[position], labels[position][code]]
                lines.append([str(number + 1)] * several + [*found, f"{chance[row, position, code]:.6g}"])
        write_whole(out, csv_lines(lines))


def _plain(cell: object) -> str:
    return "" if cell is None else str(cell)


def table_task(run: Run, file: Path, seed: int) -> TableTask:
    table = table_of(run)
    rows = read_table(file)
    if IMPUTATION in rows.columns and IMPUTATION not in table.names:
        raise UserError(f"{file} has a column {IMPUTATION!r} already: it looks filled")
    task = TableTask(table, rows, seed)
    if not (task.x == TO_FILL).any():
        raise UserError(f"there is nothing to fill in {file}: no cell is missing")
    return task
