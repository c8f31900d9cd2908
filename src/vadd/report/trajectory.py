"""How samples come about, to look at: states (steps + 1, n, N) in, in which the value V is the mask; a page, an
animation or a picture out. Nothing here knows about models.

Everything is coloured by the step at which it was revealed, of what was masked again in between by the last. What was
given from the start has no colour.
"""

import base64
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

import matplotlib
import numpy as np
from jinja2 import Environment

from vadd.kinds import Kind
from vadd.report.images import (
    MASK_COLOUR,
    Array,
    as_pillow,
    as_trajectory,
    image_grid,
    tokens_to_images,
)
from vadd.version import __version__

SCALE = matplotlib.colormaps["plasma"]
SCALE_ENDS = 0.1, 0.88
"""The palest yellow is not seen on white."""
IMAGE_SIDE = 208


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
    states = as_trajectory(states)
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
    states = as_trajectory(states)
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
    states = as_trajectory(states)
    steps = len(states) - 1
    columns = math.ceil(math.sqrt(steps + 1))  # browsers refuse very long pictures
    side = max(shape[:2])
    pictures = []
    for sample, when in enumerate(_when_revealed(states, shape, vocab_size)):
        frames = tokens_to_images(states[:, sample], shape, vocab_size, masks=True)
        pictures.append({"frames": png_uri(image_grid(frames, columns, separator=0)), "when": png_uri(when)})
    size = {"width": shape[1] * IMAGE_SIDE // side, "height": shape[0] * IMAGE_SIDE // side}
    return _page(title, steps, images=pictures, columns=columns, rows=-(-(steps + 1) // columns), **size)


def _when_revealed(states: Array, shape: Sequence[int], vocab_size: int) -> Array:
    """Images (n, H, W, 3) of the steps; of the channels of a pixel the last counts."""
    steps = reveal_steps(states, vocab_size).reshape(states.shape[1], *(*shape, 1)[:3]).max(axis=-1)
    total = len(states) - 1
    palette = [MASK_COLOUR, *(_rgb(colour(step, total)) for step in range(1, total + 1))]
    images: Array = np.array(palette, np.uint8)[steps]
    return images


def _rgb(hexadecimal: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(hexadecimal.removeprefix("#"))
    return red, green, blue


def png_uri(image: Array) -> str:
    """As a data URI."""
    written = io.BytesIO()
    as_pillow(image).save(written, format="PNG")
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode()


def _page(title: str, steps: int, **content: object) -> str:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(resources.files("vadd").joinpath("report", "trajectory.html").read_text())
    scale = [colour(1 + round(place * max(0, steps - 1) / 11), steps) for place in range(12)]
    mask = "#" + bytes(MASK_COLOUR).hex()
    return template.render(title=title, steps=steps, scale=scale, mask=mask, version=__version__, **content)
