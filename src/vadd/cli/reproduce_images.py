"""The studies of ``vadd reproduce`` that are about images."""

from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import Narrator
from vadd.cli.options import check_there, grouped
from vadd.cli.study_options import DataStudyOptions, OutOption, Scale

InceptionOption = Annotated[
    Path | None, typer.Option(help="The TorchScript InceptionV3 for FID; by default fetched.", show_default=False)
]


@grouped
def mnist(
    *,
    out: OutOption = Path("runs/mnist"),
    scale: Annotated[
        Scale,
        typer.Option(help="small: twenty minutes per model; paper: the appendix's UNet, 200,000 iterations."),
    ] = Scale.small,
    study: DataStudyOptions,
) -> None:
    """Binarized MNIST: both models, Frechet distances, bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued.

    \b
    Examples:
      vadd data mnist && vadd reproduce mnist
      vadd reproduce mnist --scale paper --out runs/mnist-paper
      vadd reproduce mnist --scale paper training.precision=bfloat16 training.accumulate=8
    """
    settings = study.settings(scale)
    from vadd.report.tables import divergence_table
    from vadd.studies.images import bits_table, reproduce_mnist

    comparison = reproduce_mnist(out, scale.value, Narrator(), **settings)
    tables = [divergence_table(comparison.reports), bits_table("mnist", comparison.reports)]
    show_comparison(comparison, tables, study.json)


@grouped
def cifar10(
    *,
    out: OutOption = Path("runs/cifar10"),
    scale: Annotated[
        Scale, typer.Option(help="small: minutes per model, 8 values per channel; paper: 1M iterations.")
    ] = Scale.small,
    inception: InceptionOption = None,
    study: DataStudyOptions,
) -> None:
    """CIFAR-10: both models, FID by number of steps and bits per dimension beside the paper's, samples by steps.

    Finished trainings are kept and interrupted ones continued. FID takes a fifth of a second an image on one core.

    \b
    Examples:
      vadd data cifar10 && vadd reproduce cifar10
      vadd reproduce cifar10 --steps 1,5,20 --samples 2000
      vadd reproduce cifar10 --scale paper --out runs/cifar10-paper
    """
    _cifar10(out, scale, inception, study, longer=False)


@grouped
def cifar10_2m(
    *,
    out: OutOption = Path("runs/cifar10-2m"),
    scale: Annotated[
        Scale, typer.Option(help="small: twice the steps of `cifar10`; paper: 2M iterations, KL warm-up 100,000.")
    ] = Scale.small,
    inception: InceptionOption = None,
    study: DataStudyOptions,
) -> None:
    """CIFAR-10 for the 2M iterations after which the paper reports bits per dimension.

    \b
    Examples:
      vadd reproduce cifar10-2m --scale paper --out runs/cifar10-2m-paper
    """
    _cifar10(out, scale, inception, study, longer=True)


def _cifar10(out: Path, scale: Scale, inception: Path | None, study: DataStudyOptions, *, longer: bool) -> None:
    check_there(inception)
    settings = study.settings(scale)
    from vadd.studies.images import bits_table, fid_table, reproduce_cifar10

    comparison = reproduce_cifar10(out, scale.value, Narrator(), longer=longer, inception=inception, **settings)
    tables = [fid_table(comparison.reports), bits_table("cifar10", comparison.reports)]
    show_comparison(comparison, tables, study.json)
