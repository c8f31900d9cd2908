"""``vadd demo`` and ``vadd reproduce``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import JsonOption, Narrator, check_json, out_console

if TYPE_CHECKING:
    from vadd.report.tables import Table
    from vadd.studies.comparison import Comparison

reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


class Toy(StrEnum):
    checkerboard = "checkerboard"
    swissroll = "swissroll"
    circles = "circles"


class Scale(StrEnum):
    cpu = "cpu"
    paper = "paper"


def _show(comparison: "Comparison", table: "Table", json: Path | None) -> None:
    from vadd.studies.comparison import write_json

    table.print(out_console)
    if json is not None:
        write_json(json, comparison.reports)
    out_console.print(f"report: {comparison.page.resolve()}", soft_wrap=True)


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/demo"),
    toy: Annotated[Toy, typer.Option(help="The data to learn.")] = Toy.checkerboard,
    json: JsonOption = None,
) -> None:
    """Train MDLM and VADD on a toy for a minute or so each and show what one step gives.

    Finished trainings are kept: run it again and only the report is made anew.

    \b
    Examples:
      vadd demo
      vadd demo --toy circles --out runs/circles-demo
    """
    check_json(json)
    from vadd.report.tables import divergence_table
    from vadd.studies.toys import demo as run_demo

    comparison = run_demo(toy.value, out, Narrator())
    _show(comparison, divergence_table(comparison.reports), json)


@reproduce.command("toys")
def reproduce_toys(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/toys"),
    scale: Annotated[
        Scale, typer.Option(help="cpu: minutes per model; paper: the appendix's 195,312 iterations.")
    ] = Scale.cpu,
    json: JsonOption = None,
) -> None:
    """The two-dimensional experiments: three data sets, MDLM and VADD, figures and the table beside the paper's.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce toys
      vadd reproduce toys --scale paper --out runs/toys-paper
    """
    check_json(json)
    from vadd.studies.toys import paper_table
    from vadd.studies.toys import reproduce_toys as run_toys

    comparison = run_toys(out, scale.value, Narrator())
    _show(comparison, paper_table(comparison.reports), json)


@reproduce.command("validity")
def reproduce_validity(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/validity"),
    json: JsonOption = None,
) -> None:
    """What is a likelihood bound and what is not: data of known entropy, the DELBO below it, the step bounds above.

    \b
    Examples:
      vadd reproduce validity
    """
    check_json(json)
    from vadd.report.tables import bound_table
    from vadd.studies.validity import reproduce_validity as run_validity

    comparison = run_validity(out, Narrator())
    _show(comparison, bound_table(comparison.reports), json)
