"""A picture of samples, whatever they are: points, images, rows of values, texts. Arrays in, figures out."""

import base64
import html
import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vadd.report.images import draw, square_grid, tokens_to_images
from vadd.words import plural

if TYPE_CHECKING:
    from vadd.run.run import Run

Array = np.ndarray[Any, np.dtype[Any]]

MOST_ROWS = 40
TEXT_COLUMNS = 60
SHOWN, SHOWN_ROWS = {"points": 5000, "image": 36, "text": 5}, 30
"""Samples in the picture of a run, by the kind of its examples."""


class ShownFigure(Figure):
    """Shows itself in a notebook, whatever matplotlib was told there."""

    def _repr_png_(self) -> bytes:
        return as_png(self)


def as_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100, bbox_inches="tight", facecolor="white")
    return stream.getvalue()


def as_html_image(figure: Figure, alternative: str) -> str:
    encoded = base64.b64encode(as_png(figure)).decode()
    return f'<img alt="{alternative}" src="data:image/png;base64,{encoded}">'


def draw_samples(
    axis: Axes, tokens: Array, shape: Sequence[int], vocab_size: int, texts: Sequence[str] | None = None
) -> None:
    """Samples (n, N): two positions as points, images as a grid, ``texts`` as text, anything else a row each."""
    axis.set_xticks([])
    axis.set_yticks([])
    if texts is not None:
        lines = [line for text in texts for line in _wrapped(text)]
        axis.set_axis_off()
        axis.text(0, 1, "\n".join(lines), family="monospace", fontsize=8, va="top", transform=axis.transAxes)
    elif len(shape) == 3 and shape[2] in (1, 3):
        draw(axis, square_grid(tokens_to_images(tokens, shape, vocab_size)))
    elif np.shape(tokens)[1] == 2:
        cells = np.arange(vocab_size + 1) - 0.5
        density, _, _ = np.histogram2d(tokens[:, 0], tokens[:, 1], bins=[cells, cells])
        axis.imshow(density.T, origin="lower", cmap="magma", interpolation="nearest")
    else:
        rows = np.asarray(tokens)[:MOST_ROWS]
        axis.imshow(rows, cmap="viridis", vmin=0, vmax=vocab_size - 1, interpolation="nearest", aspect="auto")
        axis.set_xlabel("position", fontsize=9)
        axis.set_ylabel("one sample a row", fontsize=9)


def _wrapped(text: str) -> list[str]:
    # A dollar would begin a formula.
    shown = "".join(letter if letter.isprintable() else " " for letter in text).replace("$", r"\$")
    return [
        "· " + line if not number else "  " + line for number, line in enumerate(textwrap.wrap(shown, TEXT_COLUMNS))
    ]


def draw_objective(axis: Axes, records: Sequence[Any]) -> None:
    """The training's objective and the held-out one against the steps, from the lines of ``metrics.jsonl``."""
    for split, style in (("train", {"alpha": 0.45, "linewidth": 1}), ("test", {"marker": ".", "linewidth": 1.5})):
        chosen = [record for record in records if record["split"] == split]
        label = "batches of the training" if split == "train" else "held-out, averaged weights"
        axis.plot([r["step"] for r in chosen], [r["loss"] for r in chosen], label=label, **style)
    axis.set_xlabel("training step", fontsize=9)
    axis.set_ylabel("objective as a loss, nats per position", fontsize=9)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)


def plot_run(run: "Run", steps: int | None = None, seed: int = 0) -> ShownFigure:
    """How the training went, and samples drawn in so many ``steps``."""
    figure = ShownFigure(figsize=(9.2, 4), layout="constrained")
    objective_axis, samples_axis = figure.subplots(1, 2)
    draw_objective(objective_axis, list(run.directory.metrics()))
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
    picture = as_html_image(figure, "samples")
    return f"<div style='display: flex; gap: 1em; align-items: center'><table>{rows}</table>{picture}</div>"


def _draw_run(axis: Axes, run: "Run", steps: int | None, seed: int) -> None:
    drawn = run.sample(SHOWN.get(run.kind.name, SHOWN_ROWS), steps=steps, seed=seed)
    texts = run.texts(drawn) if run.kind.name == "text" else None
    draw_samples(axis, drawn.cpu().numpy(), run.shape, run.kind.vocab_size, texts)
    axis.set_title("samples" if steps is None else f"samples in {plural(steps, 'step')}", fontsize=10)
