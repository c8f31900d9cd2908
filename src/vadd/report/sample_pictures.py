"""Samples and completions in a picture file, by the kind of the examples."""

from collections.abc import Sequence
from pathlib import Path

from vadd.kinds import Array, Kind
from vadd.report.figures import histogram_panels, save_figure
from vadd.report.images import grid_with_names, image_grid, save_image, square_grid, tokens_to_images


def draw_sample_file(kind: Kind, content: Array, labels: Sequence[str], out: Path) -> None:
    """Points by their counts (V, V); images (n, N) in a grid, of several labels a row for each."""
    if kind.name == "points":
        total = content.sum()
        save_figure(histogram_panels({"": [(f"{total} samples", content / total)]}), out)
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
