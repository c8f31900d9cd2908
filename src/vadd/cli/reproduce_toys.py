"""The studies of ``vadd reproduce`` that are about toys: samples of two coordinates, and bounds of known entropies."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.options import OverridesArgument, grouped
from vadd.cli.study_options import NumbersOptions, OutOption, StudyOptions


class ToyScale(StrEnum):
    cpu = "cpu"
    paper = "paper"


@grouped
def toys(
    *,
    out: OutOption = Path("runs/toys"),
    scale: Annotated[
        ToyScale, typer.Option(help="cpu: minutes per model; paper: the appendix's 195,312 iterations.")
    ] = ToyScale.cpu,
    study: StudyOptions,
) -> None:
    """The two-dimensional experiments: three data sets, MDLM and VADD, figures and the table beside the paper's.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce toys
      vadd reproduce toys training.steps=2000 --particles 16 --limit 500 --out runs/quick
      vadd reproduce toys --scale paper --out runs/toys-paper
    """
    settings = study.settings(scale)
    from vadd.studies.toys import reproduce_toys, toy_tables

    comparison = reproduce_toys(out, scale.value, Narrator(), **settings)
    show_comparison(comparison, toy_tables(comparison.reports), study.json)


@grouped
def validity(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/validity"),
    numbers: NumbersOptions,
) -> None:
    """What is a likelihood bound and what is not: data of known entropy, the DELBO below it, the step bounds above.

    \b
    Examples:
      vadd reproduce validity
    """
    from vadd.report.tables import bound_table
    from vadd.studies.validity import reproduce_validity

    comparison = reproduce_validity(out, Narrator(), overrides=overrides or [])
    show_comparison(comparison, [bound_table(comparison.reports)], numbers.json)
