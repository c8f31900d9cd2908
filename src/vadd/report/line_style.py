"""The one style of lines in figures: colours and markers, names at the ends of lines, floors as bands."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, StrMethodFormatter

COLOURS = (
    "#e08214", "#2166ac", "#1b7837", "#762a83", "#b2182b", "#35978f", "#8c510a", "#4d4d4d", "#c51b7d", "#7fb3d5",
)  # fmt: skip
MARKERS = "osD^v<>PX*hdp"
"""Of each line its own: lines differ in grey too."""
MODELS = ("mdlm", "vadd")
"""Have the first colours."""
SMALL, SPACING = 8, 1.3
"""The size of names, and how far apart they stand, as a multiple of it."""
MARGIN = 0.1
"""Of the axis that a band takes at least."""


def line_style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}


def model_style(model: str, number: int, alone: bool) -> dict[str, Any]:
    """That of the model where it is ``alone`` among the lines, else that of the line's number."""
    return line_style(MODELS.index(model) if alone and model in MODELS else number)


def draw_floor(axis: Axes, floor: float, name: str) -> None:
    """What real data score: a line, and a band from there down, where differences are chance."""
    axis.axhline(floor, linestyle="--", linewidth=1, color="grey", label=name)
    bottom, top = axis.get_ylim()
    if 0 < floor < top:
        bottom = min(bottom, floor * (floor / top) ** MARGIN)
        axis.axhspan(bottom, floor, color="0.5", alpha=0.15, linewidth=0)
        axis.set_ylim(bottom, top)


def log_values(axis: Axes) -> None:
    """Numbers on a logarithmic axis also within a power of ten."""
    axis.set_yscale("log")
    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def name_lines(axis: Axes) -> None:
    """The name of each line beside its end, in its colour; to be called when all is drawn and scaled."""
    to_axes, ends = axis.transAxes.inverted(), []
    for line in axis.get_lines():
        points = line.get_transform().transform(line.get_xydata())  # the line of a floor is in other coordinates
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) and not str(line.get_label()).startswith("_"):
            ends.append((*to_axes.transform(points[-1]), line))
    ends.sort(key=lambda end: end[1])
    height = 72 * axis.get_window_extent().height / axis.figure.dpi
    for (x, y, line), level in zip(ends, apart([y for _, y, _ in ends], SPACING * SMALL / height), strict=True):
        axis.annotate(
            str(line.get_label()),
            xy=(x, y),
            xytext=(1.04, level),
            xycoords=axis.transAxes,
            textcoords=axis.transAxes,
            color=line.get_color(),
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.5, "shrinkA": 1, "shrinkB": 3},
        )


def apart(levels: Iterable[float], least: float) -> list[float]:
    """Rising levels moved as little as a pass in each direction needs, so that neighbours are ``least`` apart and none
    is above 1.
    """
    placed: list[float] = []
    for level in levels:
        placed.append(max(level, placed[-1] + least) if placed else level)
    if placed and placed[-1] > 1:
        placed[-1] = 1.0
    for below, above in pairwise(reversed(range(len(placed)))):
        placed[above] = min(placed[above], placed[below] - least)
    return placed


def label_step_axis(axis: Axes, steps: Iterable[int], y_label: str) -> None:
    ticks = sorted(set(steps))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [str(step) for step in ticks])
    axis.minorticks_off()
    axis.set_xlabel("sampling steps T")
    axis.set_ylabel(y_label)
    axis.grid(alpha=0.25)
