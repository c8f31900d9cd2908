"""``vadd reproduce``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.judging import JudgeOptions
from vadd.cli.options import JsonOption, check_json, check_there, grouped, parse_steps
from vadd.errors import UserError

reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


class ToyScale(StrEnum):
    cpu = "cpu"
    paper = "paper"


class Scale(StrEnum):
    small = "small"
    paper = "paper"


OutOption = Annotated[Path, typer.Option("--out", help="Where the runs and the report go.")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Where the data set lies; by default where `vadd data` puts it.", show_default=False),
]


@reproduce.command("toys")
def reproduce_toys(
    out: OutOption = Path("runs/toys"),
    scale: Annotated[
        ToyScale, typer.Option(help="cpu: minutes per model; paper: the appendix's 195,312 iterations.")
    ] = ToyScale.cpu,
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
    show_comparison(comparison, [paper_table(comparison.reports)], json)


@reproduce.command("validity")
def reproduce_validity(
    out: OutOption = Path("runs/validity"),
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
    show_comparison(comparison, [bound_table(comparison.reports)], json)


@reproduce.command("mnist")
def reproduce_mnist(
    out: OutOption = Path("runs/mnist"),
    scale: Annotated[
        Scale,
        typer.Option(help="small: twenty minutes per model; paper: the appendix's UNet, 200,000 iterations."),
    ] = Scale.small,
    data: DataOption = None,
    json: JsonOption = None,
) -> None:
    """Binarized MNIST: both models, Frechet distances, bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd data mnist && vadd reproduce mnist
      vadd reproduce mnist --scale paper --out runs/mnist-paper
    """
    check_json(json)
    from vadd.report.tables import divergence_table
    from vadd.studies.images import bits_table
    from vadd.studies.images import reproduce_mnist as run_mnist

    comparison = run_mnist(out, scale.value, Narrator(), data=data)
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
) -> None:
    """What a learned prior and a latent with one meaning are worth, beside the paper's latent and MDLM, by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd reproduce latents
      vadd data mnist && vadd reproduce latents --on mnist --out runs/latents-mnist
      vadd reproduce latents --on text8 --judge judge.gguf --out runs/latents-text
    """
    check_json(json)
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
    )
    show_comparison(comparison, [latents_table(comparison.reports)], json)


@reproduce.command("cifar10")
def reproduce_cifar10(
    out: OutOption = Path("runs/cifar10"),
    scale: Annotated[
        Scale, typer.Option(help="small: minutes per model, 8 values per channel; paper: 1M iterations.")
    ] = Scale.small,
    data: DataOption = None,
    inception: Annotated[
        Path | None, typer.Option(help="The TorchScript InceptionV3 for FID; by default fetched.", show_default=False)
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Numbers of steps to take the FID at. [default: 1,10,50; paper: 10,...,100]")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=2, help="Images for each FID. [default: 1000; paper: 50000]", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """CIFAR-10: both models, FID by number of steps and bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued. FID takes a fifth of a second an image on one core.

    \b
    Examples:
      vadd data cifar10 && vadd reproduce cifar10
      vadd reproduce cifar10 --steps 1,5,20 --samples 2000
      vadd reproduce cifar10 --scale paper --out runs/cifar10-paper
    """
    check_json(json)
    counts = None if steps is None else parse_steps(steps)
    from vadd.studies.images import fid_table
    from vadd.studies.images import reproduce_cifar10 as run_cifar10

    comparison = run_cifar10(
        out, scale.value, Narrator(), data=data, inception=inception, steps=counts, samples=samples
    )
    show_comparison(comparison, [fid_table(comparison.reports)], json)


@reproduce.command("text")
@grouped
def reproduce_text(
    *,
    out: OutOption = Path("runs/text"),
    scale: Annotated[
        Scale, typer.Option(help="small: text8-small, for a CPU; paper: openwebtext, 1M iterations on GPUs.")
    ] = Scale.small,
    recipe: Annotated[
        str | None, typer.Option(help="Another recipe for text, like pydocs or lm1b.", show_default=False)
    ] = None,
    data: DataOption = None,
    judging: JudgeOptions,
    steps: Annotated[
        str | None, typer.Option(help="Numbers of sampling steps. [default: 1,2,...,32; paper: 16,32,...,1024]")
    ] = None,
    samples: Annotated[int, typer.Option(min=2, help="Texts for each number of steps.")] = 256,
    json: JsonOption = None,
) -> None:
    """Text: both models, bounds, generative perplexity with entropy by steps and their ratio, samples side by side.

    Finished trainings are kept and interrupted ones continued, and no text is judged twice.

    \b
    Examples:
      vadd reproduce text --judge gpt2-large
      vadd reproduce text --recipe pydocs --steps 1,4,16 --samples 64
      vadd reproduce text --scale paper --judge gpt2-large --out runs/openwebtext
    """
    check_json(json)
    counts = None if steps is None else parse_steps(steps)
    from vadd.report.text_tables import text_table
    from vadd.studies.text import bits_table, ratio_table
    from vadd.studies.text import reproduce_text as run_text

    narrator = Narrator()
    comparison = run_text(
        out,
        scale.value,
        narrator,
        recipe=recipe,
        data=data,
        language=judging.open((), narrator),
        steps=counts,
        samples=samples,
    )
    ratios = [] if judging.judge is None else [ratio_table(comparison.reports)]
    show_comparison(comparison, [text_table(comparison.reports), *ratios, bits_table(comparison.reports)], json)
