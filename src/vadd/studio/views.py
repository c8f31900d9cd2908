"""How the samples of a run look on the page, by the kind of its examples.

What comes from a model is escaped here, and nothing else writes it into the page.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import matplotlib
import numpy as np
from markupsafe import Markup

from vadd.kinds import TableKind
from vadd.kinds.arrays import Array
from vadd.report import images
from vadd.report.trajectory import histories_of, png_uri, text_gif
from vadd.run.run import Run
from vadd.studio.widgets import NOTHING

RECORDED_VALUES = 4_000_000
"""Of the states of a trajectory that a visitor's session keeps."""
GRID_SIDE = 320


class View(ABC):
    """Shows samples (n, N) of one run, V where a position is masked."""

    count: ClassVar[int] = 20
    """Samples that are drawn first, and the most that may be asked for."""
    most: ClassVar[int] = 10_000
    shown: ClassVar[int] = 20
    """Rows on the page; more go to the files alone."""
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".npy")
    """Of the files to download, as ``vadd sample --out`` writes them."""

    def __init__(self, run: Run) -> None:
        self.run, self.kind = run, run.kind
        self.vocab_size, self.positions = run.kind.vocab_size, run.kind.positions

    def recorded(self, count: int, steps: int) -> int:
        """Of so many samples, the trajectories that can be kept."""
        return max(1, min(count, RECORDED_VALUES // ((steps + 1) * self.positions)))

    @abstractmethod
    def show(self, tokens: Array) -> Markup: ...

    @abstractmethod
    def show_state(self, states: Array, step: int) -> Markup:
        """(steps + 1, n, N) after a step, masked positions marked."""

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        """Files to download, whose names begin with ``stem``."""
        files = [stem.with_name(f"{stem.name}{suffix}") for suffix in self.suffixes]
        for file in files:
            with self.kind.sample_file(file, len(tokens)) as write:
                write(tokens)
        return files

    def thumbnails(self, tokens: Array) -> Array:
        """(n, H, W, 3) bytes: a square for each position, coloured by its value."""
        width = math.ceil(math.sqrt(self.positions))
        height = math.ceil(self.positions / width)
        colours = matplotlib.colormaps["viridis"](tokens / max(1, self.vocab_size - 1))[..., :3]
        tiles = np.full((len(tokens), height * width, 3), images.MASK_COLOUR, np.uint8)
        tiles[:, : self.positions] = np.rint(255 * colours)
        return tiles.reshape(-1, height, width, 3)

    def more(self, tokens: Array) -> str:
        return f"... {len(tokens) - self.shown} more in the files" if len(tokens) > self.shown else ""


class PictureView(View):
    """All samples in one picture."""

    suffixes = (".npy",)

    @abstractmethod
    def picture(self, tokens: Array) -> Array:
        """(H, W, C) bytes"""

    def show(self, tokens: Array) -> Markup:
        return pixels(self.picture(tokens), f"{len(tokens)} samples")

    def show_state(self, states: Array, step: int) -> Markup:
        return pixels(self.picture(states[step]), f"{states.shape[1]} samples after step {step}")

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        whole = self.picture(tokens)
        scale = max(1, GRID_SIDE // max(whole.shape[:2]))
        picture = images.save_image(whole, stem.with_name(f"{stem.name}.png"), scale=scale)
        frames = [images.as_pillow(images.enlarged(self.picture(state), scale)) for state in states]
        times = [150] * (len(frames) - 1) + [1500]
        animation = images.save_animation(stem.with_name(f"{stem.name}.gif"), frames, times)
        return [picture, animation, *super().write(tokens, states, stem)]


class ImageView(PictureView):
    count, most = 64, 256

    def picture(self, tokens: Array) -> Array:
        return images.square_grid(self.thumbnails(tokens))

    def thumbnails(self, tokens: Array) -> Array:
        """Masked pixels are grey."""
        return images.tokens_to_images(tokens, self.kind.shape, self.vocab_size, masks=True)

    def row(self, tokens: Array, columns: int) -> Markup:
        return pixels(images.image_grid(self.thumbnails(tokens), columns), f"{len(tokens)} images")


class PointView(PictureView):
    """Examples of two positions on the plane. Points of which a coordinate is masked stand at the edge."""

    count, most = 5_000, 100_000

    def picture(self, tokens: Array, values: int = 2**16) -> Array:
        """(V + edge, V + edge, 3): the first coordinate to the right, the second upwards; of more than ``values``
        values neighbours are joined.
        """
        width = math.ceil(self.vocab_size / values)
        size, edge, tokens = math.ceil(self.vocab_size / width), 3 if self.vocab_size >= 32 else 2, tokens // width
        counts = np.zeros((size + 1, size + 1))
        np.add.at(counts, (tokens[:, 0], tokens[:, 1]), 1)
        known = counts[:size, :size]
        top = max(1.0, float(np.quantile(known[known > 0], 0.99, method="higher"))) if known.any() else 1.0
        picture = np.full((size + edge, size + edge, 3), images.MASK_COLOUR, np.uint8)
        picture[edge:, edge:] = np.rint(255 * matplotlib.colormaps["magma"](np.minimum(known / top, 1))[..., :3])
        picture[edge:, : edge - 1] = _tinted(counts[:size, size])[:, None]
        picture[: edge - 1, edge:] = _tinted(counts[size, :size])[None]
        turned: Array = picture.swapaxes(0, 1)[::-1]
        return turned


class NumberView(View):
    """One sample below the other, token by token."""

    def show(self, tokens: Array) -> Markup:
        return texts(self.kind.lines(tokens[: self.shown])) + self.more(tokens)

    def show_state(self, states: Array, step: int) -> Markup:
        plain, hidden = Markup("{}"), Markup('<span class="masked">{}</span>')
        histories = histories_of(states[:, : self.shown], self.kind)
        rows = [[(hidden if each.at(step) is None else plain).format(each.piece) for each in row] for row in histories]
        return texts([NOTHING.join(row) for row in rows])

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        histories = histories_of(states[:, : self.shown], self.kind)
        animation = text_gif(stem.with_name(f"{stem.name}.gif"), histories, len(states) - 1)
        return [*super().write(tokens, states, stem), animation]


class TextView(NumberView):
    count, most, shown, suffixes = 8, 64, 64, (".txt", ".npy")

    def show(self, tokens: Array) -> Markup:
        return texts(self.kind.texts(tokens))


class TableView(View):
    """Rows of a table, with its own words in the cells."""

    def show(self, tokens: Array) -> Markup:
        return self.rows(tokens[: self.shown]) + self.more(tokens)

    def show_state(self, states: Array, step: int) -> Markup:
        return self.rows(states[step][: self.shown])

    def rows(self, tokens: Array) -> Markup:
        assert isinstance(self.kind, TableKind)
        codec, masked = self.kind.codec, tokens == self.vocab_size
        plain, hidden = Markup("<td>{}</td>"), Markup('<td><span class="masked">{}</span></td>')
        cells = zip(self.kind.rows(np.where(masked, 0, tokens)), masked[:, codec.origins], strict=True)
        written = [[(hidden if m else plain).format(c) for c, m in zip(*row, strict=True)] for row in cells]
        return table(codec.names, written)


VIEWS: dict[str, type[View]] = {
    "image": ImageView,
    "points": PointView,
    "text": TextView,
    "array": NumberView,
    "table": TableView,
}
"""By the name of the kind of examples."""


def view_of(run: Run) -> View:
    return VIEWS[run.kind.name](run)


def pixels(image: Array, about: str) -> Markup:
    """An image (H, W, C) in the page itself: one request fewer, and no file."""
    return Markup('<img class="pixels" src="{}" alt="{}">').format(png_uri(image), about)


def texts(lines: Sequence[str]) -> Markup:
    return NOTHING.join(Markup('<pre class="sample">{}</pre>').format(line) for line in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[Markup]]) -> Markup:
    """Of cells ``<td>``."""
    names = NOTHING.join(Markup("<th>{}</th>").format(name) for name in head)
    lines = NOTHING.join(Markup("<tr>{}</tr>").format(NOTHING.join(row)) for row in rows)
    shown = '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(shown).format(names, lines)


def _tinted(counts: Array) -> Array:
    """(V, 3): the colour of the mask, darker where more points wait."""
    share = np.minimum(counts / max(1.0, counts.max()), 1)[:, None]
    tinted: Array = np.rint(np.array(images.MASK_COLOUR) * (1 - 0.8 * share)).astype(np.uint8)
    return tinted
