"""What a learned prior and a latent with one meaning are worth: quality and likelihood by number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vadd.core import Particles
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.metrics import Distance, TextMetrics
from vadd.progress import Progress
from vadd.recipe import Recipe, load_recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, report_names
from vadd.run.run import Run, load
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import COMPARED, check_overrides, ensure_trained
from vadd.studies.measuring import command_line

LatentData = Literal["digits", "mnist", "cifar10", "text8"]


@dataclass(frozen=True)
class Rows:
    """The recipes that are compared, and how many steps each takes for one of the shared latent's, so that all rows
    train for the same time, the fit of the prior included.
    """

    per_state: str
    shared: str
    mdlm_steps: float
    """Its steps are cheaper, and it has no prior to fit."""
    per_state_steps: float
    samples: int
    steps: tuple[int, ...] = (1, 2, 5, 10, 20)
    bound_steps: tuple[int, ...] = (1, 2, 5, 10)
    particles: int = 64


ROWS: dict[LatentData, Rows] = {
    "digits": Rows("digits-per-state", "digits", mdlm_steps=2.4, per_state_steps=1.13, samples=5_000),
    "mnist": Rows("mnist-per-state", "mnist-small", mdlm_steps=1.17, per_state_steps=0.85, samples=10_000),
    "cifar10": Rows("cifar10-per-state", "cifar10-small", mdlm_steps=1.2, per_state_steps=1.0, samples=1_000),
    "text8": Rows(
        "text8-per-state",
        "text8-small",
        mdlm_steps=1.25,
        per_state_steps=1.1,
        samples=256,
        steps=(1, 2, 4, 8, 16, 32),
        bound_steps=(1, 2, 4, 8),
    ),
}
"""Ratios of processor time for one step, measured on one core, and the fit's share of the whole."""


def reproduce_latents(
    data: LatentData,
    out: Path,
    progress: Progress,
    *,
    place: Path | None = None,
    control: bool = False,
    inception: Path | None = None,
    language: LanguageJudge | None = None,
    overrides: Sequence[str] = (),
    samples: int | None = None,
    limit: int | None = None,
) -> Comparison:
    """MDLM, the paper's latent and a shared one; each latent with N(0, I) and with a flow prior, fresh z and one z.

    ``place`` is where the data lie. ``control`` adds the paper's latent with the masks of the shared one. ``inception``
    judges images by FID, ``language`` reads texts.
    """
    rows = ROWS[data]
    return compare(
        _runs(data, out, place, control, overrides),
        out,
        steps=rows.steps,
        samples=samples or rows.samples,
        bounds=BoundSettings(
            Particles(rows.particles), steps=rows.bound_steps, limit=limit or (128 if data == "text8" else 500)
        ),
        inception=inception,
        language=language,
        title=f"A learned prior and a latent with one meaning: {data}",
        introduction=(
            "The same network, batches and optimiser for all rows, and about the same time: the seconds that the steps "
            "and the fit of the prior took are stated. Fresh z: a new one at each step, as in the paper. One z: the "
            "same for all steps. Flow prior: fitted afterwards to what the recognition model writes. Bounds are those "
            "of the very sampler of the row."
        ),
        commands=[command_line("latents", overrides=overrides, on=data, control=control)],
        first_sections=lambda reports: [PageSection("Side by side", tables=[latents_table(reports)])],
        progress=progress,
    )


def _runs(data: LatentData, out: Path, place: Path | None, control: bool, overrides: Sequence[str]) -> list[Run]:
    rows = ROWS[data]
    key = "data.path" if data == "text8" else "data.directory"
    where = [] if place is None else [f"{key}={place.resolve()}"]
    shared = load_recipe(rows.shared)
    steps = shared.training.steps
    flow = ["latent.prior=flow", *(f"latent.flow.{name}={value}" for name, value in shared.latent.flow)]

    def recipe(name: str, longer: float, *more: str) -> Recipe:
        return load_recipe(name).with_overrides([f"training.steps={round(longer * steps)}", *where, *more, *overrides])

    check_overrides(overrides, (*COMPARED, "latent.kind"))
    mdlm = recipe(rows.per_state, rows.mdlm_steps, "model=mdlm")
    latents = [recipe(rows.per_state, rows.per_state_steps, *flow), recipe(rows.shared, 1.0)]
    if control:
        masks = [f"name={rows.per_state}-few-step-masks", "diffusion.mask_draw=steps"]
        latents.insert(1, recipe(rows.per_state, rows.per_state_steps, *masks, *flow))
    runs = [ensure_trained(mdlm, out / f"{rows.per_state}-mdlm")]
    for each in latents:
        path = out / f"{each.name}-{each.model}"
        fitted = ensure_trained(each, path)
        trained = load(path, prior="trained")
        if each.latent.kind == "per-state":
            runs.append(trained.with_sampling(latent_policy="resample"))
        runs += [trained.with_sampling(latent_policy="fixed"), fitted]
    return runs


def latents_table(reports: Sequence[RunReport]) -> Table:
    """Distances of samples (of texts the judge's bits per character) and bits, a row for each way to draw z."""
    steps = [result.steps for result in reports[0].results]
    bounded = [] if reports[0].likelihood is None else [bound.steps for bound in reports[0].likelihood.bounds]
    rows: list[list[Cell]] = []
    for name, report in zip(report_names(reports), reports, strict=True):
        quality = [_rounded(_quality(result.metrics)) for result in report.results]
        bits = [] if report.likelihood is None else [_rounded(bound.bpd) for bound in report.likelihood.bounds]
        rows.append([name, _seconds(report), *quality, *bits])
    columns = ["", "s", *(f"T = {count}" for count in steps), *(f"bits, T = {count}" for count in bounded)]
    note = (
        "Seconds of training, and of fitting the prior. Distance of the samples from the data (of texts the judge's "
        "bits per character), then bits per dimension by step bound, for the sampler of the row."
    )
    return Table("Ways to draw z", columns, rows, note)


def _quality(metrics: object) -> float | None:
    if isinstance(metrics, TextMetrics):
        return metrics.judge_bits
    return metrics.value if isinstance(metrics, Distance) else None


def _seconds(report: RunReport) -> str | None:
    if report.training_seconds is None:
        return None
    fit = "" if report.prior_seconds is None else f" + {report.prior_seconds:.0f}"
    return f"{report.training_seconds:.0f}{fit}"


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
