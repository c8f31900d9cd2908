"""``vadd reproduce``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli import reproduce_text as of_text
from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.judging import JudgeOptions
from vadd.cli.options import JsonOption, OverridesArgument, OverwriteOption, check_json, check_there, grouped
from vadd.cli.reproduce_all import ListOption, paper_command
from vadd.cli.reproduce_baselines import baselines
from vadd.cli.study_options import DataOption, OutOption, Scale, StudyOptions
from vadd.errors import UserError

reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


@reproduce.callback()
def options(listed: ListOption = False) -> None:
    """What every study understands."""


class ToyScale(StrEnum):
    cpu = "cpu"
    paper = "paper"


@reproduce.command("toys")
@grouped
def reproduce_toys(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/toys"),
    scale: Annotated[
        ToyScale, typer.Option(help="cpu: minutes per model; paper: the appendix's 195,312 iterations.")
    ] = ToyScale.cpu,
    measuring: StudyOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """The two-dimensional experiments: three data sets, MDLM and VADD, figures and the table beside the paper's.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce toys
      vadd reproduce toys training.steps=2000 --particles 16 --limit 500 --out runs/quick
      vadd reproduce toys --scale paper --out runs/toys-paper
    """
    check_json(json, overwrite)
    changes = measuring.changes()
    from vadd.studies.toys import reproduce_toys as run_toys
    from vadd.studies.toys import toy_tables

    comparison = run_toys(
        out, scale.value, Narrator(), overrides=overrides or [], changes=changes, fit=measuring.fits(scale)
    )
    show_comparison(comparison, toy_tables(comparison.reports), json)


@reproduce.command("validity")
def reproduce_validity(
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/validity"),
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """What is a likelihood bound and what is not: data of known entropy, the DELBO below it, the step bounds above.

    \b
    Examples:
      vadd reproduce validity
    """
    check_json(json, overwrite)
    from vadd.report.tables import bound_table
    from vadd.studies.validity import reproduce_validity as run_validity

    comparison = run_validity(out, Narrator(), overrides=overrides or [])
    show_comparison(comparison, [bound_table(comparison.reports)], json)


@reproduce.command("mnist")
@grouped
def reproduce_mnist(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/mnist"),
    scale: Annotated[
        Scale,
        typer.Option(help="small: twenty minutes per model; paper: the appendix's UNet, 200,000 iterations."),
    ] = Scale.small,
    data: DataOption = None,
    measuring: StudyOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Binarized MNIST: both models, Frechet distances, bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd data mnist && vadd reproduce mnist
      vadd reproduce mnist --scale paper --out runs/mnist-paper
      vadd reproduce mnist --scale paper training.precision=bfloat16 training.accumulate=8
    """
    check_json(json, overwrite)
    changes = measuring.changes()
    from vadd.report.tables import divergence_table
    from vadd.studies.images import bits_table
    from vadd.studies.images import reproduce_mnist as run_mnist

    comparison = run_mnist(
        out, scale.value, Narrator(), data=data, overrides=overrides or [], changes=changes, fit=measuring.fits(scale)
    )
    tables = [divergence_table(comparison.reports), bits_table("mnist", comparison.reports)]
    show_comparison(comparison, tables, json)


class LatentData(StrEnum):
    digits = "digits"
    mnist = "mnist"
    cifar10 = "cifar10"
    text8 = "text8"


@reproduce.command("latents")
@grouped
def reproduce_latents(
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
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """What a learned prior and a latent with one meaning are worth, beside the paper's latent and MDLM, by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce latents
      vadd data mnist && vadd reproduce latents --on mnist --out runs/latents-mnist
      vadd reproduce latents --on text8 --judge judge.gguf --out runs/latents-text
    """
    check_json(json, overwrite)
    check_there(data, inception)
    if judging.judge is not None and on is not LatentData.text8:
        raise UserError(f"--judge reads texts; --on {on.value} has none")
    if inception is not None and on is not LatentData.cifar10:
        raise UserError(f"--inception judges colour images; --on {on.value} has none")
    from vadd.studies.latents import latents_table
    from vadd.studies.latents import reproduce_latents as run_latents

    narrator = Narrator()
    comparison = run_latents(
        on.value,
        out,
        narrator,
        place=data,
        control=control,
        inception=inception,
        language=judging.open((), narrator) if on is LatentData.text8 else None,
        overrides=overrides or [],
    )
    show_comparison(comparison, [latents_table(comparison.reports)], json)


InceptionOption = Annotated[
    Path | None, typer.Option(help="The TorchScript InceptionV3 for FID; by default fetched.", show_default=False)
]


@reproduce.command("cifar10")
@grouped
def reproduce_cifar10(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/cifar10"),
    scale: Annotated[
        Scale, typer.Option(help="small: minutes per model, 8 values per channel; paper: 1M iterations.")
    ] = Scale.small,
    data: DataOption = None,
    inception: InceptionOption = None,
    measuring: StudyOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """CIFAR-10: both models, FID by number of steps and bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued. FID takes a fifth of a second an image on one core.

    \b
    Examples:
      vadd data cifar10 && vadd reproduce cifar10
      vadd reproduce cifar10 --steps 1,5,20 --samples 2000
      vadd reproduce cifar10 --scale paper --out runs/cifar10-paper
    """
    _cifar10(out, scale, data, inception, measuring, json, overwrite, overrides or [], longer=False)


@reproduce.command("cifar10-2m")
@grouped
def reproduce_cifar10_2m(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/cifar10-2m"),
    scale: Annotated[
        Scale, typer.Option(help="small: twice the steps of `cifar10`; paper: 2M iterations, KL warm-up 100,000.")
    ] = Scale.small,
    data: DataOption = None,
    inception: InceptionOption = None,
    measuring: StudyOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """CIFAR-10 for the 2M iterations after which the paper reports bits per dimension.

    \b
    Examples:
      vadd reproduce cifar10-2m --scale paper --out runs/cifar10-2m
    """
    _cifar10(out, scale, data, inception, measuring, json, overwrite, overrides or [], longer=True)


def _cifar10(
    out: Path,
    scale: Scale,
    data: Path | None,
    inception: Path | None,
    measuring: StudyOptions,
    json: Path | None,
    overwrite: bool,
    overrides: list[str],
    *,
    longer: bool,
) -> None:
    check_json(json, overwrite)
    check_there(data, inception)
    changes = measuring.changes()
    from vadd.studies.images import bits_table, fid_table
    from vadd.studies.images import reproduce_cifar10 as run_cifar10

    comparison = run_cifar10(
        out,
        scale.value,
        Narrator(),
        longer=longer,
        data=data,
        inception=inception,
        overrides=overrides,
        changes=changes,
        fit=measuring.fits(scale),
    )
    show_comparison(comparison, [fid_table(comparison.reports), bits_table("cifar10", comparison.reports)], json)


@reproduce.command("recognition")
@grouped
def reproduce_recognition(
    *,
    overrides: OverridesArgument = None,
    out: OutOption = Path("runs/recognition"),
    scale: Annotated[
        Scale, typer.Option(help="small: digits, minutes per model; paper: the appendix's recipe for MNIST.")
    ] = Scale.small,
    data: DataOption = None,
    measuring: StudyOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """The paper's remark that a recognition model which does not see x_t collapses: with it and without, side by side.

    \b
    Examples:
      vadd reproduce recognition
      vadd reproduce recognition training.steps=500 --limit 100
    """
    check_json(json, overwrite)
    check_there(data)
    changes = measuring.changes()
    from vadd.report.tables import latent_table
    from vadd.studies.recognition import recognition_table
    from vadd.studies.recognition import reproduce_recognition as run_recognition

    comparison = run_recognition(
        out, scale.value, Narrator(), data=data, overrides=overrides or [], changes=changes, fit=measuring.fits(scale)
    )
    show_comparison(comparison, [recognition_table(comparison.reports), latent_table(comparison.reports)], json)


reproduce.command("baselines")(baselines)
reproduce.command("text")(of_text.text)
reproduce.command("lm1b")(of_text.lm1b)
reproduce.command("zero-shot")(of_text.zero_shot)
reproduce.command("speed")(of_text.speed)
reproduce.command("paper")(paper_command(lambda words: reproduce(words, standalone_mode=False)))
