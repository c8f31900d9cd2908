"""Every model of the zoo on the same data, network and processor time: quality against what a sample costs.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures/quality.png, and a run for each model
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.judges import Judge, choose_judge
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.metrics import Distance, Metrics, TextMetrics
from vadd.files import write_json
from vadd.generation.options import possible_steps
from vadd.progress import Progress, named
from vadd.recipe import MODELS, load_recipe, suggestion
from vadd.report.cost_figure import CostPoint, quality_by_cost
from vadd.report.figures import save_figure
from vadd.report.page import PageSection, write_page
from vadd.report.tables import Cell, Table, model_label
from vadd.runs.run import Run, load
from vadd.studies.equal_time import trained_for
from vadd.studies.paper import TOYS

BaselineData = Literal["toys", "digits", "mnist", "text"]


@dataclass(frozen=True)
class Setting:
    """What is compared on one kind of data."""

    recipe: str
    minutes: float
    """Processor time of each training."""
    samples: int
    steps: tuple[int, ...]
    limit: int
    """Held-out examples whose likelihood is bounded."""
    particles: int = 64
    candidates: int = 8
    """Of the energy's rows."""


SETTINGS: dict[BaselineData, Setting] = {
    "toys": Setting("checkerboard", 1.5, 20_000, (1, 2, 5, 20), 500),
    "digits": Setting("digits", 2.0, 2_000, (1, 2, 5, 20), 200),
    "mnist": Setting("mnist-small", 3.0, 1_000, (1, 5, 20), 50, particles=16),
    "text": Setting("text8-small", 3.0, 64, (1, 4, 16, 64), 32, particles=16),
}
TRAINED = tuple(name for name in MODELS if name != "edlm")
"""EDLM is two of these together."""


@dataclass(frozen=True)
class Row:
    """What one model costs and gives with one number of sampling steps."""

    model: str
    name: str
    steps: int
    evaluations: float
    """Calls of the network for a chunk of samples."""
    sequences: float
    """Sequences shown to networks, for each sample."""
    seconds: float
    """Of processor time, for each sample."""
    metrics: dict[str, Any]
    quality: float | None
    nats: float | None
    """The step bound (AR: the exact value) of held-out examples."""
    nats_stderr: float | None
    bound_valid: bool | None
    training_steps: int
    exact_sampler: bool


@dataclass(frozen=True)
class Baselines:
    rows: list[Row]
    page: Path


def reproduce_baselines(
    data: BaselineData,
    out: Path,
    progress: Progress,
    *,
    models: Sequence[str] = (),
    minutes: float | None = None,
    overrides: Sequence[str] = (),
    samples: int | None = None,
    language: LanguageJudge | None = None,
) -> Baselines:
    """Train what is missing of the ``models`` (by default all), then sample and judge each at every number of steps.

    Where AR and MDLM or VADD are among them, the masked ones are also weighed by the energy of AR (EDLM).
    """
    setting = SETTINGS[data]
    for name in models:
        if name not in TRAINED:
            raise UserError(f"unknown model {name!r}{suggestion(name, TRAINED)}; choose from {', '.join(TRAINED)}")
    seconds = 60 * (setting.minutes if minutes is None else minutes)
    runs: dict[str, Run] = {}
    for name in models or TRAINED:
        recipe = load_recipe(setting.recipe).with_overrides([f"model={name}", *overrides])
        runs[model_label(name)] = trained_for(recipe, seconds, out / f"{setting.recipe}-{name}", progress)
    runs |= _weighed(runs, setting.candidates)
    rows: list[Row] = []
    judge: Judge | None = None
    for name, run in runs.items():
        told = named(progress, name)
        judge = judge or choose_judge(run, samples or setting.samples, 0, None, told, language)
        for steps in possible_steps(run.model, run.recipe.sampling, setting.steps):
            rows.append(_row(name, run, steps, judge, setting, told))
            write_json(out / "results.json", [asdict(row) for row in rows])
    return Baselines(rows, _write(data, out, rows, seconds))


def _weighed(runs: dict[str, Run], candidates: int) -> dict[str, Run]:
    """Masked runs with the autoregressive one as their energy."""
    energy = runs.get(model_label("ar"))
    bases = [name for name in ("mdlm", "vadd") if model_label(name) in runs]
    if energy is None:
        return {}
    return {
        f"EDLM on {model_label(name)}, k = {candidates}": runs[model_label(name)].with_energy(
            load(energy.directory.path), candidates
        )
        for name in bases
    }


def _row(name: str, run: Run, steps: int, judge: Judge, setting: Setting, progress: Progress) -> Row:
    began = time.process_time()
    parts = list(run.stream(judge.samples, steps=steps, seed=0, progress=progress))
    seconds = (time.process_time() - began) / judge.samples
    metrics = judge(torch.cat([part.tokens for part in parts]).numpy(), steps)
    settings = BoundSettings(Particles(setting.particles), steps=[steps], limit=setting.limit)
    (bound,) = measure_bounds(run, run.data.test, settings, progress).bounds
    return Row(
        model=run.recipe.model,
        name=name,
        steps=steps,
        evaluations=sum(part.evaluations for part in parts) / len(parts),
        sequences=sum(part.sequences for part in parts) / judge.samples,
        seconds=seconds,
        metrics=metrics.to_json(),
        quality=quality_of(metrics),
        nats=bound.nats,
        nats_stderr=bound.stderr,
        bound_valid=bound.valid,
        training_steps=run.recipe.training.steps,
        exact_sampler=run.model.ancestral.exact,
    )


def quality_of(metrics: Metrics) -> float | None:
    """The number that figures show; smaller is better."""
    if isinstance(metrics, TextMetrics):
        return metrics.judge_bits
    return metrics.value if isinstance(metrics, Distance) else None


def baselines_table(rows: Sequence[Row]) -> Table:
    fewest = [row for row in rows if row.model == "mdlm"]
    unit = fewest[0].seconds if fewest else rows[0].seconds
    what = f"{model_label('mdlm')}'s, {fewest[0].steps} step" if fewest else "the first row's"
    cells: list[list[Cell]] = [
        [
            row.name,
            row.training_steps,
            row.steps,
            f"{row.evaluations:.0f}",
            f"{row.sequences:.1f}",
            f"{row.seconds / unit:.1f}",
            None if row.quality is None else f"{row.quality:.3g}",
            None if row.nats is None else f"{row.nats:.2f} ± {row.nats_stderr or 0:.2f}",
            _kind(row),
        ]
        for row in rows
    ]
    columns = ["here", "training steps", "T", "evaluations", "sequences", "time", "distance", "nats", "which is"]
    note = (
        "All trained here for the same processor time, on the same data. T: sampling steps. Evaluations: calls of the "
        "network for a chunk of samples; sequences: shown to networks for each sample, the energy's included; time: "
        f"processor time of a sample over {what}. Distance of the samples from the data, smaller is better. Nats: of "
        "held-out examples, with one standard error."
    )
    return Table("Every model at equal training time", columns, cells, note)


def _kind(row: Row) -> str:
    if row.model == "ar":
        return "exact"
    return "a bound" if row.bound_valid else "a bound of the proposal, not of this sampler"


def quoted_table() -> Table:
    """What the paper reports on the checkerboard, apart from what was measured here."""
    rows: list[list[Cell]] = [
        [f"{model_label(model)}, the paper", numbers.js_1, numbers.js_5, numbers.nll]
        for (toy, model), numbers in TOYS.items()
        if toy == "checkerboard"
    ]
    note = "The paper's training takes 195,312 iterations; its NLL is not a likelihood bound for VADD."
    return Table("The paper, checkerboard", ["paper", "JS, T = 1", "JS, T = 5", "NLL"], rows, note)


def _write(data: BaselineData, out: Path, rows: Sequence[Row], seconds: float) -> Path:
    points = [CostPoint(row.name, row.sequences, row.quality) for row in rows if row.quality is not None]
    figures = []
    if points:
        figure = quality_by_cost(points, "distance of the samples from the data" if data != "text" else "judge's bits")
        figures.append(("Quality against cost", save_figure(figure, out / "figures" / "quality.png")))
    tables = [baselines_table(rows), *([quoted_table()] if data == "toys" else [])]
    (out / "tables.md").write_text("\n".join(table.to_markdown() for table in tables))
    introduction = (
        f"Every model learned the same examples for {seconds / 60:.1f} minutes of processor time. The likelihood of AR "
        "is exact; all others are bounds for the sampler with T steps, and those of EDLM are its proposal's."
    )
    section = PageSection(
        "Side by side", figures=figures, tables=tables, commands=[f"vadd reproduce baselines --data {data}"]
    )
    return write_page(out / "report.html", f"The zoo on {data}", introduction, [section])
