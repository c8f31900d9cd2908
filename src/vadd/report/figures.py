"""Figures of distributions, of training, and of numbers by number of steps or by cost: arrays and reports in,
matplotlib figures out.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vadd.evaluation.reports import CONTROLS, Distance, LikelihoodReport, RunReport, TextMetrics
from vadd.kinds.arrays import Array
from vadd.report.line_style import (
    COLOURS,
    SMALL,
    draw_floor,
    label_step_axis,
    line_style,
    log_values,
    model_style,
    name_lines,
)
from vadd.report.table import grouped
from vadd.report.tables import COLUMN_TITLES

DATA_COLOUR = "#bbbbbb"
TRUTH_LABEL = "data"
MOST_COLUMNS, MOST_LABELS = 12, 12
"""Of a table that are shown, and of the values of a column that are named."""
Panel = tuple[str, Array]
"""A title and what it shows."""


def save_figure(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140, bbox_inches="tight", facecolor="white")
    return path


def panel_rows(
    rows: Sequence[tuple[str, Sequence[Panel]]], draw: Callable[[Axes, Array, Array], None], size: float
) -> Figure:
    """Panels with titles in rows, the row's name at its left; ``draw`` gets a panel and the first of its row."""
    widest = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(size * widest, (size + 0.15) * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), widest, squeeze=False)
    for line, (name, panels) in zip(axes, rows, strict=True):
        for axis in line[len(panels) :]:
            axis.set_axis_off()
        for axis, (title, panel) in zip(line, panels, strict=False):
            draw(axis, panel, panels[0][1])
            axis.set_title(title, fontsize=10)
        line[0].set_ylabel(name, fontsize=10)
    return figure


def histogram_panels(rows: Mapping[str, Sequence[Panel]]) -> Figure:
    """Rows of two-dimensional histograms (V, V). Colours are on one scale within a row, that of its first panel, the
    data; brighter than the data's brightest is cut.
    """
    return panel_rows([*rows.items()], lambda axis, shown, data: draw_density(axis, shown, float(data.max())), 2.3)


def draw_density(axis: Axes, density: Array, top: float | None = None) -> None:
    """A histogram (V, V): the first coordinate across, the second upwards."""
    axis.imshow(density.T, origin="lower", cmap="magma", vmin=0, vmax=top, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])


def training_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The objective and its KL against steps, held out and, thin and dashed, in training; ``runs`` maps a run's name to
    the lines of its ``metrics.jsonl``.
    """
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    draw_training(axes[0], runs, "loss", "objective, as a loss", "nats per position")
    draw_training(axes[1], runs, "kl", "its KL, what the latent carries", "nats per example")
    axes[0].legend(frameon=False, fontsize=SMALL)
    return figure


def draw_training(axis: Axes, runs: Mapping[str, Sequence[Mapping[str, Any]]], key: str, title: str, unit: str) -> None:
    styles: dict[str, dict[str, Any]] = {"test": {}, "train": {"linestyle": "--", "linewidth": 0.8, "alpha": 0.7}}
    for number, (name, records) in enumerate(runs.items()):
        for split, style in styles.items():
            points = [(record["step"], record[key]) for record in records if record["split"] == split]
            label = f"{name}, {'held out' if split == 'test' else 'training'}"
            axis.plot(*np.array(points).reshape(-1, 2).T, color=COLOURS[number % len(COLOURS)], label=label, **style)
    axis.set_title(title, fontsize=10)
    axis.set_ylabel(unit)
    axis.set_xlabel("training step")
    axis.grid(alpha=0.25)


Member = tuple[str, dict[str, Any], RunReport]
"""A line: its name, its style and what it shows."""
Panels = list[tuple[Axes, list[Member]]]


def _panels_by_data(reports: Sequence[RunReport], names: Sequence[str]) -> tuple[Figure, Panels]:
    """An axis for each data set, with the runs that belong to it: one style for each model or, where a panel holds
    several runs of a model, for each run.
    """
    by_data = grouped(zip(names, reports, strict=True), lambda named: named[1].data or named[1].recipe)
    panels: list[list[Member]] = []
    for members in by_data.values():
        alone = len({report.model for _, report in members}) == len(members)
        styles = [model_style(report.model, number, alone) for number, (_, report) in enumerate(members)]
        panels.append([(name, style, report) for (name, report), style in zip(members, styles, strict=True)])
    longest = max(len(name) for name in names)
    figure = Figure(figsize=((4.4 + 0.06 * longest) * len(by_data), 3.7), layout="constrained")
    return figure, list(zip(figure.subplots(1, len(by_data), squeeze=False)[0], panels, strict=True))


def divergence_by_steps(reports: Sequence[RunReport], names: Sequence[str], kind: type[Distance]) -> Figure:
    """A kind of distance against the number of sampling steps, a line per run, the sampling floor as a band below."""
    figure, panels = _panels_by_data(reports, names)
    for axis, members in panels:
        by_steps = [report.by_steps(kind) for _, _, report in members]
        for (name, style, _), distances in zip(members, by_steps, strict=True):
            axis.plot(list(distances), [distance.value for distance in distances.values()], label=name, **style)
        log_values(axis)
        title = COLUMN_TITLES.get(kind.name, kind.name)
        label_step_axis(axis, (steps for distances in by_steps for steps in distances), title)
        draw_floor(axis, next(iter(by_steps[0].values())).floor, "floor: data against data")
        name_lines(axis)
    return figure


def bound_by_steps(reports: Sequence[RunReport], names: Sequence[str]) -> Figure:
    """The step bounds against the number of steps, two standard errors shaded, the data's entropy dashed.

    A report that has the paper's DELBO shows it as a dotted line, named for what it is.
    """
    figure, panels = _panels_by_data(reports, names)
    for axis, members in panels:
        measured = [(name, style, report.likelihood) for name, style, report in members if report.likelihood]
        for name, style, likelihood in measured:
            _draw_bounds(axis, likelihood, name, style)
        bounds = [bound for _, _, likelihood in measured for bound in likelihood.bounds]
        what = "negative log-likelihood" + (" bound" if all(bound.valid for bound in bounds) else ", not a bound")
        label_step_axis(axis, (bound.steps for bound in bounds if bound.steps is not None), f"{what}, nats")
        entropy = members[0][2].entropy
        if entropy is not None:
            draw_floor(axis, entropy, "entropy of the data")
        name_lines(axis)
    return figure


def _draw_bounds(axis: Axes, likelihood: LikelihoodReport, name: str, style: dict[str, Any]) -> None:
    steps = [bound.steps for bound in likelihood.bounds if bound.steps is not None]
    nats = np.array([bound.nats for bound in likelihood.bounds])
    spread = 2 * np.array([bound.stderr or 0.0 for bound in likelihood.bounds])
    axis.plot(steps, nats, label=name, **style)
    axis.fill_between(steps, nats - spread, nats + spread, color=style["color"], alpha=0.2, linewidth=0)
    if likelihood.delbo is not None:
        delbo = f"{name}, DELBO (not a bound)"
        axis.axhline(likelihood.delbo.nats, linestyle=":", color=style["color"], label=delbo)


PERPLEXITY = "generative perplexity"
JUDGED_PANELS = {PERPLEXITY: "gen_ppl", "the judge's bits per character": "judge_bits"}
ENTROPY_PANEL = {"entropy of a sample's tokens, nats": "sample_entropy"}


def text_by_steps(reports: Sequence[RunReport], names: Sequence[str]) -> Figure:
    """Generative perplexity (both axes logarithmic, two standard errors shaded), per token and in bits per character,
    and the entropy, a line per run, real text dashed. Without a judge model distinct-2 replaces the perplexity.
    """
    measured = [report.by_steps(TextMetrics) for report in reports]
    judged = any(metrics.gen_ppl is not None for by_steps in measured for metrics in by_steps.values())
    panels = JUDGED_PANELS | ENTROPY_PANEL if judged else ENTROPY_PANEL | {"distinct-2": "distinct_2"}
    figure = Figure(figsize=(4.6 * len(panels), 3.9), layout="constrained")
    for axis, (title, field) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for place, (name, by_steps) in enumerate(zip(names, measured, strict=True)):
            style = _text_style(reports, place)
            points = {steps: value for steps, each in by_steps.items() if (value := getattr(each, field)) is not None}
            steps, values = list(points), np.array(list(points.values()))
            axis.plot(steps, values, label=name, **style)
            if title == PERPLEXITY:
                spread = np.exp(2 * np.array([by_steps[count].gen_ppl_stderr or 0.0 for count in steps]) / values)
                shade = {"color": style["color"], "alpha": 0.12, "linewidth": 0}
                axis.fill_between(steps, values / spread, values * spread, **shade)
        real_texts = [report.real_text.metrics for report in reports if report.real_text is not None]
        for real in {getattr(metrics, field) for metrics in real_texts} - {None}:
            axis.axhline(real, linestyle="--", linewidth=1, color="grey", label="real text")
        label_step_axis(axis, (steps for by_steps in measured for steps in by_steps), title)
        if title == PERPLEXITY:
            log_values(axis)
    name_lines(axis)  # at the last panel, for all
    return figure


def text_by_entropy(reports: Sequence[RunReport], names: Sequence[str]) -> Figure:
    """The judge's numbers against the entropy: a line over temperature for each run and number of steps, real text and
    the controls as points.
    """
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    for axis, (title, field) in zip(figure.subplots(1, 2), JUDGED_PANELS.items(), strict=True):
        for number, (name, report) in enumerate(zip(names, reports, strict=True)):
            for line, (steps, points) in enumerate(grouped(report.temperatures, lambda point: point.steps).items()):
                style = line_style(line) | {"color": COLOURS[number % len(COLOURS)], "label": f"{name}, T = {steps}"}
                place = [point.metrics.sample_entropy for point in points]
                axis.plot(place, [_or_nan(getattr(point.metrics, field)) for point in points], **style)
        known = {text.file: text.metrics for report in reports for text in report.texts if text.file in CONTROLS}
        known.update(("real text", report.real_text.metrics) for report in reports if report.real_text is not None)
        for number, (name, metrics) in enumerate(known.items()):
            value = _or_nan(getattr(metrics, field))
            axis.plot(metrics.sample_entropy, value, "x+*"[number % 3], color="0.3", ms=9, label=name)
        axis.set_xlabel("entropy of a sample's tokens, nats")
        axis.set_ylabel(title)
        if title == PERPLEXITY:
            log_values(axis)
        axis.grid(alpha=0.25, which="both")
    figure.legend(*axis.get_legend_handles_labels(), frameon=False, fontsize=SMALL, loc="outside right center")
    return figure


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _text_style(reports: Sequence[RunReport], number: int) -> dict[str, Any]:
    """A colour for each model, and dash-dotted where one latent is kept; a colour for each run where that is not
    enough to tell them apart.
    """
    kinds = [(report.model, report.one_latent) for report in reports]
    model, one_latent = kinds[number]
    style = model_style(model, number, len(set(kinds)) == len(kinds))
    return style | ({"linestyle": "-.", "marker": "D"} if one_latent else {})


def marginals(labels: Mapping[str, Sequence[str]], data: Array, samples: Mapping[str, Array]) -> Figure:
    """Frequencies of every column's values: the data as bars, the samples of each run as points. ``labels`` names the
    values of each column; rows are codes (n, N).
    """

    def shares(rows: Array, column: int, size: int) -> Array:
        known = rows[rows[:, column] < size, column]
        return np.asarray(np.bincount(known, minlength=size) / max(1, len(known)))

    shown = list(labels.items())[:MOST_COLUMNS]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(4.2 * across, 2.6 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    for column, (axis, (name, values)) in enumerate(zip(axes, shown, strict=False)):
        places = np.arange(len(values))
        axis.bar(places, shares(data, column, len(values)), color=DATA_COLOUR, label="data")
        for number, (run, rows) in enumerate(samples.items()):
            shift = 0.25 * (number - (len(samples) - 1) / 2) / max(1, len(samples) - 1)
            heights = shares(rows, column, len(values))
            axis.plot(places + shift, heights, "o", ms=3.5, color=COLOURS[number % len(COLOURS)], label=run)
        every = -(-len(values) // MOST_LABELS)
        axis.set_xticks(places[::every], [_short(values[place]) for place in places[::every]])
        axis.tick_params(axis="x", labelsize=6, rotation=45)
        axis.tick_params(axis="y", labelsize=7)
        axis.set_title(name, fontsize=9)
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def pair_matrices(names: Sequence[str], matrices: Mapping[str, Array]) -> Figure:
    """Total variation of each pair of columns (N, N), one matrix for each name, on one scale."""
    most = max(float(matrix.max()) for matrix in matrices.values()) or 1.0
    side = min(5.0, 1.6 + 0.28 * len(names))
    figure = Figure(figsize=(side * len(matrices) + 0.8, side + 0.4), layout="constrained")
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    for number, (axis, (title, matrix)) in enumerate(zip(axes, matrices.items(), strict=True)):
        image = axis.imshow(matrix, cmap="magma_r", vmin=0, vmax=most)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(range(len(names)), [_short(name) for name in names], rotation=90, fontsize=9)
        axis.set_yticks(range(len(names)), [_short(name) for name in names] if number == 0 else [], fontsize=9)
    figure.colorbar(image, ax=list(axes), shrink=0.8, label="total variation")
    return figure


def _short(text: str) -> str:
    return text if len(text) <= 16 else f"{text[:14]}.."


CostPoint = tuple[float, float, float]
"""Calls of the network for a chunk of samples, the quality, and how far trainings are from their mean."""
EVERYWHERE = ("MDLM", "VADD", "VADD, one z")
"""Have the same colours in all figures."""


def quality_by_cost(points: Mapping[str, Sequence[CostPoint]], label: str, references: Sequence[float] = ()) -> Figure:
    """Against evaluations of the network; a model with one number of steps is a point, the others are lines from few
    steps to many, shaded as far as trainings are apart. ``references`` is what held-out data score.
    """
    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    axis = figure.subplots()
    order = list(dict.fromkeys((*EVERYWHERE, *points)))
    for name, those in points.items():
        calls, quality, spread = np.array(sorted(those)).T
        style = line_style(order.index(name))
        axis.plot(calls, quality, label=name, **style)
        axis.fill_between(calls, quality - spread, quality + spread, color=style["color"], alpha=0.2, linewidth=0)
    label_step_axis(axis, (round(calls) for those in points.values() for calls, *_ in those), label)
    axis.set_xlabel("evaluations of the network")
    log_values(axis)
    for reference in references:
        draw_floor(axis, reference, "held-out data")
    name_lines(axis)
    return figure
