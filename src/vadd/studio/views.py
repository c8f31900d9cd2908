"""How the samples of a run look on the page: images, points, texts or numbers. What comes from a model is escaped here,
once, and nothing else writes it into the page.
"""

import csv
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from markupsafe import Markup, escape

from vadd.kinds.arrays import Array
from vadd.run.run import Run
from vadd.run.tables import table_of

RECORDED_VALUES = 4_000_000
"""Of the states of a trajectory that a visitor's session keeps."""
GRID_SIDE = 320
SHOWN_ROWS = 20
NOTHING = Markup("")


class View(ABC):
    """Shows samples (n, N) of one run, V where a position is masked."""

    count: ClassVar[int]
    """Samples that a visitor sees first, and the most that may be asked for."""
    most: ClassVar[int]

    def __init__(self, run: Run) -> None:
        self.run = run
        self.vocab_size, self.shape, self.positions = run.model.vocab_size, run.shape, run.model.positions

    def recorded(self, count: int, steps: int) -> int:
        """Of so many samples, the trajectories that can be kept."""
        return max(1, min(count, RECORDED_VALUES // ((steps + 1) * self.positions)))

    @abstractmethod
    def show(self, tokens: Array) -> Markup:
        """Finished samples."""

    @abstractmethod
    def show_state(self, states: Array, step: int) -> Markup:
        """What (steps + 1, n, N) looked like after a step, masked positions marked."""

    @abstractmethod
    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        """Files for somebody to keep, whose names begin with ``stem``."""

    def write_numbers(self, tokens: Array, stem: Path) -> Path:
        file = stem.with_name(f"{stem.name}.npy")
        np.save(file, tokens.reshape(len(tokens), *self.shape))
        return file


class ImageView(View):
    count, most = 64, 256

    def show(self, tokens: Array) -> Markup:
        return pixels(self._grid(tokens), f"{len(tokens)} images")

    def show_state(self, states: Array, step: int) -> Markup:
        return pixels(self._grid(states[step]), f"{states.shape[1]} images after step {step}")

    def row(self, tokens: Array, columns: int) -> Markup:
        """Side by side, as many in a row."""
        from vadd.report.images import image_grid

        return pixels(image_grid(self.images(tokens), columns), f"{len(tokens)} images")

    def images(self, tokens: Array) -> Array:
        """(n, H, W, 3) bytes, masked pixels grey."""
        from vadd.report.images import tokens_to_images

        return tokens_to_images(tokens, self.shape, self.vocab_size, masks=True)

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        from vadd.report.images import denoising_gif, save_image

        grid = self._grid(tokens)
        scale = max(1, GRID_SIDE // max(grid.shape[:2]))
        picture = save_image(grid, stem.with_name(f"{stem.name}.png"), scale=scale)
        animation = denoising_gif(stem.with_name(f"{stem.name}.gif"), states, self.shape, self.vocab_size)
        return [picture, animation, self.write_numbers(tokens, stem)]

    def _grid(self, tokens: Array) -> Array:
        from vadd.report.images import square_grid

        return square_grid(self.images(tokens))


class PointView(View):
    """Examples of two positions: where they fall on the plane. Points of which a coordinate is masked stand at the
    edge.
    """

    count, most = 5_000, 100_000

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.edge = 3 if self.vocab_size >= 32 else 2

    def show(self, tokens: Array) -> Markup:
        return pixels(self._plane(tokens), f"{len(tokens)} points")

    def show_state(self, states: Array, step: int) -> Markup:
        return pixels(self._plane(states[step]), f"{states.shape[1]} points after step {step}")

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        from vadd.report.images import as_pillow, enlarged, save_animation, save_image

        plane = self._plane(tokens)
        scale = max(1, GRID_SIDE // len(plane))
        picture = save_image(plane, stem.with_name(f"{stem.name}.png"), scale=scale)
        frames = [as_pillow(enlarged(self._plane(state), scale)) for state in states]
        times = [150] * (len(frames) - 1) + [1500]
        animation = save_animation(stem.with_name(f"{stem.name}.gif"), frames, times)
        return [picture, animation, self.write_numbers(tokens, stem)]

    def _plane(self, tokens: Array) -> Array:
        """(V + edge, V + edge, 3): the second coordinate upwards; at the left and below what is known of the rest."""
        import matplotlib

        from vadd.report.images import MASK_COLOUR

        size = self.vocab_size
        counts = np.zeros((size + 1, size + 1))
        np.add.at(counts, (tokens[:, 0], tokens[:, 1]), 1)
        top = max(
            1.0,
            float(np.quantile(counts[:size, :size][counts[:size, :size] > 0], 0.99, method="higher"))
            if counts[:size, :size].any()
            else 1.0,
        )
        colours = matplotlib.colormaps["magma"](np.minimum(counts / top, 1))[..., :3]
        picture = np.full((size + self.edge, size + self.edge, 3), MASK_COLOUR, np.uint8)
        inside = np.rint(255 * colours).astype(np.uint8)
        picture[self.edge :, self.edge :] = inside[:size, :size]
        for edge in range(self.edge - 1):
            picture[self.edge :, edge] = _tinted(counts[:size, size], MASK_COLOUR)
            picture[edge, self.edge :] = _tinted(counts[size, :size], MASK_COLOUR)
        # Rows of the array are the first coordinate; on the plane it goes to the right, the second upwards.
        turned: Array = picture.swapaxes(0, 1)[::-1]
        return turned


class TextView(View):
    count, most = 8, 64

    def show(self, tokens: Array) -> Markup:
        return texts(self.run.texts(tokens))

    def show_state(self, states: Array, step: int) -> Markup:
        return _histories(self.run, states, step)

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        written = stem.with_name(f"{stem.name}.txt")
        named = enumerate(self.run.texts(tokens), start=1)
        written.write_text("\n".join(f"--- {number} ---\n{text}\n" for number, text in named), encoding="utf-8")
        return [written, _write_gif(self.run, states, stem), self.write_numbers(tokens, stem)]


class NumberView(View):
    count, most = SHOWN_ROWS, 10_000

    def show(self, tokens: Array) -> Markup:
        more = f"... {len(tokens) - SHOWN_ROWS} more in the files" if len(tokens) > SHOWN_ROWS else ""
        return texts([" ".join(map(str, row)) for row in tokens[:SHOWN_ROWS].tolist()]) + escape(more)

    def show_state(self, states: Array, step: int) -> Markup:
        return _histories(self.run, states[:, :SHOWN_ROWS], step)

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        written = stem.with_name(f"{stem.name}.csv")
        np.savetxt(written, tokens, fmt="%d", delimiter=",")
        return [written, _write_gif(self.run, states[:, :SHOWN_ROWS], stem), self.write_numbers(tokens, stem)]


class TableView(View):
    """Rows of a table, in its own words."""

    count, most = SHOWN_ROWS, 10_000

    def show(self, tokens: Array) -> Markup:
        more = f"... {len(tokens) - SHOWN_ROWS} more in the files" if len(tokens) > SHOWN_ROWS else ""
        return self.rows(tokens[:SHOWN_ROWS]) + escape(more)

    def show_state(self, states: Array, step: int) -> Markup:
        return self.rows(states[step][:SHOWN_ROWS])

    def rows(self, tokens: Array) -> Markup:
        masked = tokens == self.vocab_size
        plain, hidden = Markup("<td>{}</td>"), Markup('<td><span class="masked">{}</span></td>')
        cells = zip(self.spelled(np.where(masked, 0, tokens)), masked, strict=True)
        written = [[(hidden if m else plain).format(c) for c, m in zip(*row, strict=True)] for row in cells]
        return table(table_of(self.run).names, written)

    def spelled(self, tokens: Array) -> list[list[str]]:
        codec = table_of(self.run)
        return codec.spelled(codec.decode(tokens))

    def write(self, tokens: Array, states: Array, stem: Path) -> list[Path]:
        written = stem.with_name(f"{stem.name}.csv")
        with written.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([table_of(self.run).names, *self.spelled(tokens)])
        return [written, self.write_numbers(tokens, stem)]


VIEWS: dict[str, type[View]] = {
    "image": ImageView,
    "points": PointView,
    "text": TextView,
    "array": NumberView,
    "table": TableView,
}
"""By the kind of examples."""


def view_of(run: Run) -> View:
    return VIEWS[run.kind.name](run)


def pixels(image: Array, about: str) -> Markup:
    """An image (H, W, C) in the page itself: one request fewer, and no file that lies about."""
    from vadd.report.trajectory import png_uri

    return Markup('<img class="pixels" src="{}" alt="{}">').format(png_uri(image), about)


def texts(lines: Sequence[str]) -> Markup:
    return NOTHING.join(Markup('<pre class="sample">{}</pre>').format(line) for line in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[Markup]]) -> Markup:
    """Of cells ``<td>``."""
    names = NOTHING.join(Markup("<th>{}</th>").format(name) for name in head)
    lines = NOTHING.join(Markup("<tr>{}</tr>").format(NOTHING.join(row)) for row in rows)
    shown = '<div class="scroll"><table class="numbers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(shown).format(names, lines)


def marked_text(parts: Sequence[tuple[str, bool]]) -> Markup:
    """A text of which parts were filled in."""
    written = (Markup("<mark>{}</mark>").format(text) if filled else escape(text) for text, filled in parts)
    return Markup('<pre class="sample">{}</pre>').format(NOTHING.join(written))


def card(title: str, content: Markup, note: str = "") -> Markup:
    return Markup('<figure class="card"><figcaption>{}</figcaption>{}<p class="note">{}</p></figure>').format(
        title, content, note
    )


def cards(content: Sequence[Markup]) -> str:
    return str(Markup('<div class="cards">{}</div>').format(NOTHING.join(content)))


def _tinted(counts: Array, colour: tuple[int, int, int]) -> Array:
    """(V, 3): the colour of the mask, darker the more points wait there."""
    share = np.minimum(counts / max(1.0, counts.max()), 1)[:, None]
    tinted: Array = np.rint(np.array(colour) * (1 - 0.8 * share)).astype(np.uint8)
    return tinted


def _histories(run: Run, states: Array, step: int) -> Markup:
    from vadd.report.trajectory import histories_of

    rows = []
    for row in histories_of(states, run.kind):
        written = [(token.piece, token.at(step) is None) for token in row]
        shown = (Markup('<span class="masked">{}</span>').format(p) if masked else escape(p) for p, masked in written)
        rows.append(Markup('<pre class="sample">{}</pre>').format(NOTHING.join(shown)))
    return NOTHING.join(rows)


def _write_gif(run: Run, states: Array, stem: Path) -> Path:
    from vadd.report.trajectory import histories_of, text_gif

    histories = histories_of(states, run.kind)
    return text_gif(stem.with_name(f"{stem.name}.gif"), histories, len(states) - 1)
