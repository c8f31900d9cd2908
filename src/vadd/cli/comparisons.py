"""The end of commands that compare runs: tables, the numbers for programs, and where the page is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadd.cli.console import out_console
from vadd.files import write_json

if TYPE_CHECKING:
    from vadd.report.table import Table


def show_results(tables: "Sequence[Table]", numbers: list[dict[str, Any]], page: Path, json: Path | None) -> None:
    for table in tables:
        table.print(out_console)
    if json is not None:
        write_json(json, numbers)
    out_console.print(f"report: {page.resolve()}", soft_wrap=True)
