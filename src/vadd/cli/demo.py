"""``vadd demo``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.options import JsonOption, OverwriteOption


class Toy(StrEnum):
    checkerboard = "checkerboard"
    swissroll = "swissroll"
    circles = "circles"


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/demo"),
    toy: Annotated[Toy, typer.Option(help="The data to learn.")] = Toy.checkerboard,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Train MDLM and VADD on a toy for a minute or so each and show what one step gives.

    Finished trainings are kept: run it again and only the report is made anew.

    \b
    Examples:
      vadd demo
      vadd demo --toy circles --out runs/circles-demo
    """
    from vadd.report.tables import divergence_table
    from vadd.studies.toys import demo as run_demo

    comparison = run_demo(toy.value, out, Narrator())
    show_comparison(comparison, [divergence_table(comparison.reports)], json)
