"""Examples of which a part is missing, and how their completions are shown and written."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vadd.errors import UserError, check_range, optional
from vadd.kinds.arrays import TO_FILL, Array, quantize, read_examples, read_integers
from vadd.kinds.files import numbers_as_csv, parquet_library

if TYPE_CHECKING:
    from PIL.Image import Image

    from vadd.kinds.kind import Kind


MOST_SHOWN = 20
Line = list[tuple[str, bool]]
"""Parts of a line for the terminal, with whether each was filled."""
Draw = Callable[["Kind", Array, Path], None]
"""Draws rows (n, columns, N) of examples to a file, V where a position is masked."""


@dataclass(frozen=True)
class Gaps:
    """Any numbers, -1 where one is missing; subclasses know texts, pictures and rows of a table."""

    kind: "Kind"
    x: Array
    """(n, N), -1 where there is something to fill."""
    suffixes: ClassVar[tuple[str, ...]] = (".npy", ".csv")
    needs_file: ClassVar[bool] = False

    @property
    def extents(self) -> list[slice]:
        """The part of each example that was asked for."""
        return [slice(None)] * len(self.x)

    @property
    def allowed(self) -> tuple[int, ...] | None:
        """How many values of each position a gap may be filled with; None: all."""
        return None

    def check_file(self, out: Path | None) -> None:
        """Refuse, before anything is drawn, what the completions cannot be written to."""
        if out is not None and out.suffix not in self.suffixes:
            raise UserError(f"these completions can be written as {' or '.join(self.suffixes)}, not to {out}")
        if out is not None and out.suffix == ".parquet":
            parquet_library(out)
        if out is None and self.needs_file:
            raise UserError(f"these completions need a file: --out FILE{' or '.join(self.suffixes)}")

    def lines(self, filled: Array) -> Iterator[Line]:
        """Completions (n, count, N) for the terminal."""
        rows = [(row, start) for completions, start in zip(filled, self.x, strict=True) for row in completions]
        for row, start in rows[:MOST_SHOWN]:
            parts = zip(row.tolist(), start == TO_FILL, strict=True)
            line = [part for value, gap in parts for part in ((str(value), bool(gap)), (" ", False))]
            yield line[:-1]
        if len(rows) > MOST_SHOWN:
            yield [(f"... {len(rows) - MOST_SHOWN} more; write them all with --out FILE.npy", False)]

    def write(self, filled: Array, out: Path, draw: Draw | None = None) -> None:
        if out.suffix == ".npy":
            np.save(out, filled.reshape(*filled.shape[:2], *self.kind.shape))
        else:
            out.write_bytes(numbers_as_csv(filled.reshape(-1, filled.shape[-1])))

    def probability_rows(self, filled: Array, chance: Array) -> Sequence[Sequence[str]]:
        raise UserError("--probabilities is for --table")


class PictureGaps(Gaps):
    suffixes = (".png", ".npy")
    needs_file = True

    def write(self, filled: Array, out: Path, draw: Draw | None = None) -> None:
        """As a picture a row for each image: what was given, then its completions."""
        if out.suffix == ".npy" or draw is None:
            super().write(filled, out)
            return
        masked = np.where(self.x == TO_FILL, self.kind.vocab_size, self.x)
        draw(self.kind, np.concatenate([masked[:, None], filled], axis=1), out)


def picture_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(height, width, channels) of examples that are images, (H, W) or (H, W, C)."""
    if len(shape) not in (2, 3) or (*shape, 1)[2] not in (1, 3):
        raise UserError(f"this model's examples are not images: they have the shape {tuple(shape)}")
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def read_pictures(path: Path, shape: Sequence[int], vocab_size: int) -> Array:
    """One image from a picture file, or one or several from an .npy of integers in 0..V-1: (n, N)."""
    height, width, channels = picture_shape(shape)
    if path.suffix != ".npy":
        pixels = np.asarray(open_image(path, channels))
        _check_size(path, pixels.shape[:2], (height, width))
        return quantize(pixels.reshape(1, -1), vocab_size).astype(np.int64)
    images = read_examples(path, (height, width, channels))
    check_range(int(images.min()), int(images.max()), vocab_size, f"{path} holds the value")
    return images.astype(np.int64)


def read_mask(path: Path, shape: Sequence[int]) -> Array:
    """(N,) bool, true where the mask is white (an .npy: not 0)."""
    height, width, channels = picture_shape(shape)
    white = read_integers(path) != 0 if path.suffix == ".npy" else np.asarray(open_image(path, 1)) >= 128
    _check_size(path, white.shape, (height, width))
    if not white.any():
        raise UserError(f"the mask {path} is black everywhere: there is nothing to fill")
    return np.broadcast_to(white[..., None], (height, width, channels)).reshape(-1)


def half_mask(keep: str, shape: Sequence[int]) -> Array:
    """(N,) bool, all but the half to be kept (top, bottom, left or right), the larger one of an odd size."""
    height, width, channels = picture_shape(shape)
    row, column, _ = np.indices((height, width, channels))
    tall, wide = height // 2, width // 2
    fill: dict[str, Array] = {
        "top": row >= height - tall,
        "bottom": row < tall,
        "left": column >= width - wide,
        "right": column < wide,
    }
    return fill[keep].reshape(-1)


def _check_size(path: Path, size: Sequence[int], needed: tuple[int, int]) -> None:
    if tuple(size) != needed:
        sizes = " x ".join(map(str, reversed(size)))
        raise UserError(f"{path} is {sizes} pixels; the model's images are {needed[1]} x {needed[0]}")


def open_image(path: Path, channels: int) -> "Image":
    """Upright, opaque and in its own size, in grey (1 channel) or colour (3)."""
    optional("PIL", "reading images needs Pillow", "images")
    from PIL import Image, ImageOps

    try:
        # Pillow warns of files that are odd but readable, and of pictures that take gigabytes: those are refused.
        with warnings.catch_warnings(action="ignore"), Image.open(path) as opened:
            if Image.MAX_IMAGE_PIXELS is not None and math.prod(opened.size) > Image.MAX_IMAGE_PIXELS:
                raise ValueError(f"{opened.width} x {opened.height} are more than {Image.MAX_IMAGE_PIXELS:,} pixels")
            upright = _eight_bits(ImageOps.exif_transpose(opened))
            if upright.has_transparency_data:  # shows white
                layer = upright.convert("RGBA")
                upright = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
            return upright.convert("L" if channels == 1 else "RGB")
    except Exception as error:  # the decoders of damaged files raise whatever they stumble over
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} is not a readable image: {reason}") from None


def _eight_bits(image: "Image") -> "Image":
    """Pillow clips deep grey images at 255 instead of scaling them: do it here."""
    from PIL import Image

    if image.mode == "F":
        raise ValueError("floating-point pixels are not supported")
    if not image.mode.startswith("I"):
        return image
    deep = np.asarray(image)
    if deep.min() < 0 or deep.max() > 0xFFFF:
        raise ValueError("more than 16 bits per pixel are not supported")
    return Image.fromarray((deep >> 8).astype(np.uint8))
