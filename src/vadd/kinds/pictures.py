"""Image files, and images of which a part is to be filled, in the size of a model's images: nothing is resized.

Needs Pillow, the extra ``images``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vadd.errors import UserError, check_range
from vadd.kinds.arrays import Array, quantize, read_integers

if TYPE_CHECKING:
    from PIL.Image import Image


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
    array = read_integers(path)
    one = [(height, width, channels)] + [(height, width)] * (channels == 1)
    several = array[None] if array.shape in one else array
    if several.shape[1:] not in one or not len(several):
        raise UserError(f"{path} has the shape {array.shape}; the model's images have {one[0]}")
    check_range(int(several.min()), int(several.max()), vocab_size, f"{path} holds the value")
    return several.reshape(len(several), -1).astype(np.int64)


def fill_mask(shape: Sequence[int], mask: Path | None, keep: str | None) -> Array:
    """(N,) bool, true where an image is to be filled: where the mask is white, or all but the half to keep."""
    if mask is not None:
        return read_mask(mask, shape)
    if keep is not None:
        return half_mask(keep, shape)
    raise UserError("which part of the image is to be filled? Give a --mask (white) or --keep one half")


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
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UserError("reading images needs Pillow; install it with: pip install 'vadd[images]'") from None
    try:
        with Image.open(path) as opened:
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
