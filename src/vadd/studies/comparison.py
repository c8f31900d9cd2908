"""Runs side by side: evaluate, draw, and write one report directory.

OUT/report.html      everything on one self-contained page
OUT/results.json     the numbers, a list with one entry per run
OUT/tables.md        the tables as Markdown, to paste elsewhere
OUT/figures/*.png
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vadd.evaluation import BoundSettings, EvaluationOptions, RunReport, evaluate
from vadd.evaluation.evaluate import Evaluation
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import has_latent
from vadd.files import write_json
from vadd.parallel import is_main
from vadd.progress import Progress, named, silent
from vadd.report.figures import save_figure
from vadd.report.likelihood_tables import bound_table, latent_table
from vadd.report.notes import NOTES
from vadd.report.page import PageSection, write_page
from vadd.report.table import Table, model_label, report_names
from vadd.report.tables import sample_tables, side_by_side
from vadd.run.run import Run
from vadd.studies.choosing import chosen_words
from vadd.studies.figures import comparison_figures
from vadd.studies.study import Study
from vadd.words import typed_command


@dataclass(frozen=True)
class Measurements:
    """What is measured of every run."""

    steps: Sequence[int]
    samples: int | None = None
    bounds: BoundSettings | None = None
    inception: Path | None = None
    """The network of FID."""
    language: LanguageJudge | None = None


@dataclass(frozen=True)
class Page:
    title: str
    introduction: str
    command: str = ""
    """That makes the report again, unless the process is a ``vadd`` command itself."""

    @classmethod
    def of(cls, study: Study, **names: str) -> "Page":
        title, introduction = study.title.format(**names), study.introduction.format(**names)
        return cls(title, introduction, f"vadd reproduce {study.name}")

    @property
    def commands(self) -> list[str]:
        return [command for command in [typed_command() or self.command] if command]


@dataclass(frozen=True)
class Result:
    """What a study leaves."""

    tables: Sequence[Table]
    """For the terminal."""
    numbers: list[dict[str, Any]]
    """As in ``results.json``."""
    page: Path


def compare(
    runs: Sequence[Run],
    out: Path,
    measurements: Measurements,
    page: Page,
    tables: Callable[[Sequence[RunReport]], Sequence[Table]] = lambda reports: (),
    progress: Progress = silent,
) -> tuple[list[RunReport], Path]:
    """Evaluate every run at every number of steps and write the report, with ``tables`` first on its page; numbers are
    on disk once they are known.
    """
    evaluations: list[Evaluation] = []
    for run in runs:
        before = [evaluation.report for evaluation in evaluations]

        def keep(report: RunReport, before: Sequence[RunReport] = before) -> None:
            write_json(out / "results.json", [each.to_json() for each in (*before, report)])

        evaluation = evaluate(
            run,
            run.possible_steps(measurements.steps),
            measurements.samples,
            bounds=bounds_for(run, measurements.bounds),
            options=EvaluationOptions(inception=measurements.inception, language=measurements.language),
            grown=keep,
            progress=named(progress, f"{run.recipe.name} {model_label(run.recipe.model)}"),
        )
        report = evaluation.report.changed(chosen=chosen_words(run.directory.path))
        keep(report)
        evaluations.append(replace(evaluation, report=report))
    reports = [evaluation.report for evaluation in evaluations]
    if is_main():
        progress("the figures")
        pictures = {
            name: (alternative, save_figure(figure, out / "figures" / f"{name}.png"))
            for name, (alternative, figure) in comparison_figures(runs, evaluations).items()
        }
        sections = [PageSection("Results", tables=tables(reports)), *_sections(runs, evaluations, pictures, page)]
        write_report(out, page, [section for section in sections if section.figures or section.tables])
    return reports, out / "report.html"


def bounds_for(run: Run, bounds: BoundSettings | None) -> BoundSettings | None:
    """The bounds that exist for a run: none for draws that are not exact, no DELBO with one z for all steps."""
    if bounds is None or not run.sampling.exact:
        return None
    if has_latent(run) and run.sampling.latent_policy == "fixed":
        bounds = replace(bounds, delbo_draws=0)
    return replace(bounds, steps=run.possible_steps(bounds.steps))


def write_report(out: Path, page: Page, sections: Sequence[PageSection]) -> None:
    """The page, and its tables as Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "tables.md").write_text("\n".join(table.to_markdown() for section in sections for table in section.tables))
    write_page(out / "report.html", page.title, page.introduction, sections)


def publish(out: Path, page: Page, section: PageSection, numbers: list[dict[str, Any]]) -> Result:
    """The report of a study that does not compare samples, written by the main process."""
    if is_main():
        write_json(out / "results.json", numbers)
        write_report(out, page, [replace(section, commands=page.commands)])
    return Result(section.tables, numbers, out / "report.html")


def _sections(
    runs: Sequence[Run], evaluations: Sequence[Evaluation], pictures: dict[str, tuple[str, Path]], page: Page
) -> list[PageSection]:
    reports = [evaluation.report for evaluation in evaluations]

    def shown(*names: str) -> list[tuple[str, Path]]:
        return [pictures[name] for name in names if name in pictures]

    rows = zip(report_names(reports), runs, evaluations, strict=True)
    texts = {name: evaluation.shown for name, run, evaluation in rows if run.kind.name == "text" and evaluation.shown}
    likelihoods = [report.likelihood for report in reports if report.likelihood]
    scores_pads = all(likelihood.scores_pads for likelihood in likelihoods)
    padded = any(run.model.pad is not None for run in runs)
    return [
        PageSection(
            "Samples",
            tables=[side_by_side(texts)] if texts else [],
            figures=shown("one-step", "by-steps", "marginals", "pairs", "grids", "denoising"),
        ),
        PageSection(
            "Distance from the data",
            tables=sample_tables(reports),
            figures=shown("divergence", "texts"),
            commands=page.commands,
        ),
        PageSection(
            "Likelihood",
            NOTES["likelihood"] if scores_pads else f"{NOTES['padded_likelihood']} {NOTES['pads']}",
            figures=shown("bounds"),
            tables=[bound_table(reports), latent_table(reports)] if likelihoods else [],
        ),
        PageSection("The latent", NOTES["traversal"], figures=shown("traversal")),
        PageSection(
            "Training",
            f"{NOTES['training']} {NOTES['padded_training' if padded else 'training_bounds']}",
            figures=shown("training"),
        ),
    ]
