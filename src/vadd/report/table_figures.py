"""Figures of tables: the columns of samples beside those of the data, and how far pairs of columns are off."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from vadd.kinds.arrays import Array

MOST_COLUMNS = 12
MOST_LABELS = 12
DATA_COLOUR = "#bbbbbb"


def marginals(labels: Mapping[str, Sequence[str]], data: Array, samples: Mapping[str, Array]) -> Figure:
    """Frequencies of every column's values: the data as bars, the samples of each run as points. ``labels`` names the
    values of each column; rows are codes (n, N).
    """
    shown = list(labels.items())[:MOST_COLUMNS]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(4.2 * across, 2.6 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    for column, (axis, (name, values)) in enumerate(zip(axes, shown, strict=False)):
        places = np.arange(len(values))
        axis.bar(places, _shares(data[:, column], len(values)), color=DATA_COLOUR, label="data")
        for number, (run, rows) in enumerate(samples.items()):
            shift = 0.25 * (number - (len(samples) - 1) / 2) / max(1, len(samples) - 1)
            axis.plot(places + shift, _shares(rows[:, column], len(values)), "o", ms=3.5, color=f"C{number}", label=run)
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
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(len(names)), [_short(name) for name in names], rotation=90, fontsize=7)
        axis.set_yticks(range(len(names)), [_short(name) for name in names] if number == 0 else [], fontsize=7)
    figure.colorbar(image, ax=list(axes), shrink=0.8, label="total variation")
    return figure


def _shares(codes: Array, size: int) -> Array:
    known = codes[codes < size]
    return np.asarray(np.bincount(known, minlength=size) / max(1, len(known)))


def _short(text: str) -> str:
    return text if len(text) <= 14 else f"{text[:12]}.."
