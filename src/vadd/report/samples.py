"""A picture of samples of any kind: points, images, rows of values, texts."""

import html
import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vadd.kinds.arrays import Array
from vadd.kinds.kind import Kind
from vadd.report.figures import draw_density, draw_training, histogram_panels, save_figure
from vadd.report.images import draw, grid_with_names, image_grid, save_image, square_grid, tokens_to_images
from vadd.report.page import png_data_uri
from vadd.words import plural

if TYPE_CHECKING:
    from vadd.run.run import Run

TEXT_COLUMNS = 60


class ShownFigure(Figure):
    """Shows itself in a notebook, whatever matplotlib's settings are there."""

    def _repr_png_(self) -> bytes:
        return as_png(self)


def as_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100, bbox_inches="tight", facecolor="white")
    return stream.getvalue()


def draw_points(axis: Axes, kind: Kind, tokens: Array) -> None:
    cells = np.arange(kind.vocab_size + 1) - 0.5
    density, _, _ = np.histogram2d(tokens[:, 0], tokens[:, 1], bins=[cells, cells])
    draw_density(axis, density)


def draw_images(axis: Axes, kind: Kind, tokens: Array) -> None:
    draw(axis, square_grid(tokens_to_images(tokens, kind.shape, kind.vocab_size)))


def draw_rows(axis: Axes, kind: Kind, tokens: Array) -> None:
    axis.imshow(tokens, cmap="viridis", vmin=0, vmax=kind.vocab_size - 1, interpolation="nearest", aspect="auto")
    axis.set_xlabel("position", fontsize=9)
    axis.set_ylabel("one sample a row", fontsize=9)


def draw_texts(axis: Axes, kind: Kind, tokens: Array) -> None:
    lines = [line for text in kind.texts(tokens) for line in _wrapped(text)]
    axis.set_axis_off()
    axis.text(0, 1, "\n".join(lines), family="monospace", fontsize=8, va="top", transform=axis.transAxes)


def _wrapped(text: str) -> list[str]:
    # A dollar would begin a formula.
    shown = "".join(letter if letter.isprintable() else " " for letter in text).replace("$", r"\$")
    return textwrap.wrap(shown, TEXT_COLUMNS + 2, initial_indent="· ", subsequent_indent="  ")


DRAWN = {
    "points": (5000, draw_points),
    "image": (36, draw_images),
    "array": (30, draw_rows),
    "table": (30, draw_rows),
    "text": (5, draw_texts),
}
"""By kind of example: how many samples a picture shows, and how."""


def draw_sample_file(kind: Kind, content: Array, labels: Sequence[str], out: Path) -> None:
    """Points by their counts (V, V); images (n, N) in a grid, of several labels a row for each."""
    if kind.name == "points":
        total = content.sum()
        save_figure(histogram_panels({"": [(f"{total:,} samples", content / total)]}), out)
        return
    images, scale = tokens_to_images(content, kind.shape, kind.vocab_size), _scale(kind)
    if len(labels) > 1:
        save_image(grid_with_names(images, labels, scale=scale), out)
    else:
        save_image(square_grid(images), out, scale=scale)


def draw_completions(kind: Kind, rows: Array, out: Path) -> None:
    """Images (n, columns, N) in rows, V where a pixel is masked."""
    images = tokens_to_images(rows.reshape(-1, rows.shape[-1]), kind.shape, kind.vocab_size, masks=True)
    save_image(image_grid(images, rows.shape[1]), out, scale=_scale(kind))


def _scale(kind: Kind) -> int:
    return max(1, 64 // kind.shape[0])


def plot_run(run: "Run", steps: int | None = None, seed: int = 0) -> ShownFigure:
    """How the training went, and samples drawn in so many ``steps``."""
    figure = ShownFigure(figsize=(9.2, 4), layout="constrained")
    objective_axis, samples_axis = figure.subplots(1, 2)
    records = {run.directory.path.name: list(run.directory.metrics())}
    draw_training(objective_axis, records, "loss", "objective, as a loss", "nats per position")
    objective_axis.legend(frameon=False, fontsize=8)
    _draw_run(samples_axis, run, steps, seed)
    return figure


def run_html(run: "Run") -> str:
    """The facts next to a picture of samples."""
    rows = "".join(
        f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
        f"<td style='text-align: left'>{html.escape(value)}</td></tr>"
        for name, value in {"run": str(run.directory.path), **run.facts}.items()
    )
    figure = ShownFigure(figsize=(3.4, 3.4), layout="constrained")
    _draw_run(figure.subplots(), run, None, 0)
    picture = f'<img alt="samples" src="{png_data_uri(as_png(figure))}">'
    return f"<div style='display: flex; gap: 1em; align-items: center'><table>{rows}</table>{picture}</div>"


def _draw_run(axis: Axes, run: "Run", steps: int | None, seed: int) -> None:
    count, draw_kind = DRAWN[run.kind.name]
    axis.set_xticks([])
    axis.set_yticks([])
    draw_kind(axis, run.kind, run.sample(count, steps=steps, seed=seed).cpu().numpy())
    axis.set_title("samples" if steps is None else f"samples in {plural(steps, 'step')}", fontsize=10)
