"""How the commands show what the columns of a table are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vadd.cli.console import err_console, print_columns

if TYPE_CHECKING:
    from vadd.data import DiscreteDataset
    from vadd.kinds.table.schema import ColumnReport

LONGEST_EXAMPLE = 20


def show_reports(reports: "Sequence[ColumnReport]") -> None:
    """A line for each column: kind, number of values, missing cells, the most frequent values."""
    lines = [["column", "kind", "values", "missing", "most frequent"]]
    for report in reports:
        skipped = report.spec.kind == "skip"
        grouped = report.distinct > report.spec.values and not skipped
        values = f"{report.distinct:,}" + (f" in {report.spec.values}" if grouped else "")
        missing = f"{report.missing:,}" if report.missing else "-"
        shown = report.problem or ", ".join(_short(example) for example in report.examples)
        lines.append([report.name, "left out" if skipped else report.spec.kind, values, missing, shown])
    print_columns(lines, right=frozenset({2, 3}))


def show_table(data: "DiscreteDataset") -> None:
    """What a training is about to learn, before it begins."""
    from vadd.kinds import TableKind

    if not isinstance(data.kind, TableKind):
        return
    err_console.print(
        f"{data.name}: {len(data.train) + len(data.test):,} rows, {len(data.test):,} held out", soft_wrap=True
    )
    for column in data.kind.codec.columns:
        notes = {"value": ", missing cells are one of them", "unknown": ", missing cells are unknown", "never": ""}
        err_console.print(
            f"  {column.name}: {column.kind}, {column.size} values{notes[column.missing]}", soft_wrap=True, style="dim"
        )
    for name in data.kind.codec.left_out:
        err_console.print(f"  {name}: left out", soft_wrap=True, style="dim")


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= LONGEST_EXAMPLE else f"{one_line[: LONGEST_EXAMPLE - 3]}..."
