"""Figures: arrays in, matplotlib figures out. Nothing here knows about models."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vadd.evaluation.metrics import Distance
from vadd.evaluation.reports import LikelihoodReport, RunReport

MODEL_COLOURS = {"mdlm": "#c1543a", "vadd": "#2a6f97"}
TRUTH_LABEL = "data"
MOST_INSIDE = 5
"""Runs whose names find room between the lines of a panel."""

Panel = tuple[str, np.ndarray[Any, np.dtype[Any]]]
"""A title and a two-dimensional histogram (V, V)."""


def save_figure(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140, bbox_inches="tight", facecolor="white")
    return path


def histogram_panels(rows: Mapping[str, Sequence[Panel]]) -> Figure:
    """Rows of two-dimensional histograms (V, V), each with a title; the row's name stands at its left.

    Colours are on one scale within a row, that of its first panel, the data; brighter than the data's brightest is cut.
    """
    widest = max(len(panels) for panels in rows.values())
    figure = Figure(figsize=(2.3 * widest, 2.45 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), widest, squeeze=False)
    for row, (name, panels) in zip(axes, rows.items(), strict=True):
        top = float(panels[0][1].max())
        for axis in row:
            axis.set_axis_off()
        for axis, (title, density) in zip(row, panels, strict=False):
            axis.set_axis_on()
            axis.imshow(density.T, origin="lower", cmap="magma", vmin=0, vmax=top, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(title, fontsize=10)
        row[0].set_ylabel(name, fontsize=10)
    return figure


def training_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The objective and its KL against steps, held out and, thin and dashed, in training; ``runs`` maps a run's name to
    the lines of its ``metrics.jsonl``.
    """
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    objective_axis, kl_axis = figure.subplots(1, 2)
    styles: dict[str, dict[str, Any]] = {"test": {}, "train": {"linestyle": "--", "linewidth": 0.8, "alpha": 0.7}}
    for number, (name, records) in enumerate(runs.items()):
        for split, style in styles.items():
            lines = [record for record in records if record["split"] == split]
            steps = [record["step"] for record in lines]
            label = f"{name}, {'held out' if split == 'test' else 'training'}"
            for axis, key in ((objective_axis, "loss"), (kl_axis, "kl")):
                axis.plot(steps, [record[key] for record in lines], color=f"C{number}", label=label, **style)
    objective_axis.set_title("objective, as a loss", fontsize=10)
    objective_axis.set_ylabel("nats per position")
    kl_axis.set_title("its KL, what the latent carries", fontsize=10)
    kl_axis.set_ylabel("nats per example")
    for axis in (objective_axis, kl_axis):
        axis.set_xlabel("training step")
        axis.grid(alpha=0.25)
    objective_axis.legend(frameon=False, fontsize=8)
    return figure


def _panels_by_data(
    reports: Sequence[RunReport], names: Sequence[str]
) -> tuple[Figure, list[tuple[Axes, list[tuple[str, RunReport]]]]]:
    """An axis for each data set, with the reports that belong to it under their names."""
    by_data: dict[str, list[tuple[str, RunReport]]] = {}
    for name, report in zip(names, reports, strict=True):
        by_data.setdefault(report.data or report.recipe, []).append((name, report))
    beside = 4.2 if max(map(len, by_data.values())) > MOST_INSIDE else 0.0
    figure = Figure(figsize=(1.2 + (4.2 + beside) * len(by_data), 3.7), layout="constrained")
    axes = figure.subplots(1, len(by_data), squeeze=False)[0]
    return figure, list(zip(axes, by_data.values(), strict=True))


def _colour(report: RunReport, runs_in_panel: int, number: int) -> str:
    """One colour for each model; where a panel holds several runs of a model, one for each run."""
    return MODEL_COLOURS.get(report.model, f"C{number}") if runs_in_panel <= 2 else f"C{number}"


def label_step_axis(axis: Axes, steps: Iterable[int], y_label: str) -> None:
    ticks = sorted(set(steps))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [str(step) for step in ticks])
    axis.minorticks_off()
    axis.set_xlabel("sampling steps T")
    axis.set_ylabel(y_label)
    axis.grid(alpha=0.25)
    where: dict[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(axis.get_lines()) > MOST_INSIDE + 1 else {}
    )
    # White behind the words: lines across the whole panel pass below them.
    axis.legend(framealpha=0.85, edgecolor="none", fontsize=8, **where)


def divergence_by_steps(reports: Sequence[RunReport], names: Sequence[str], kind: type[Distance]) -> Figure:
    """A kind of distance against the number of sampling steps, a line per run, the sampling floor dashed below."""
    figure, panels = _panels_by_data(reports, names)
    for axis, members in panels:
        steps_shown: set[int] = set()
        for number, (name, report) in enumerate(members):
            found = report.by_steps(kind)
            values = [distance.value for distance in found.values()]
            axis.plot(list(found), values, marker="o", color=_colour(report, len(members), number), label=name)
            steps_shown |= set(found)
        floor = next(iter(members[0][1].by_steps(kind).values())).floor
        axis.axhline(floor, linestyle="--", linewidth=1, color="grey", label="floor: data against data")
        axis.set_yscale("log")
        label_step_axis(axis, steps_shown, kind.name)
    return figure


def bound_by_steps(reports: Sequence[RunReport], names: Sequence[str]) -> Figure:
    """The step bounds against the number of steps, two standard errors shaded, the data's entropy dashed.

    A report that has the paper's DELBO shows it as a dotted line, named for what it is.
    """
    figure, panels = _panels_by_data(reports, names)
    for axis, members in panels:
        shown = [(name, report, report.likelihood) for name, report in members if report.likelihood is not None]
        for number, (name, report, likelihood) in enumerate(shown):
            _draw_bounds(axis, likelihood, name, _colour(report, len(members), number))
        entropy = members[0][1].entropy
        if entropy is not None:
            axis.axhline(entropy, linestyle="--", linewidth=1, color="grey", label="entropy of the data")
        bounds = [bound for _, _, likelihood in shown for bound in likelihood.bounds]
        what = "negative log-likelihood" + (" bound" if all(bound.valid for bound in bounds) else ", not a bound")
        label_step_axis(axis, (bound.steps for bound in bounds if bound.steps is not None), f"{what}, nats")
    return figure


def _draw_bounds(axis: Axes, likelihood: LikelihoodReport, name: str, colour: str) -> None:
    steps = [bound.steps for bound in likelihood.bounds if bound.steps is not None]
    nats = np.array([bound.nats for bound in likelihood.bounds])
    spread = 2 * np.array([bound.stderr or 0.0 for bound in likelihood.bounds])
    axis.plot(steps, nats, marker="o", color=colour, label=name)
    axis.fill_between(steps, nats - spread, nats + spread, color=colour, alpha=0.2, linewidth=0)
    if likelihood.delbo is not None:
        delbo = f"{name}, DELBO (not a bound)"
        axis.axhline(likelihood.delbo.nats, linestyle=":", color=colour, label=delbo)
