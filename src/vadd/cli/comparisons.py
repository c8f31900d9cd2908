"""How the commands that compare runs end: a table, the numbers for programs, and where the page is."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadd.cli.console import out_console

if TYPE_CHECKING:
    from vadd.report.tables import Table
    from vadd.studies.comparison import Comparison


def show_comparison(comparison: "Comparison", tables: "list[Table]", json: Path | None) -> None:
    show_results(tables, [report.to_json() for report in comparison.reports], comparison.page, json)


def show_results(tables: "list[Table]", numbers: list[dict[str, Any]], page: Path, json: Path | None) -> None:
    from vadd.files import write_json

    for table in tables:
        table.print(out_console)
    if json is not None:
        write_json(json, numbers)
    out_console.print(f"report: {page.resolve()}", soft_wrap=True)
