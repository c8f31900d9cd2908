"""What a learned prior and a latent with one meaning are worth: quality and likelihood by number of steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vadd.core import Particles
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.metrics import Distance
from vadd.progress import Progress
from vadd.recipe import Recipe, load_recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, report_names
from vadd.runs.run import Run, load
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import ensure_trained

LatentData = Literal["digits", "mnist"]
RECIPES: dict[LatentData, tuple[str, str]] = {
    "digits": ("digits", "digits-shared"),
    "mnist": ("mnist-small", "mnist-shared"),
}
"""The paper's latent, and one with one meaning."""
STEPS = (1, 2, 5, 10, 20)
BOUND_STEPS = (1, 2, 5, 10)
SAMPLES: dict[LatentData, int] = {"digits": 5_000, "mnist": 10_000}


def reproduce_latents(
    data: LatentData,
    out: Path,
    progress: Progress,
    *,
    directory: Path | None = None,
    overrides: Sequence[str] = (),
    samples: int | None = None,
    limit: int = 500,
) -> Comparison:
    """MDLM, the paper's latent and a shared one; each latent with N(0, I) and with a flow prior, fresh z and one z."""
    return compare(
        _rows(data, out, directory, overrides),
        out,
        steps=STEPS,
        samples=samples or SAMPLES[data],
        bounds=BoundSettings(Particles(64), steps=BOUND_STEPS, limit=limit),
        title=f"A learned prior and a latent with one meaning: {data}",
        introduction=(
            "The same network, batches and optimiser for all rows; the seconds that the steps took are stated, the fit "
            "of the prior not included. Fresh z: a new one at each step, as in the paper. One z: the same for all "
            "steps. Flow prior: fitted afterwards to what the recognition model writes. Bounds are those of the very "
            "sampler of the row."
        ),
        commands=[f"vadd reproduce latents --on {data}"],
        first_sections=lambda reports: [PageSection("Side by side", tables=[latents_table(reports)])],
        progress=progress,
    )


def _rows(data: LatentData, out: Path, directory: Path | None, overrides: Sequence[str]) -> list[Run]:
    per_state, shared = RECIPES[data]
    place = [] if directory is None else [f"data.directory={directory.resolve()}"]

    def recipe(name: str, *more: str) -> Recipe:
        return load_recipe(name).with_overrides([*place, *more, *overrides])

    mdlm = ensure_trained(recipe(per_state, "model=mdlm"), out / f"{per_state}-mdlm")
    latents = [recipe(per_state, "latent.prior=flow"), recipe(shared)]
    paths = [out / f"{each.name}-{each.model}" for each in latents]
    rows = [mdlm]
    for each, path in zip(latents, paths, strict=True):
        fitted = ensure_trained(each, path)
        trained = load(path, prior="trained")
        if each.latent.kind == "per-state":
            rows.append(trained.with_sampling(latent_policy="resample"))
        rows += [trained.with_sampling(latent_policy="fixed"), fitted]
    return rows


def latents_table(reports: Sequence[RunReport]) -> Table:
    """Distances of samples and bits per dimension, a row for each way to draw z."""
    steps = [result.steps for result in reports[0].results]
    bounded = [] if reports[0].likelihood is None else [bound.steps for bound in reports[0].likelihood.bounds]
    rows: list[list[Cell]] = []
    for name, report in zip(report_names(reports), reports, strict=True):
        metrics = [result.metrics for result in report.results]
        distances = [_rounded(found.value) if isinstance(found, Distance) else None for found in metrics]
        bits = [] if report.likelihood is None else [_rounded(bound.bpd) for bound in report.likelihood.bounds]
        seconds = None if report.training_seconds is None else f"{report.training_seconds:.0f}"
        rows.append([name, seconds, *distances, *bits])
    columns = ["", "s", *(f"T = {count}" for count in steps), *(f"bits, T = {count}" for count in bounded)]
    note = "Distance of the samples from the data, then bits per dimension by step bound, for the sampler of the row."
    return Table("Ways to draw z", columns, rows, note)


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
