"""Runs side by side: evaluate, draw, and write one report directory.

OUT/report.html      everything on one self-contained page
OUT/results.json     the numbers, a list with one entry per run
OUT/figures/*.png
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from vadd.evaluation import BoundSettings, Report, evaluate, histogram
from vadd.evaluation.evaluate import plural
from vadd.evaluation.progress import Progress, silent
from vadd.report.figures import (
    TRUTH_LABEL,
    Panel,
    bound_by_steps,
    divergence_by_steps,
    histogram_panels,
    label,
    save_figure,
    training_curves,
)
from vadd.report.page import Section, write_page
from vadd.report.tables import bound_table, divergence_table, latent_table
from vadd.run import Run


@dataclass(frozen=True)
class Comparison:
    reports: list[Report]
    page: Path


def write_json(path: Path, content: object) -> None:
    """Atomically, so that a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".partial")
    beside.write_text(json.dumps(content, indent=2) + "\n")
    beside.replace(path)


def compare(
    runs: Sequence[Run],
    out: Path,
    *,
    steps: Sequence[int],
    samples: int,
    bounds: BoundSettings | None = None,
    title: str,
    introduction: str,
    commands: Sequence[str] = (),
    first_sections: Callable[[list[Report]], Sequence[Section]] = lambda reports: (),
    progress: Progress = silent,
) -> Comparison:
    """Evaluate every run at every number of steps and write the report; a run's numbers are on disk once it is done."""
    reports: list[Report] = []
    panels: dict[str, list[Panel]] = {}
    for run in runs:
        evaluation = evaluate(run, steps, samples, bounds=bounds, progress=partial(_with_name, progress, run_name(run)))
        reports.append(evaluation.report)
        write_json(out / "results.json", reports)
        if evaluation.histograms:
            panels[run_name(run)] = [
                (TRUTH_LABEL, histogram(run.data.train.numpy(), run.data.values)),
                *((plural(count, "step"), drawn) for count, drawn in evaluation.histograms.items()),
            ]
    progress("the figures")
    figures: dict[str, tuple[str, Figure]] = {}
    if panels:
        figures["one-step"] = (
            "Samples at the fewest steps beside the data",
            histogram_panels(_fewest_steps(runs, panels)),
        )
        figures["by-steps"] = "Samples by number of steps", histogram_panels(panels)
    metric = "paper_js" if all("paper_js" in r for report in reports for r in report["results"]) else "pair_jsd"
    if all(metric in result for report in reports for result in report["results"]):
        figures["divergence"] = f"{metric} by number of steps", divergence_by_steps(reports, metric)
    if all(report.get("bounds") for report in reports):
        figures["bounds"] = "Likelihood bound by number of steps", bound_by_steps(reports)
    metrics = {run_name(run): list(run.directory.metrics()) for run in runs}
    figures["training"] = "Training curves", training_curves(metrics)
    for name, (_, figure) in figures.items():
        save_figure(figure, out / "figures" / f"{name}.png")
    sections = [
        *first_sections(reports),
        Section("Samples", figures=[figures[name] for name in ("one-step", "by-steps") if name in figures]),
        Section(
            "Distance from the data",
            tables=[divergence_table(reports)],
            figures=[figures[name] for name in ("divergence",) if name in figures],
            commands=commands,
        ),
        *([_likelihood_section(reports, figures["bounds"])] if "bounds" in figures else []),
        Section("Training", figures=[figures["training"]], text=TRAINING_NOTE),
    ]
    kept = [section for section in sections if section.figures or section.tables or section.text]
    return Comparison(reports, write_page(out / "report.html", title, introduction, kept))


def _likelihood_section(reports: Sequence[Report], figure: tuple[str, Figure]) -> Section:
    tables = [bound_table(reports), latent_table(reports)]
    return Section("Likelihood", text=LIKELIHOOD_NOTE, tables=tables, figures=[figure])


LIKELIHOOD_NOTE = (
    "Upper bounds of the negative log-likelihood of held-out examples under the very sampler that takes T steps. No "
    "distribution can score below the entropy of the data; what a model loses above it at few steps is the dependence "
    "between positions that it cannot draw together."
)

TRAINING_NOTE = (
    "The objective that training maximises, on held-out examples with the averaged weights. For MDLM its negative "
    "bounds the negative log-likelihood from above; for VADD it does not: the two curves do not compare as likelihoods."
)


def run_name(run: Run) -> str:
    return f"{run.recipe.name} {label(run.recipe.model)}"


def _with_name(progress: Progress, name: str, what: str, done: int = 0, total: int | None = None) -> None:
    progress(f"{name}: {what}", done, total)


def _fewest_steps(runs: Sequence[Run], panels: Mapping[str, Sequence[Panel]]) -> dict[str, list[Panel]]:
    """The paper's first figure: a row per data set with the data and every model at the fewest steps."""
    rows: dict[str, list[Panel]] = {}
    for run in runs:
        truth, (steps, drawn), *_ = panels[run_name(run)]
        rows.setdefault(run.recipe.name, [truth]).append((f"{label(run.recipe.model)}, {steps}", drawn))
    return rows
