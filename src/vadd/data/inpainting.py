"""Images of which a part is to be painted anew: files and masks in the size of a model's images, nothing resized."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from vadd.data.array import read_integers
from vadd.data.dataset import Array, quantize
from vadd.data.image_folder import open_image
from vadd.errors import UserError, check_range

Side = Literal["top", "bottom", "left", "right"]


def picture_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(height, width, channels) of examples that are images, (H, W) or (H, W, C)."""
    if len(shape) not in (2, 3) or (*shape, 1)[2] not in (1, 3):
        raise UserError(f"this model's examples are no images: they have the shape {tuple(shape)}")
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


def read_mask(path: Path, shape: Sequence[int]) -> Array:
    """(N,) bool, true where the mask is white (an .npy: not 0): there the image is to be filled."""
    height, width, channels = picture_shape(shape)
    white = read_integers(path) != 0 if path.suffix == ".npy" else np.asarray(open_image(path, 1)) >= 128
    _check_size(path, white.shape, (height, width))
    if not white.any():
        raise UserError(f"the mask {path} is black everywhere: there is nothing to fill")
    return np.broadcast_to(white[..., None], (height, width, channels)).reshape(-1)


def half_mask(keep: Side, shape: Sequence[int]) -> Array:
    """(N,) bool, true where the image is to be filled: all but the half to be kept, the larger one of an odd size."""
    height, width, channels = picture_shape(shape)
    row, column, _ = np.indices((height, width, channels))
    tall, wide = height // 2, width // 2
    fill: dict[Side, Array] = {
        "top": row >= height - tall,
        "bottom": row < tall,
        "left": column >= width - wide,
        "right": column < wide,
    }
    return fill[keep].reshape(-1)


def _check_size(path: Path, found: Sequence[int], needed: tuple[int, int]) -> None:
    if tuple(found) != needed:
        sizes = " x ".join(map(str, reversed(found)))
        raise UserError(f"{path} is {sizes} pixels; the model's images are {needed[1]} x {needed[0]}")
