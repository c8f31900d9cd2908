"""``vadd demo``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from vadd.cli.options import JsonOption, OverwriteOption
from vadd.cli.reproduce import run_study
from vadd.studies.study import study_named


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/demo"),
    toy: Annotated[
        Literal["checkerboard", "swissroll", "circles"], typer.Option(help="The data to learn.")
    ] = "checkerboard",
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
    run_study(study_named("demo"), {"out": out, "setting": toy, "json": json, "overwrite": overwrite})
