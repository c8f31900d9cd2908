"""Figures: arrays in, matplotlib figures out. Nothing here knows about models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # figures are files here; no window, no display needed

import numpy as np
from matplotlib.figure import Figure

MODEL_LABELS = {"mdlm": "MDLM", "vadd": "VADD"}
MODEL_COLOURS = {"mdlm": "#c1543a", "vadd": "#2a6f97"}
TRUTH_LABEL = "data"

Panel = tuple[str, np.ndarray[Any, np.dtype[Any]]]
"""A title and a two-dimensional histogram (V, V)."""


def label(model: str) -> str:
    return MODEL_LABELS.get(model, model)


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
    """Test objective and KL against steps; ``runs`` maps a run's name to the lines of its ``metrics.jsonl``."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    total_axis, kl_axis = figure.subplots(1, 2)
    for name, records in runs.items():
        test = [record for record in records if record["split"] == "test"]
        steps = [record["step"] for record in test]
        total_axis.plot(steps, [record["reconstruction"] + record["kl"] for record in test], label=name)
        kl_axis.plot(steps, [record["kl"] for record in test], label=name)
    total_axis.set_title("test objective: reconstruction + KL", fontsize=10)
    total_axis.set_ylabel("nats per example")
    kl_axis.set_title("of which KL, what the latent carries", fontsize=10)
    for axis in (total_axis, kl_axis):
        axis.set_xlabel("training step")
        axis.grid(alpha=0.25)
    total_axis.legend(frameon=False, fontsize=8)
    return figure


def divergence_by_steps(reports: Sequence[Mapping[str, Any]], names: Sequence[str], metric: str) -> Figure:
    """One metric against the number of sampling steps, a line per run, the sampling floor dashed below."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axis = figure.subplots()
    for name, report in zip(names, reports, strict=True):
        results = report["results"]
        axis.plot(
            [result["steps"] for result in results],
            [result[metric] for result in results],
            marker="o",
            color=MODEL_COLOURS.get(report["model"]) if len(reports) <= 2 else None,
            label=name,
        )
    floors = {round(report["results"][0][f"{metric}_floor"], 6): report["recipe"] for report in reports}
    for floor, recipe in floors.items():
        axis.axhline(floor, linestyle="--", linewidth=1, color="grey")
        axis.annotate(
            f"floor, {recipe}",
            (1, floor),
            fontsize=7,
            color="grey",
            va="bottom",
            xycoords=("axes fraction", "data"),
            ha="right",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    steps = sorted({result["steps"] for report in reports for result in report["results"]})
    axis.set_xticks(steps, [str(step) for step in steps])
    axis.minorticks_off()
    axis.set_xlabel("sampling steps")
    axis.set_ylabel(metric)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)
    return figure


def bound_by_steps(reports: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    """The negative log-likelihood bound against the number of steps, two standard errors shaded, entropy dashed.

    A report that has the paper's DELBO shows it as a dotted line, named for what it is.
    """
    figure = Figure(figsize=(5.6, 3.9), layout="constrained")
    axis = figure.subplots()
    for number, (name, report) in enumerate(zip(names, reports, strict=True)):
        bounds = report["bounds"]
        steps = [bound["steps"] for bound in bounds]
        nats = np.array([bound["nats"] for bound in bounds])
        spread = 2 * np.array([bound["stderr"] for bound in bounds])
        colour = MODEL_COLOURS.get(report["model"]) if len(reports) <= 2 else f"C{number}"
        axis.plot(steps, nats, marker="o", color=colour, label=name)
        axis.fill_between(steps, nats - spread, nats + spread, color=colour, alpha=0.2, linewidth=0)
        if "delbo" in report:
            delbo = f"{name}, the paper's DELBO (not a bound)"
            axis.axhline(report["delbo"]["nats"], linestyle=":", color=colour, label=delbo)
    for value, recipe in {
        round(report["entropy"], 6): report["recipe"] for report in reports if "entropy" in report
    }.items():
        axis.axhline(
            value, linestyle="--", linewidth=1, color="grey", label=f"entropy of {recipe.removesuffix('-paper')}"
        )
    axis.set_xscale("log")
    ticks = sorted({bound["steps"] for report in reports for bound in report["bounds"]})
    axis.set_xticks(ticks, [str(step) for step in ticks])
    axis.minorticks_off()
    axis.set_xlabel("sampling steps T")
    axis.set_ylabel("negative log-likelihood bound, nats")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)
    return figure
