"""How samples come about: states (steps + 1, n, N) in, in which the value V is the mask; a page or an animation out.

Everything is coloured by the step at which it was revealed, of what was masked again in between by the last. What was
given from the start has no colour.
"""

import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.kind import Kind
from vadd.report import images
from vadd.report.figures import save_figure
from vadd.report.page import png_data_uri, rendered

SCALE = matplotlib.colormaps["plasma"]
SCALE_ENDS = 0.1, 0.88
"""The palest yellow is not seen on white."""
IMAGE_SIDE = 208
COLUMNS, SIZE, MARGIN = 72, 15, 12
"""Of an animation of text: characters in a line, and pixels."""
INK, HIDDEN, SOFT = "#1d2733", "#c3cbd4", "#5b6b7b"


@dataclass(frozen=True)
class Token:
    """What one position of a sample showed, from the start to the end."""

    changes: tuple[tuple[int, str | None], ...]
    """From which step on what was written there, None for the mask; the first from step 0."""
    revealed: int
    """The step that revealed what stands there in the end, 0 where it was given."""

    @property
    def piece(self) -> str:
        """What stands there in the end."""
        return self.changes[-1][1] or ""

    def at(self, step: int) -> str | None:
        return [piece for first, piece in self.changes if first <= step][-1]


def reveal_steps(states: Array, mask: int) -> Array:
    """(n, N): the step at which each position was last revealed, 0 where it was given."""
    states = images.as_trajectory(states)
    revealed = (states[:-1] == mask) & (states[1:] != mask)
    last = len(revealed) - revealed[::-1].argmax(axis=0)
    steps: Array = np.where(revealed.any(axis=0), last, 0)
    return steps


def token_histories(
    states: Array, mask: int, pieces: Sequence[Sequence[str]], piece_of: Callable[[int], str]
) -> list[list[Token]]:
    """For n samples of N positions: ``pieces`` (n, N) is what stands there in the end, ``piece_of`` a value writes what
    stood there before and was taken back.
    """
    states = images.as_trajectory(states)
    steps = reveal_steps(states, mask)
    histories = []
    for sample, written in enumerate(pieces):
        row = []
        for position, final in enumerate(written):
            line = states[:, sample, position]
            changed = np.flatnonzero(np.append(True, line[1:] != line[:-1]))
            changes = [(int(step), None if line[step] == mask else piece_of(int(line[step]))) for step in changed]
            if line[-1] != mask:
                changes[-1] = (changes[-1][0], final)
            row.append(Token(tuple(changes), int(steps[sample, position])))
        histories.append(row)
    return histories


def histories_of(states: Array, kind: Kind) -> list[list[Token]]:
    """Texts token by token, anything else number by number."""
    return token_histories(states, kind.vocab_size, [kind.pieces(row) for row in states[-1]], kind.piece)


def colour(step: int, steps: int) -> str:
    """The colour, as #rrggbb, of what was revealed at a step 1..steps."""
    low, high = SCALE_ENDS
    place = (step - 1) / max(1, steps - 1)
    return str(matplotlib.colors.to_hex(SCALE(low + (high - low) * place)))


def text_page(histories: Sequence[Sequence[Token]], steps: int, title: str) -> str:
    """A page without anything from elsewhere: every token by the step that revealed it, and a slider over the steps."""
    samples = [
        [
            {
                "text": visible(token.piece),
                "colour": colour(token.revealed, steps) if token.revealed else "",
                "step": token.revealed,
                "changes": json.dumps([(step, None if p is None else visible(p)) for step, p in token.changes]),
            }
            for token in row
        ]
        for row in histories
    ]
    return _page(title, steps, texts=samples)


def visible(piece: str) -> str:
    """A line break is shown, so that its colour is."""
    return piece.replace("\n", "↵\n")


def image_page(states: Array, shape: Sequence[int], vocab_size: int, title: str) -> str:
    """The same for images: all states of each, and when each of its pixels was revealed."""
    states = images.as_trajectory(states)
    steps = len(states) - 1
    columns = math.ceil(math.sqrt(steps + 1))  # browsers refuse very long pictures
    side = max(shape[:2])
    pictures = []
    for sample, when in enumerate(_when_revealed(states, shape, vocab_size)):
        frames = images.tokens_to_images(states[:, sample], shape, vocab_size, masks=True)
        pictures.append({"frames": png_uri(images.image_grid(frames, columns, separator=0)), "when": png_uri(when)})
    size = {"width": shape[1] * IMAGE_SIDE // side, "height": shape[0] * IMAGE_SIDE // side}
    return _page(title, steps, images=pictures, columns=columns, rows=-(-(steps + 1) // columns), **size)


def _when_revealed(states: Array, shape: Sequence[int], vocab_size: int) -> Array:
    """Images (n, H, W, 3) of the steps; of the channels of a pixel the last counts."""
    steps = reveal_steps(states, vocab_size).reshape(states.shape[1], *(*shape, 1)[:3]).max(axis=-1)
    total = len(states) - 1
    palette = [images.MASK_COLOUR, *(tuple(bytes.fromhex(colour(step, total)[1:])) for step in range(1, total + 1))]
    shown: Array = np.array(palette, np.uint8)[steps]
    return shown


def png_uri(image: Array) -> str:
    """As a data URI."""
    written = io.BytesIO()
    images.as_pillow(image).save(written, format="PNG")
    return png_data_uri(written.getvalue())


def _page(title: str, steps: int, **content: object) -> str:
    scale = [colour(1 + round(place * max(0, steps - 1) / 11), steps) for place in range(12)]
    mask = "#" + bytes(images.MASK_COLOUR).hex()
    return rendered("trajectory.html", title=title, steps=steps, scale=scale, mask=mask, **content)


def check_trajectory(kind: Kind, out: Path | None) -> None:
    """Refuse a format that does not fit, before anything is drawn."""
    if out is not None and out.suffix == ".png" and kind.name != "image":
        raise UserError(f"a trajectory as .png is for images; write this one as .html, .gif or .npz, not {out}")


def write_trajectory(kind: Kind, states: Array, out: Path, name: str, extents: Sequence[slice] | None = None) -> None:
    """``states`` (steps + 1, n, N) of samples of the run ``name`` in the format of the suffix. ``extents`` say which
    part of each sample a page or an animation of text shows, by default the whole.
    """
    steps, title = len(states) - 1, f"{name}: {len(states) - 1} steps"
    if out.suffix == ".npz":
        np.savez_compressed(out, states=states, mask=kind.vocab_size)
    elif kind.name == "image":
        if out.suffix == ".gif":
            images.denoising_gif(out, states, kind.shape, kind.vocab_size)
        elif out.suffix == ".png":
            save_figure(images.denoising_strip(states, kind.shape, kind.vocab_size), out)
        else:
            out.write_text(image_page(states, kind.shape, kind.vocab_size, title), encoding="utf-8")
    else:
        histories = histories_of(states, kind)
        if extents is not None:
            histories = [row[extent] for row, extent in zip(histories, extents[: len(histories)], strict=True)]
        if out.suffix == ".gif":
            text_gif(out, histories, steps)
        else:
            out.write_text(text_page(histories, steps, title), encoding="utf-8")


def text_gif(
    path: Path, histories: Sequence[Sequence[Token]], steps: int, *, milliseconds: int = 150, hold: int = 2500
) -> Path:
    """All samples one below the other, a frame for each of the states 0..steps."""
    dot = images.as_pillow(np.full((1, 1, 3), 255, np.uint8))
    from PIL import ImageDraw, ImageFont

    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans Mono"), SIZE)  # matplotlib brings it along
    wide, tall = round(font.getlength("m")), round(1.5 * SIZE)
    laid_out = [[_cells(row, step) for row in histories] for step in range(steps + 1)]
    heights = [
        max(1 + max((line for _, line, _, _ in frame[n]), default=0) for frame in laid_out)
        for n in range(len(histories))
    ]
    size = (2 * MARGIN + COLUMNS * wide, 2 * MARGIN + tall * (sum(heights) + len(heights) - 1))
    frames: list[Any] = []
    for frame in laid_out:
        picture = dot.resize(size)
        draw = ImageDraw.Draw(picture)
        top = MARGIN
        for cells, height in zip(frame, heights, strict=True):
            for column, line, character, token in cells:
                left, above = MARGIN + column * wide, top + line * tall
                if token.revealed:
                    tint = HIDDEN if character is None else mixed(colour(token.revealed, steps))
                    draw.rectangle((left, above + 2, left + wide - 1, above + tall - 3), fill=tint)
                if character is not None and character.strip():
                    draw.text((left, above + 1), character, font=font, fill=SOFT if character == "↵" else INK)
            top += (height + 1) * tall
        frames.append(picture)
    return images.save_animation(path, frames, [milliseconds] * steps + [hold])


def mixed(hexadecimal: str, share: float = 0.4) -> str:
    """A colour thinned with white, so that text on it can be read."""
    return "#" + bytes(round(255 - share * (255 - part)) for part in bytes.fromhex(hexadecimal[1:])).hex()


def _cells(row: Sequence[Token], step: int) -> list[tuple[int, int, str | None, Token]]:
    """(column, line, character or None where it is masked, token); a masked token takes the space of its piece."""
    cells: list[tuple[int, int, str | None, Token]] = []
    column = line = 0
    for token in row:
        piece = token.at(step)
        for character in visible(token.piece if piece is None else piece):
            if character == "\n":
                column, line = 0, line + 1
                continue
            if column == COLUMNS:
                column, line = 0, line + 1
            cells.append((column, line, None if piece is None else character, token))
            column += 1
    return cells
