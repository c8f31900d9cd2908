"""A folder of images as a data set. Needs Pillow, the extra ``images``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from vadd.data.dataset import DataSettings, DiscreteDataset, Labels, TestFraction, random_split
from vadd.errors import UserError
from vadd.files import visible_files
from vadd.kinds import Kind, kind_of
from vadd.kinds.arrays import Array, quantize
from vadd.kinds.gaps import open_image

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})


class FolderData(DataSettings):
    """A folder of images, cropped to squares and resized."""

    kind: Literal["folder"] = "folder"
    path: str
    labels: bool = False
    """Whether the model is given the class of each image, to draw from a class: the folder that it is in."""
    size: int = Field(32, ge=1, le=1024)
    channels: Literal[1, 3] = 3
    levels: int = Field(256, ge=2, le=256)
    """Values per channel."""
    test_fraction: TestFraction = 0.1

    def read(self, seed: int) -> DiscreteDataset:
        """Every image in the folder and its subfolders, cut to the largest square in its middle and resized."""
        folder = Path(self.path)
        files = image_files(folder)
        train, test = random_split(len(files), self.test_fraction, seed, str(folder), "image")
        labels = folder_labels(folder, files) if self.labels else None
        pixels = np.empty((len(files), self.size * self.size * self.channels), np.uint8)
        for row, index in enumerate((*train, *test)):
            pixels[row] = quantize(read_image(files[index], self.size, self.channels).reshape(-1), self.levels)
        images, shape = torch.from_numpy(pixels), (self.size, self.size, self.channels)
        learnt, held_out = images[: len(train)], images[len(train) :]
        labelled = {} if labels is None else labels.parts(train, test, str(folder))
        return DiscreteDataset(folder.resolve().name, self.levels, shape, learnt, held_out, **labelled)

    def example_kind(self) -> Kind:
        names = folder_labels(Path(self.path)).names if self.labels else None
        return kind_of((self.size, self.size, self.channels), self.levels, labels=names)


def folder_labels(folder: Path, files: Sequence[Path] | None = None) -> Labels:
    """Of all its images: the names of the folders in ``folder`` that they lie in, or below."""
    labels = []
    for file in image_files(folder) if files is None else files:
        first, *below = file.relative_to(folder).parts
        if not below:
            raise UserError(f"{file} has no label: put it into a folder of {folder} that is named as its label")
        labels.append(first)
    return Labels.of(labels, str(folder))


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
    count: int = field(default=0, compare=False)

    @property
    def described(self) -> str:
        colour = "grey" if self.channels == 1 else "colour"
        return f"{self.side} x {self.side} in {colour}, {self.levels} values per channel"


def look_at(folder: Path) -> Look:
    """At some images of a folder: grey ones stay grey, small ones small, black and white ones of two values."""
    files = image_files(folder)
    some = files[:: max(1, len(files) // LOOKED_AT)][:LOOKED_AT]
    sides: list[int] = []
    grey = binary = True
    for file in some:
        pixels = np.asarray(open_image(file, 3))
        sides.append(min(pixels.shape[:2]))
        grey = grey and bool((pixels == pixels[..., :1]).all())
        binary = binary and bool(np.isin(pixels, (0, 255)).all())
    side = min(LARGEST_SIDE, *sides)
    # What is made smaller has values in between.
    binary = binary and set(sides) == {side}
    return Look(side, 1 if grey else 3, 2 if binary else LEVELS, len(files))


def image_files(folder: Path) -> list[Path]:
    """The images in ``folder`` and below, recognised by their suffixes, sorted; hidden ones are left out."""
    if not folder.is_dir():
        raise UserError(f"there is no directory {folder}")
    files = visible_files(folder, SUFFIXES)
    if not files:
        raise UserError(f"there are no images in {folder}: looked for {', '.join(sorted(SUFFIXES))}")
    return files


def read_image(path: Path, size: int, channels: int) -> Array:
    """Cut to a square and resized, (size, size, channels) bytes."""
    image = open_image(path, channels)
    from PIL import Image, ImageOps

    fitted = ImageOps.fit(image, (size, size), method=Image.Resampling.LANCZOS)
    return np.asarray(fitted).reshape(size, size, channels)
