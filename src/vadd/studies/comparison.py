"""Runs side by side: evaluate, draw, and write one report directory.

OUT/report.html      everything on one self-contained page
OUT/results.json     the numbers, a list with one entry per run
OUT/tables.md        the tables as Markdown, to paste elsewhere
OUT/figures/*.png
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from vadd.evaluation import BoundSettings, RunReport, evaluate, histogram
from vadd.evaluation.evaluate import Evaluation
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import has_latent
from vadd.evaluation.metrics import Distance
from vadd.evaluation.table_rows import RowComparison, pair_tv
from vadd.evaluation.traversal import traverse
from vadd.files import write_json
from vadd.kinds import TableKind
from vadd.parallel import is_main
from vadd.progress import Progress, named, silent
from vadd.report.figures import (
    TRUTH_LABEL,
    Panel,
    bound_by_steps,
    divergence_by_steps,
    histogram_panels,
    save_figure,
    training_curves,
)
from vadd.report.images import denoising_strip, grids_by_steps, tokens_to_images, traversal_figure
from vadd.report.label_tables import label_table
from vadd.report.page import PageSection, write_page
from vadd.report.table_figures import marginals, pair_matrices
from vadd.report.table_tables import imputation_table
from vadd.report.tables import PADS_NOTE, Table, bound_table, latent_table, model_label, report_names
from vadd.report.text_figures import text_by_steps
from vadd.report.text_tables import quality_table, side_by_side
from vadd.run.run import Run
from vadd.words import plural, typed_command

STRIP_STEPS = 10


@dataclass(frozen=True)
class Comparison:
    reports: list[RunReport]
    page: Path


def compare(
    runs: Sequence[Run],
    out: Path,
    *,
    steps: Sequence[int],
    samples: int | None = None,
    bounds: BoundSettings | None = None,
    inception: Path | None = None,
    language: LanguageJudge | None = None,
    title: str,
    introduction: str,
    commands: Sequence[str] = (),
    first_sections: Callable[[list[RunReport]], Sequence[PageSection]] = lambda reports: (),
    progress: Progress = silent,
) -> Comparison:
    """Evaluate every run at every number of steps and write the report; numbers are on disk once they are known."""
    evaluations: list[Evaluation] = []
    for run in runs:
        named_progress = named(progress, f"{run.recipe.name} {model_label(run.recipe.model)}")
        one_latent = has_latent(run) and run.sampling.latent_policy == "fixed"
        allowed = bounds.without_delbo() if bounds is not None and one_latent else bounds
        if not run.sampling.exact:  # bounds are about exact draws
            allowed = None
        if allowed is not None:
            allowed = replace(allowed, steps=run.possible_steps(allowed.steps))
        keep = partial(_keep, out / "results.json", [evaluation.report for evaluation in evaluations])
        evaluations.append(
            evaluate(
                run,
                run.possible_steps(steps),
                samples,
                bounds=allowed,
                inception=inception,
                language=language,
                grown=keep,
                progress=named_progress,
            )
        )
    reports = [evaluation.report for evaluation in evaluations]
    if not is_main():
        return Comparison(reports, out / "report.html")
    progress("the figures")
    pictures = {
        name: (alternative, save_figure(figure, out / "figures" / f"{name}.png"))
        for name, (alternative, figure) in _figures(runs, evaluations).items()
    }

    def shown(*names: str) -> list[tuple[str, Path]]:
        return [pictures[name] for name in names if name in pictures]

    sections = [
        *first_sections(reports),
        PageSection(
            "Samples",
            tables=_texts(evaluations),
            figures=shown("one-step", "by-steps", "marginals", "pairs", "grids", "denoising"),
        ),
        PageSection(
            "Distance from the data",
            tables=[quality_table(reports), *_by_label(reports), *_imputations(reports)],
            figures=shown("divergence", "texts"),
            commands=commands if (typed := typed_command()) is None else [typed],
        ),
        PageSection("The latent", figures=shown("traversal"), text=TRAVERSAL_NOTE),
        PageSection("Training", figures=shown("training"), text=_training_note(runs)),
    ]
    if bounds is not None:
        tables = [bound_table(reports), latent_table(reports)]
        likelihood = PageSection("Likelihood", _likelihood_note(reports), figures=shown("bounds"), tables=tables)
        sections.insert(-2, likelihood)
    kept = [section for section in sections if section.figures or section.tables]
    (out / "tables.md").write_text("\n".join(table.to_markdown() for section in kept for table in section.tables))
    return Comparison(reports, write_page(out / "report.html", title, introduction, kept))


def _keep(file: Path, before: list[RunReport], report: RunReport) -> None:
    write_json(file, [each.to_json() for each in (*before, report)])


def _texts(evaluations: Sequence[Evaluation]) -> list[Table]:
    names = report_names([evaluation.report for evaluation in evaluations])
    texts = {name: evaluation.texts for name, evaluation in zip(names, evaluations, strict=True) if evaluation.texts}
    return [side_by_side(texts)] if texts else []


def _figures(runs: Sequence[Run], evaluations: Sequence[Evaluation]) -> dict[str, tuple[str, Figure]]:
    """Alternative text and figure, by file name."""
    reports = [evaluation.report for evaluation in evaluations]
    names = report_names(reports)
    figures: dict[str, tuple[str, Figure]] = {}
    by_steps: dict[str, list[Panel]] = {}
    fewest: dict[str, list[Panel]] = {}
    for name, run, evaluation in zip(names, runs, evaluations, strict=True):
        drawn = [(plural(count, "step"), density) for count, density in evaluation.histograms.items()]
        if drawn:
            truth = (TRUTH_LABEL, histogram(run.data.train.numpy(), run.data.vocab_size))
            by_steps[name] = [truth, *drawn]
            # The paper's first figure: a row per data set with the data and every model at the fewest steps.
            title = f"{name.removeprefix(run.recipe.name).strip()}, {drawn[0][0]}"
            fewest.setdefault(run.recipe.name, [truth]).append((title, drawn[0][1]))
    if by_steps:
        figures["one-step"] = "Samples at the fewest steps beside the data", histogram_panels(fewest)
        figures["by-steps"] = "Samples by number of steps", histogram_panels(by_steps)
    grids = {
        name: [
            (plural(count, "step"), tokens_to_images(tokens, run.data.shape, run.data.vocab_size))
            for count, tokens in evaluation.images.items()
        ]
        for name, run, evaluation in zip(names, runs, evaluations, strict=True)
        if evaluation.images
    }
    if grids:
        figures["grids"] = "Samples by number of steps", grids_by_steps(grids)
    figures |= _image_figures(runs, names)
    figures |= _table_figures(runs, evaluations, names)
    kinds = {type(result.metrics) for report in reports for result in report.results}
    if len(kinds) == 1 and issubclass(kind := kinds.pop(), Distance):
        figures["divergence"] = f"{kind.name} by number of steps", divergence_by_steps(reports, names, kind)
    if all(report.real_text for report in reports):
        figures["texts"] = "Texts by number of steps, beside real text", text_by_steps(reports, names)
    bounded = [(name, report) for name, report in zip(names, reports, strict=True) if report.draws is None]
    if all(report.likelihood is not None and report.likelihood.bounds for _, report in bounded):
        shown = [report for _, report in bounded]
        figures["bounds"] = "Likelihood bound by number of steps", bound_by_steps(shown, [name for name, _ in bounded])
    paths = [run.directory.path for run in runs]
    metrics = {
        name: list(run.directory.metrics())
        for number, (name, run) in enumerate(zip(names, runs, strict=True))
        if run.directory.path not in paths[:number]
    }
    figures["training"] = "Training curves", training_curves(metrics)
    return figures


def _image_figures(runs: Sequence[Run], names: Sequence[str]) -> dict[str, tuple[str, Figure]]:
    """How one image of each run comes about, and what the latent of the last run that has one does to images."""
    shown = [run for run in runs if run.kind.name == "image"]
    if not shown or any(run.data.shape != shown[0].data.shape for run in shown):
        return {}
    shape, values = shown[0].data.shape, shown[0].data.vocab_size
    figures: dict[str, tuple[str, Figure]] = {}
    # The strips have a column for each step: only samplers that take so many belong there.
    walking = [run for run in shown if run.possible_steps([STRIP_STEPS]) == [STRIP_STEPS]]
    if walking:
        states = np.concatenate([run.trajectory(1, steps=STRIP_STEPS).numpy() for run in walking], axis=1)
        owners = [name for name, run in zip(names, runs, strict=True) if run in walking]
        figures["denoising"] = ("From all masked to an image", denoising_strip(states, shape, values, names=owners))
    traversals = [found for run in shown if (found := traverse(run)) is not None]
    if traversals:
        moved = traversals[-1]
        rows = [f"z{dimension}" for dimension in moved.dimensions]
        columns = [f"{value:+.1f}" for value in moved.values]
        figure = traversal_figure(moved.expected, shape, values, rows, columns)
        figures["traversal"] = ("One dimension of the latent moving, everything masked", figure)
    return figures


def _table_figures(
    runs: Sequence[Run], evaluations: Sequence[Evaluation], names: Sequence[str]
) -> dict[str, tuple[str, Figure]]:
    """The columns of samples at the fewest steps, and how far pairs of them are off, for runs on the same table."""
    kinds = [run.kind for run in runs]
    codecs = [kind.codec for kind in kinds if isinstance(kind, TableKind)]
    if (
        len(codecs) < len(runs)
        or any(codec != codecs[0] for codec in codecs)
        or not all(each.rows for each in evaluations)
    ):
        return {}
    table = codecs[0]
    fewest = min(evaluations[0].rows)
    drawn = {name: each.rows[fewest] for name, each in zip(names, evaluations, strict=True) if fewest in each.rows}
    titled = {f"{name}, {plural(fewest, 'step')}": rows for name, rows in drawn.items()}
    data = runs[0].data
    comparison = RowComparison(data, min(map(len, drawn.values())), seed=0)
    matrices = {name: pair_tv(rows, comparison.reference, table.sizes) for name, rows in titled.items()}
    halves = {"the other half of the data": pair_tv(comparison.other, comparison.reference, table.sizes)}
    labels = {column.name: column.labels() for column in table.columns}
    return {
        "marginals": ("Columns of samples and of the data", marginals(labels, data.train.numpy(), titled)),
        "pairs": (
            "Total variation of pairs of columns from a half of the data",
            pair_matrices(table.names, matrices | halves),
        ),
    }


def _by_label(reports: Sequence[RunReport]) -> list[Table]:
    table = label_table(reports)
    return [] if table is None else [table]


def _imputations(reports: Sequence[RunReport]) -> list[Table]:
    return [imputation_table(reports)] if any(report.imputation is not None for report in reports) else []


def _likelihood_note(reports: Sequence[RunReport]) -> str:
    measured = [report.likelihood for report in reports if report.likelihood is not None]
    return LIKELIHOOD_NOTE if all(likelihood.scores_pads for likelihood in measured) else PADDED_LIKELIHOOD_NOTE


def _training_note(runs: Sequence[Run]) -> str:
    return TRAINING_NOTE + (PADDED_TRAINING_NOTE if any(run.model.pad is not None for run in runs) else BOUNDS_NOTE)


LIKELIHOOD_NOTE = (
    "Upper bounds of the negative log-likelihood of held-out examples under the very sampler that takes T steps. No "
    "distribution can score below the entropy of the data; what a model loses above it at few steps is the dependence "
    "between positions that it cannot draw together."
)
PADDED_LIKELIHOOD_NOTE = (
    "Negative log-likelihoods of held-out text under the very sampler that takes T steps; what a model loses at few "
    f"steps is the dependence between positions that it cannot draw together. {PADS_NOTE}"
)

TRAVERSAL_NOTE = (
    "Everything is masked and stays so; the latent is the one that the recognition model gives a held-out example, but "
    "for one dimension, which moves from left to right. Shown is the mean of each pixel's distribution."
)

TRAINING_NOTE = (
    "On held-out examples, with the averaged weights: the ELBO for MDLM and the DELBO for VADD, with several particles "
    "in its importance-weighted form, both as a loss. Masks count by w(t) and the KL in full, also where training "
    "itself weighs otherwise (diffusion.weighting, a KL that is warmed up). Dashed: what "
    "training minimises, with its own weights, the KL as it is warmed up, and dropout. "
)
BOUNDS_NOTE = (
    "For MDLM it bounds the negative log-likelihood from above; for VADD it does not, unless its latent is shared: the "
    "curves do not compare as likelihoods."
)
PADDED_TRAINING_NOTE = (
    "Pads count as positions but are not scored: it does not bound the likelihood of the padded sequences."
)
