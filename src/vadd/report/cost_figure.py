"""Quality against what a sample costs, one line for each model."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

MARKERS = "osD^v<>PX*hd"


@dataclass(frozen=True)
class CostPoint:
    name: str
    sequences: float
    """Shown to networks for each sample."""
    quality: float


def quality_by_cost(points: Sequence[CostPoint], label: str) -> Figure:
    """A model with one number of steps is a point, the others are lines from few steps to many."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.subplots()
    for number, name in enumerate(dict.fromkeys(point.name for point in points)):
        mine = sorted((point.sequences, point.quality) for point in points if point.name == name)
        style = "--" if number >= 10 else "-"
        axis.plot(*zip(*mine, strict=True), marker=MARKERS[number % len(MARKERS)], linestyle=style, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("sequences shown to networks, for each sample")
    axis.set_ylabel(label)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
