"""The figures of a comparison of runs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from vadd.evaluation import histogram
from vadd.evaluation.evaluate import Evaluation
from vadd.evaluation.evaluators import Reference
from vadd.evaluation.latent_paths import expected_values, traversal
from vadd.evaluation.reports import Distance
from vadd.evaluation.tables import RowComparison, pair_tv
from vadd.kinds import TableKind
from vadd.report import figures as draw
from vadd.report.images import denoising_strip, grids_by_steps, tokens_to_images, traversal_figure
from vadd.report.table import report_names
from vadd.run.run import Run
from vadd.words import plural

STRIP_STEPS = 10
TRAVERSED = 6, 2.5, 9
"""Dimensions of the latent that are moved, how far, and in how many steps."""
Figures = dict[str, tuple[str, Figure]]
"""Alternative text and figure, by file name."""
Row = tuple[str, Run, Evaluation]


def comparison_figures(runs: Sequence[Run], evaluations: Sequence[Evaluation]) -> Figures:
    reports = [evaluation.report for evaluation in evaluations]
    names = report_names(reports)
    rows = list(zip(names, runs, evaluations, strict=True))
    figures = _histograms(rows) | _images(rows) | _tables(rows)
    kinds = {type(result.metrics) for report in reports for result in report.results}
    if len(kinds) == 1 and issubclass(kind := kinds.pop(), Distance):
        figures["divergence"] = f"{kind.name} by number of steps", draw.divergence_by_steps(reports, names, kind)
    if all(report.real_text for report in reports):
        figures["texts"] = "Texts by number of steps, beside real text", draw.text_by_steps(reports, names)
    if any(report.temperatures for report in reports):
        figures["temperatures"] = "The judge's numbers by entropy", draw.text_by_entropy(reports, names)
    bounded = {name: report for name, report in zip(names, reports, strict=True) if report.draws is None}
    if all(report.likelihood is not None and report.likelihood.bounds for report in bounded.values()):
        figures["bounds"] = "Likelihood bound by number of steps", draw.bound_by_steps([*bounded.values()], [*bounded])
    first_names = {run.directory.path: (name, run) for name, run, _ in reversed(rows)}
    curves = {name: list(run.directory.metrics()) for name, run in reversed(first_names.values())}
    figures["training"] = "Training curves", draw.training_curves(curves)
    return figures


def _histograms(rows: Sequence[Row]) -> Figures:
    by_steps: dict[str, list[draw.Panel]] = {}
    fewest: dict[str, list[draw.Panel]] = {}
    for name, run, evaluation in rows:
        if run.kind.name == "points" and evaluation.shown:
            panels = [(plural(count, "step"), density) for count, density in evaluation.shown.items()]
            truth = (draw.TRUTH_LABEL, histogram(run.data.train.numpy(), run.data.vocab_size))
            by_steps[name] = [truth, *panels]
            # The paper's first figure: a row per data set with the data and every model at the fewest steps.
            title = f"{name.removeprefix(run.recipe.name).strip()}, {panels[0][0]}"
            fewest.setdefault(run.recipe.name, [truth]).append((title, panels[0][1]))
    if not by_steps:
        return {}
    return {
        "one-step": ("Samples at the fewest steps beside the data", draw.histogram_panels(fewest)),
        "by-steps": ("Samples by number of steps", draw.histogram_panels(by_steps)),
    }


def _images(rows: Sequence[Row]) -> Figures:
    """Samples, how one image of each run comes about, and the latent of the last run that has one."""
    images = [row for row in rows if row[1].kind.name == "image"]
    grids = {
        name: [
            (plural(count, "step"), tokens_to_images(tokens, run.data.shape, run.data.vocab_size))
            for count, tokens in evaluation.shown.items()
        ]
        for name, run, evaluation in images
        if evaluation.shown
    }
    figures: Figures = {"grids": ("Samples by number of steps", grids_by_steps(grids))} if grids else {}
    if len({run.data.shape for _, run, _ in images}) != 1:
        return figures
    shape, values = images[0][1].data.shape, images[0][1].data.vocab_size
    # The strips have a column for each step: only samplers that take so many belong there.
    walking = {name: run for name, run, _ in images if run.possible_steps([STRIP_STEPS]) == [STRIP_STEPS]}
    if walking:
        states = np.concatenate([run.trajectory(1, steps=STRIP_STEPS).numpy() for run in walking.values()], axis=1)
        strip = denoising_strip(states, shape, values, names=[*walking])
        figures["denoising"] = ("From all masked to an image", strip)
    moving = [run for _, run, _ in images if run.model.encode(run.data.test[:1]) is not None]
    if moving:
        walk = traversal(moving[-1], "0", *TRAVERSED)
        figure = traversal_figure(expected_values(moving[-1], walk.z), shape, values, walk.rows, walk.columns)
        figures["traversal"] = ("One dimension of the latent moving, everything masked", figure)
    return figures


def _tables(rows: Sequence[Row]) -> Figures:
    """The columns of samples at the fewest steps, and how far pairs of them are off, for runs on the same table."""
    run = rows[0][1]
    if not isinstance(run.kind, TableKind):
        return {}
    table = run.kind.codec
    for _, other, evaluation in rows:
        if not isinstance(other.kind, TableKind) or other.kind.codec != table or not evaluation.shown:
            return {}
    fewest = min(rows[0][2].shown)
    drawn = {f"{name}, {plural(fewest, 'step')}": each.shown[fewest] for name, _, each in rows if fewest in each.shown}
    comparison = RowComparison(Reference(run.data, min(map(len, drawn.values()))))
    drawn = {name: table.with_dependents(tokens) for name, tokens in drawn.items()}
    compared = drawn | {"the other half of the data": comparison.other}
    matrices = {name: pair_tv(some, comparison.reference, comparison.sizes) for name, some in compared.items()}
    labels = {column.name: column.labels() for column in table.shown}
    return {
        "marginals": ("Columns of samples and of the data", draw.marginals(labels, comparison.train.numpy(), drawn)),
        "pairs": (
            "Total variation of pairs of columns from a half of the data",
            draw.pair_matrices(table.names, matrices),
        ),
    }
