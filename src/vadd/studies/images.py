"""The paper's image experiments (its section 5.2): bits per dimension, Frechet distances by steps, samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vadd.evaluation import RunReport
from vadd.evaluation.inception import fetch_inception, load_network
from vadd.evaluation.metrics import InceptionDistance
from vadd.progress import Progress
from vadd.recipe import Recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, model_label
from vadd.studies.beside import BITS, kinship_notes, likelihood_table, other_data_notes
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_all_trained, one_latent_beside
from vadd.studies.measuring import Changes, Measuring, Scale, as_the_paper, command_line
from vadd.studies.paper import BITS_PER_DIMENSION, CIFAR10_FID, DDPM_FID, FID_IMAGES

MNIST_STEPS, FID_STEPS = (1, 2, 5, 10, 20), (10, 20, 30, 40, 50, 100)
MNIST: dict[Scale, Measuring] = {
    "small": Measuring(steps=MNIST_STEPS, samples=10_000, bound_steps=(1, 2, 5, 10), particles=64, draws=10, limit=500),
    "paper": as_the_paper(MNIST_STEPS, 10_000, (1, 2, 5, 10)),
}
CIFAR10: dict[Scale, Measuring] = {
    "small": Measuring(steps=(1, 10, 50), samples=1000, bound_steps=(1, 10), particles=16, draws=5, limit=200),
    "paper": as_the_paper(FID_STEPS, FID_IMAGES, (1, 10)),
}
BITS_TITLE = "Bits per dimension of held-out images"
BITS_ITERATIONS = 2_000_000
"""Of the paper's bits per dimension on CIFAR-10; its FID is after half as many."""


def recipe_name(data: str, scale: Scale) -> str:
    return data if scale == "paper" else f"{data}-per-state"


def reproduce_mnist(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    data: Path | None = None,
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """Binarized MNIST: both models, Frechet distance in a classifier's features, bounds and the paper's DELBO."""
    name, measuring = recipe_name("mnist", scale), MNIST[scale].changed(changes or {})
    recipes = _recipes(name, data, overrides)
    runs = ensure_all_trained([(recipe, out / f"{name}-{recipe.model}") for recipe in recipes], fit=fit)
    runs += one_latent_beside(runs[-1])
    return compare(
        runs,
        out,
        steps=measuring.steps,
        samples=measuring.samples,
        bounds=measuring.bounds(),
        title="Binarized MNIST: MDLM and VADD beside the paper",
        introduction=(
            "Both models learn 60,000 digits of 32 x 32 pixels with the same network, batches and steps. The Frechet "
            "distance is taken in the features of a small classifier trained on MNIST; it is not FID. VADD is sampled "
            "in two ways: with a new latent at each step, as in the paper, and with one latent for all steps ('one z')."
        ),
        commands=[command_line("mnist", scale, overrides, changes)],
        first_sections=lambda reports: [PageSection("Beside the paper", tables=[bits_table("mnist", reports)])],
        progress=progress,
    )


def reproduce_cifar10(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    longer: bool = False,
    data: Path | None = None,
    inception: Path | None = None,
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """CIFAR-10: both models, FID by number of steps, bounds and the paper's DELBO. ``longer`` trains for 2M iterations
    as the paper does for its bits per dimension, of the small recipe for twice as many.
    """
    study = "cifar10-2m" if longer else "cifar10"
    name, measuring = recipe_name(study, scale), CIFAR10[scale].changed(changes or {})
    recipes = _recipes(name, data, overrides)
    if inception is None:
        progress("the Inception network")
        inception = fetch_inception()
    load_network(inception, trust=False)  # what cannot be read is told before anything is trained
    runs = ensure_all_trained([(recipe, out / f"{name}-{recipe.model}") for recipe in recipes], fit=fit)
    levels = runs[0].data.vocab_size
    return compare(
        runs,
        out,
        steps=measuring.steps,
        samples=measuring.samples,
        bounds=measuring.bounds(),
        inception=inception,
        title="CIFAR-10: MDLM and VADD beside the paper",
        introduction=(
            f"Both models learn CIFAR-10 with {levels} values per channel, with the same network, batches and steps. "
            "FID by the clean-fid protocol; it depends strongly on the number of images, so only columns with the "
            "same number compare."
        ),
        commands=[command_line(study, scale, overrides, changes)],
        first_sections=lambda reports: [
            PageSection("Beside the paper", tables=[fid_table(reports), bits_table("cifar10", reports)])
        ],
        progress=progress,
    )


def _recipes(name: str, data: Path | None, overrides: Sequence[str]) -> list[Recipe]:
    place = [] if data is None else [f"data.directory={data.resolve()}"]
    return both_models(name, [*place, *overrides])


def bits_table(data: str, reports: Sequence[RunReport]) -> Table:
    """The paper's table of bits per dimension: parameters, every number under its own name."""
    table = likelihood_table(
        BITS_TITLE,
        reports,
        BITS,
        BITS_PER_DIMENSION[data],
        detail=("parameters", lambda report: millions(report.parameters)),
    )
    notes = [table.note, "Parameters are those of the denoiser, all that sampling uses."]
    notes += _shorter(reports) + _few_levels(reports) if data == "cifar10" else other_data_notes(reports)
    return Table(table.title, table.columns, table.rows, " ".join(notes))


def millions(count: int | None) -> str | None:
    return None if count is None else f"{count / 1e6:.3g}M"


def _shorter(reports: Sequence[RunReport]) -> list[str]:
    steps = sorted({report.training_steps for report in reports if report.training_steps is not None})
    if steps == [BITS_ITERATIONS]:
        return []
    listed = " and ".join(f"{count:,}" for count in steps)
    return [
        f"The paper's bits are after {BITS_ITERATIONS:,} iterations, ours after {listed}: `vadd reproduce cifar10-2m "
        "--scale paper` trains as long."
    ]


def _few_levels(reports: Sequence[RunReport]) -> list[str]:
    levels = reports[0].vocab_size
    if levels == 256:
        return []
    return [f"The paper's images have 256 values per channel, these {levels}: its numbers do not compare."]


def fid_table(reports: Sequence[RunReport]) -> Table:
    found = [report.by_steps(InceptionDistance) for report in reports]
    steps = sorted({count for by_steps in found for count in by_steps})
    published: Mapping[str, Mapping[int, float]] = CIFAR10_FID
    rows: list[list[Cell]] = []
    for report, by_steps in zip(reports, found, strict=True):
        name = model_label(report.model)
        ours = [by_steps[count].fid if count in by_steps else None for count in steps]
        rows.append([f"{name}, {report.samples} images", *ours])
        rows.append(
            [f"{name}, the paper, {FID_IMAGES} images", *(published[report.model].get(count) for count in steps)]
        )
    rows.append([f"DDPM, the paper, {FID_IMAGES} images", *(DDPM_FID.get(count) for count in steps)])
    floor = next(iter(found[0].values())).floor
    note = f"Floor, as many test images against the training images: {floor:.2f}."
    columns = ["", *(f"T = {count}" for count in steps)]
    return Table(
        "FID by number of steps", columns, rows, " ".join([note, *_few_levels(reports), *kinship_notes(reports)])
    )
