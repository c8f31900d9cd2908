"""A folder of images as a data set. Needs Pillow, the extra ``images``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.data.labels import Labels
from vadd.errors import UserError
from vadd.kinds.arrays import Array, quantize
from vadd.kinds.pictures import open_image

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
SIZES = range(1, 1025)


def load_image_folder(
    folder: Path,
    *,
    size: int = 32,
    channels: int = 3,
    levels: int = 256,
    labels: bool = False,
    test_fraction: float = 0.1,
    seed: int = 0,
) -> DiscreteDataset:
    """Every image in ``folder`` and its subfolders, in grey (1 channel) or colour (3), ``levels`` values per channel.

    Images are cut to the largest square in their middle and resized to ``size`` a side. They are shuffled by ``seed``
    and the last ``test_fraction`` of them (at least one) held out. With ``labels`` the folders in ``folder`` are the
    labels of the images in them and below.
    """
    if size not in SIZES:
        raise UserError(f"size must be in {SIZES[0]}..{SIZES[-1]}, not {size}")
    if channels not in (1, 3):
        raise UserError(f"channels must be 1 (grey) or 3 (colour), not {channels}")
    quantize(np.zeros(0, np.uint8), levels)  # refuses impossible levels before all images are read
    files = image_files(folder)
    held_out = max(1, math.floor(test_fraction * len(files)))
    if held_out >= len(files):
        raise UserError(f"{folder} holds {len(files)} image(s); at least 2 are needed to train and to test")
    found = folder_labels(folder, files) if labels else None
    pixels = np.empty((len(files), size * size * channels), np.uint8)
    order = np.random.default_rng(seed).permutation(len(files))
    for row, index in enumerate(order):
        pixels[row] = quantize(read_image(files[index], size, channels).reshape(-1), levels)
    images = torch.from_numpy(pixels)
    train_labels, test_labels = (
        (None, None) if found is None else found.parts(order[:-held_out], order[-held_out:], str(folder))
    )
    return DiscreteDataset(
        name=folder.resolve().name,
        vocab_size=levels,
        shape=(size, size, channels),
        train=images[:-held_out],
        test=images[-held_out:],
        train_labels=train_labels,
        test_labels=test_labels,
        label_names=None if found is None else found.names,
    )


def folder_labels(folder: Path, files: Sequence[Path] | None = None) -> Labels:
    """Of all its images: the names of the folders in ``folder`` that they lie in, or below."""
    found = []
    for file in image_files(folder) if files is None else files:
        first, *below = file.relative_to(folder).parts
        if not below:
            raise UserError(
                f"{file} lies in no folder of {folder}; with data.labels=true each image lies in one named as its label"
            )
        found.append(first)
    return Labels.of(found, str(folder))


LOOKED_AT = 50
LARGEST_SIDE = 32
LEVELS = 8


@dataclass(frozen=True)
class Look:
    """What images are like, as far as a look at some of them tells."""

    side: int
    """Pixels that squares of all of them have without being enlarged, and few enough for a CPU."""
    channels: Literal[1, 3]
    levels: int


def look_at(folder: Path) -> Look:
    """At some images of a folder: grey ones stay grey, small ones small, black and white ones of two values."""
    files = image_files(folder)
    some = files[:: max(1, len(files) // LOOKED_AT)][:LOOKED_AT]
    side, grey, binary = LARGEST_SIDE, True, True
    for file in some:
        pixels = np.asarray(open_image(file, 3))
        side = min(side, *pixels.shape[:2])
        grey = grey and bool((pixels == pixels[..., :1]).all())
        binary = binary and bool(np.isin(pixels, (0, 255)).all())
    # What is made smaller has values in between.
    binary = binary and all(min(open_image(file, 1).size) == side for file in some)
    return Look(side, 1 if grey else 3, 2 if binary else LEVELS)


def image_files(folder: Path) -> list[Path]:
    """The images in ``folder`` and below, recognised by their suffixes, sorted; hidden ones are left out."""
    if not folder.is_dir():
        raise UserError(f"there is no directory {folder}")
    files = [
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    ]
    if not files:
        raise UserError(f"there are no images in {folder}: looked for {', '.join(sorted(SUFFIXES))}")
    return sorted(files)


def read_image(path: Path, size: int, channels: int) -> Array:
    """Cut to a square and resized, (size, size, channels) bytes."""
    image = open_image(path, channels)
    from PIL import Image, ImageOps

    fitted = ImageOps.fit(image, (size, size), method=Image.Resampling.LANCZOS)
    return np.asarray(fitted).reshape(size, size, channels)
