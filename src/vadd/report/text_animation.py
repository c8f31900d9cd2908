"""A text that comes about, as a GIF: one cell for each character, coloured by the step that revealed it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import font_manager

from vadd.errors import UserError
from vadd.report.images import save_animation
from vadd.report.trajectory import Token, colour, visible

COLUMNS = 72
SIZE = 15
MARGIN = 12
PAPER, INK, HIDDEN, SOFT = "#ffffff", "#1d2733", "#c3cbd4", "#5b6b7b"


def text_gif(
    path: Path, histories: Sequence[Sequence[Token]], steps: int, *, milliseconds: int = 150, hold: int = 2500
) -> Path:
    """All samples one below the other, a frame for each of the states 0..steps."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise UserError("writing pictures needs Pillow: pip install 'vadd[images]'") from None
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
        picture = Image.new("RGB", size, PAPER)
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
    return save_animation(path, frames, [milliseconds] * steps + [hold])


def mixed(hexadecimal: str, share: float = 0.4) -> str:
    """A colour thinned with white, so that text on it can be read."""
    parts = bytes.fromhex(hexadecimal.removeprefix("#"))
    return "#" + bytes(round(255 - share * (255 - part)) for part in parts).hex()


def _cells(row: Sequence[Token], step: int) -> list[tuple[int, int, str | None, Token]]:
    """(column, line, character or None where it is masked, token). A masked token takes the room of what it will be."""
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
