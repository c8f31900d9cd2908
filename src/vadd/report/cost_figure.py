"""Quality against what a sample costs, one line for each model."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, FuncFormatter, LogLocator, NullFormatter

MARKERS = "osD^v<>PX*hdp"


@dataclass(frozen=True)
class CostPoint:
    name: str
    evaluations: float
    """Calls of the network, for a chunk of samples."""
    sequences: float
    """Shown to networks for each sample."""
    quality: float


def quality_by_cost(points: Sequence[CostPoint], label: str, references: Sequence[float] = ()) -> Figure:
    """Against evaluations and against sequences; a model with one number of steps is a point, the others are lines
    from few steps to many. ``references`` is what held-out data score.
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(dict.fromkeys(point.name for point in points))
    colours = colormaps["tab10"].colors  # type: ignore[attr-defined]
    for number, name in enumerate(names):
        mine = sorted((point for point in points if point.name == name), key=lambda point: point.sequences)
        for axis, costs in ((left, [p.evaluations for p in mine]), (right, [p.sequences for p in mine])):
            axis.plot(
                costs,
                [point.quality for point in mine],
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                linestyle="--" if number >= len(colours) else "-",
                color=colours[number % len(colours)],
                label=name,
            )
    for axis in (left, right):
        for number, reference in enumerate(references):
            told = "held-out data" if number == 0 else None
            axis.axhline(reference, color="0.4", linestyle=":", linewidth=1, zorder=0, label=told)
    left.set_xlabel("network evaluations")
    right.set_xlabel("sequences shown to networks, for each sample")
    left.set_ylabel(label)
    left.set_yscale("log")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.25, which="both")
    left.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    left.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: _between_decades(value)))
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside right center")
    return figure


def _between_decades(value: float) -> str:
    """A label for 2, 3, 4 and 6 times a power of ten, where there is room."""
    shown = f"{value:g}"
    return shown if shown.replace(".", "").strip("0") in ("2", "3", "4", "6") else ""
