"""``vadd reproduce baselines``: every model of the zoo side by side."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_results
from vadd.cli.console import Narrator
from vadd.cli.judge import JudgeOptions
from vadd.cli.options import OverridesArgument, check_there, grouped, parse_steps
from vadd.cli.study_options import NumbersOptions
from vadd.errors import UserError


class BaselineData(StrEnum):
    toys = "toys"
    digits = "digits"
    mnist = "mnist"
    cifar10 = "cifar10"
    text = "text"


@grouped
def baselines(
    *,
    overrides: OverridesArgument = None,
    data: Annotated[BaselineData, typer.Option("--data", help="What the models learn.")] = BaselineData.digits,
    models: Annotated[
        str | None,
        typer.Option(
            help="Only these, like mdlm,vadd,ar; vadd has the paper's latent, vadd-one-z one z for all steps and a "
            "learned prior. [default: all of `vadd zoo`]",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Processor time of each training. [default: 1; mnist: 1.5; text, cifar10: 2]",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            help="Numbers of sampling steps, like 1,5,20; DDPM has 1000 and takes fewer as DDIM. [default: three or "
            "four, by the data]",
            show_default=False,
            metavar="T,T",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=2, help="Samples for each number of steps.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the runs and the report go. [default: runs/baselines-DATA]")
    ] = None,
    inception: Annotated[
        Path | None,
        typer.Option(
            help="The TorchScript InceptionV3, to judge images by FID (`vadd data inception`).", metavar="FILE"
        ),
    ] = None,
    judging: JudgeOptions,
    numbers: NumbersOptions,
) -> None:
    """Every model of the zoo on the same data for the same processor time: quality, likelihood and cost of samples.

    What was trained and measured before is kept, interrupted trainings are continued, and the report is written anew
    after each model; one that fails is named there and does not stop the others. The defaults take about half an hour
    of one core for a data set.

    \b
    Examples:
      vadd reproduce baselines
      vadd reproduce baselines --data toys --models mdlm,vadd,ar --minutes 0.5
      vadd data mnist && vadd reproduce baselines --data mnist
      vadd reproduce baselines --data text --judge judge.gguf
      vadd reproduce baselines --data digits --models mdlm,ddpm --steps 5,20,1000 training.batch=64
    """
    check_there(inception)
    if judging.judge is not None and data is not BaselineData.text:
        raise UserError(f"--judge reads texts; --data {data.value} has none")
    if inception is not None and data in (BaselineData.text, BaselineData.toys):
        raise UserError(f"--inception judges images; --data {data.value} has none")
    wanted = None if steps is None else parse_steps(steps)
    from vadd.studies.baseline_page import baselines_table, likelihood_table, summary_table
    from vadd.studies.baselines import reproduce_baselines

    narrator = Narrator()
    found = reproduce_baselines(
        data.value,
        out or Path("runs") / f"baselines-{data.value}",
        narrator,
        models=[] if models is None else models.split(","),
        minutes=minutes,
        steps=wanted,
        samples=samples,
        overrides=overrides or [],
        language=judging.open((), narrator) if data is BaselineData.text else None,
        inception=inception,
    )
    tables = [summary_table(found.rows, found.absent), likelihood_table(found.rows), baselines_table(found.rows)]
    show_results(tables, found.to_json(), found.page, numbers.json)
