"""The paper's image experiments (its section 5.2): bits per dimension, Frechet distances by steps, samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from vadd.core import Particles
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.inception import fetch_inception
from vadd.evaluation.metrics import InceptionDistance
from vadd.progress import Progress
from vadd.recipe import Recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, model_label
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_trained
from vadd.studies.paper import BITS_PER_DIMENSION, CIFAR10_FID

Scale = Literal["small", "paper"]
MNIST_STEPS = (1, 2, 5, 10, 20)
SAMPLES = 10_000
CIFAR10_STEPS: dict[Scale, tuple[int, ...]] = {"small": (1, 10, 50), "paper": (10, 20, 30, 40, 50, 100)}
CIFAR10_SAMPLES: dict[Scale, int] = {"small": 1000, "paper": 50_000}


def recipe_name(data: str, scale: Scale) -> str:
    return data if scale == "paper" else f"{data}-small"


def reproduce_mnist(
    out: Path, scale: Scale, progress: Progress, *, data: Path | None = None, overrides: Sequence[str] = ()
) -> Comparison:
    """Binarized MNIST: both models, Frechet distance in a classifier's features, bounds and the paper's DELBO."""
    name = recipe_name("mnist", scale)
    runs = [ensure_trained(recipe, out / f"{name}-{recipe.model}") for recipe in _recipes(name, data, overrides)]
    runs.append(runs[-1].with_sampling(latent_policy="fixed"))
    return compare(
        runs,
        out,
        steps=MNIST_STEPS,
        samples=SAMPLES,
        bounds=BoundSettings(Particles(64), steps=(1, 2, 5, 10), delbo_draws=10, limit=500),
        title="Binarized MNIST: MDLM and VADD beside the paper",
        introduction=(
            "Both models learn 60,000 digits of 32 x 32 pixels with the same network, batches and steps. The Frechet "
            "distance is taken in the features of a small classifier trained on MNIST; it is not FID. VADD is sampled "
            "in two ways: with a new latent at each step, as in the paper, and with one latent for all steps ('one z')."
        ),
        commands=[_command("mnist", scale)],
        first_sections=lambda reports: [PageSection("Beside the paper", tables=[bits_table("mnist", reports)])],
        progress=progress,
    )


def reproduce_cifar10(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    data: Path | None = None,
    inception: Path | None = None,
    steps: Sequence[int] | None = None,
    samples: int | None = None,
    overrides: Sequence[str] = (),
) -> Comparison:
    """CIFAR-10: both models, FID by number of steps, bounds and the paper's DELBO."""
    name = recipe_name("cifar10", scale)
    runs = [ensure_trained(recipe, out / f"{name}-{recipe.model}") for recipe in _recipes(name, data, overrides)]
    if inception is None:
        progress("the Inception network")
        inception = fetch_inception()
    levels = runs[0].data.vocab_size
    return compare(
        runs,
        out,
        steps=steps or CIFAR10_STEPS[scale],
        samples=samples or CIFAR10_SAMPLES[scale],
        bounds=BoundSettings(Particles(16), steps=(1, 10), delbo_draws=5, limit=200),
        inception=inception,
        title="CIFAR-10: MDLM and VADD beside the paper",
        introduction=(
            f"Both models learn CIFAR-10 with {levels} values per channel, with the same network, batches and steps. "
            "FID by the clean-fid protocol; it depends strongly on the number of images, so only columns with the "
            "same number compare."
        ),
        commands=[_command("cifar10", scale)],
        first_sections=lambda reports: [
            PageSection("Beside the paper", tables=[fid_table(reports), bits_table("cifar10", reports)])
        ],
        progress=progress,
    )


def _recipes(name: str, data: Path | None, overrides: Sequence[str]) -> list[Recipe]:
    place = [] if data is None else [f"data.directory={data.resolve()}"]
    return both_models(name, [*place, *overrides])


def _command(data: str, scale: Scale) -> str:
    return f"vadd reproduce {data}" + (" --scale paper" if scale == "paper" else "")


def bits_table(data: str, reports: Sequence[RunReport]) -> Table:
    """Bits per dimension: every number under its own name, the paper's beside the one it compares with."""
    measured = [(r.model, r.likelihood) for r in reports if r.likelihood is not None and not r.one_latent]
    rows: list[list[Cell]] = []
    for model, likelihood in measured:
        integral = likelihood.integral
        which = None if integral is None else f"{likelihood.formula}, {'a bound' if integral.valid else 'not a bound'}"
        bits = [None if found is None else found.bpd for found in (*likelihood.bounds, integral)]
        rows.append([model_label(model), *bits, BITS_PER_DIMENSION[data, model], which])
    steps = [bound.steps for bound in measured[0][1].bounds]
    return Table(
        "Bits per dimension of held-out images",
        ["", *(f"step bound, T = {count}" for count in steps), "the paper's formula", "paper", "which is"],
        rows,
        "Step bounds are valid for the sampler that takes T steps. The paper's formula is the ELBO for MDLM, valid for "
        "many steps, and the DELBO for VADD, which is not a likelihood bound: the two do not compare."
        + _few_levels(data, reports),
    )


def _few_levels(data: str, reports: Sequence[RunReport]) -> str:
    levels = reports[0].vocab_size
    if data == "cifar10" and levels != 256:
        return f" The paper's images have 256 values per channel, these {levels}: its numbers do not compare."
    return ""


def fid_table(reports: Sequence[RunReport]) -> Table:
    found = [report.by_steps(InceptionDistance) for report in reports]
    steps = sorted({count for by_steps in found for count in by_steps})
    published: Mapping[str, Mapping[int, float]] = CIFAR10_FID
    rows: list[list[Cell]] = []
    for report, by_steps in zip(reports, found, strict=True):
        name = model_label(report.model)
        ours = [by_steps[count].fid if count in by_steps else None for count in steps]
        rows.append([f"{name}, {report.samples} images", *ours])
        rows.append([f"{name}, the paper, 50000 images", *(published[report.model].get(count) for count in steps)])
    floor = next(iter(found[0].values())).floor
    note = f"Floor, as many test images against the training images: {floor:.2f}." + _few_levels("cifar10", reports)
    return Table("FID by number of steps", ["", *(f"T = {count}" for count in steps)], rows, note)
