"""``vadd reproduce latents``: what a learned prior and a latent with one meaning are worth."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.judge import JudgeOptions
from vadd.cli.options import OverridesArgument, check_there, grouped
from vadd.cli.study_options import DataOption, NumbersOptions, OutOption
from vadd.errors import UserError


class LatentData(StrEnum):
    digits = "digits"
    mnist = "mnist"
    cifar10 = "cifar10"
    text8 = "text8"


@grouped
def latents(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/latents"),
    on: Annotated[
        LatentData, typer.Option("--on", help="digits: a quarter of an hour; mnist, cifar10, text8: two hours.")
    ] = LatentData.digits,
    control: Annotated[
        bool, typer.Option("--control", help="Also the paper's latent with the masks of the shared one.")
    ] = False,
    data: DataOption = None,
    inception: Annotated[
        Path | None, typer.Option(help="The TorchScript InceptionV3, to judge images by FID.", show_default=False)
    ] = None,
    judging: JudgeOptions,
    numbers: NumbersOptions,
) -> None:
    """What a learned prior and a latent with one meaning are worth, beside the paper's latent and MDLM, by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce latents
      vadd data mnist && vadd reproduce latents --on mnist --out runs/latents-mnist
      vadd reproduce latents --on text8 --judge judge.gguf --out runs/latents-text
    """
    check_there(data)
    check_there(inception)
    if judging.judge is not None and on is not LatentData.text8:
        raise UserError(f"--judge reads texts; --on {on.value} has none")
    if inception is not None and on is not LatentData.cifar10:
        raise UserError(f"--inception judges colour images; --on {on.value} has none")
    from vadd.studies.latents import latents_table, reproduce_latents

    narrator = Narrator()
    comparison = reproduce_latents(
        on.value,
        out,
        narrator,
        place=data,
        control=control,
        inception=inception,
        language=judging.open((), narrator) if on is LatentData.text8 else None,
        overrides=overrides or [],
    )
    show_comparison(comparison, [latents_table(comparison.reports)], numbers.json)
