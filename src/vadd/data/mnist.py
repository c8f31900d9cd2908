"""Handwritten digits. MNIST is binarised: 28 x 28 pixels thresholded at 0.5, framed with two zeros on each side to
32 x 32. Without a download the 1,797 images of scikit-learn, 8 x 8 pixels of 17 values.
"""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from vadd.data.dataset import ClassifiedImages
from vadd.data.download import data_directory, fetch, not_there
from vadd.errors import UserError, check_range
from vadd.kinds.arrays import Array, quantize
from vadd.progress import Progress, silent

TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"
MD5 = {
    TRAIN_IMAGES: "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    TRAIN_LABELS: "d53e105ee54ea40749a09fcbcd1e9432",
    TEST_IMAGES: "9fb629c4189551a2d022fa330f9573f3",
    TEST_LABELS: "ec29112dd5afa0611ce80d1b7f02629c",
}
MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
SIDE = 28
FRAME = 2
PIXEL_VALUES, TRAIN_SIZE = 17, 1_500
"""Of the digits of scikit-learn."""


class DigitsData(ClassifiedImages):
    """scikit-learn's handwritten digits, 8 x 8, part of that package."""

    shape = (8, 8, 1)
    kind: Literal["digits"] = "digits"
    levels: int = Field(2, ge=2, le=PIXEL_VALUES)

    def parts(self, seed: int) -> Sequence[tuple[Array, Array]]:
        """1,500 images to train on, chosen by ``seed``, and 297 to test."""
        from sklearn.datasets import load_digits  # takes a second, and few need it

        pixels, labels = load_digits(return_X_y=True)
        images = quantize(pixels.astype(np.uint8), self.levels, of=PIXEL_VALUES)
        order = np.random.default_rng(seed).permutation(len(images))
        return [(images[part], labels[part].astype(np.int64)) for part in (order[:TRAIN_SIZE], order[TRAIN_SIZE:])]


class MnistData(ClassifiedImages):
    """MNIST binarised at one half and padded to 32 x 32."""

    shape, frame = (SIDE + 2 * FRAME, SIDE + 2 * FRAME, 1), FRAME
    kind: Literal["mnist"] = "mnist"
    directory: str | None = None
    """Where the four idx files lie; by default where `vadd data mnist` puts them."""

    def parts(self, seed: int) -> Sequence[tuple[Array, Array]]:
        place = Path(self.directory) if self.directory else data_directory("mnist")
        for name in (name for name in MD5 if not (place / name).is_file()):
            raise not_there("MNIST", place, name, self.directory)
        files = ((TRAIN_IMAGES, TRAIN_LABELS), (TEST_IMAGES, TEST_LABELS))
        read = [_read_part(place / images, place / labels) for images, labels in files]
        return [(binarize(images), labels.astype(np.int64)) for images, labels in read]


def fetch_mnist(directory: Path | None = None, *, progress: Progress = silent) -> Path:
    """The directory with the four files, downloaded where they are missing."""
    place = data_directory("mnist") if directory is None else directory
    for name, md5 in MD5.items():
        fetch(place / name, MIRRORS, md5, progress)
    return place


def binarize(images: Array) -> Array:
    """(n, 28, 28) bytes -> (n, 1024) zeros and ones: pixel > 127, framed."""
    framed = np.pad(quantize(images, 2), ((0, 0), (FRAME, FRAME), (FRAME, FRAME)))
    return framed.reshape(len(images), -1)


def read_idx(path: Path, axes: int) -> Array:
    """The bytes of a gzipped idx file with so many axes: 3 for images, 1 for labels."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a readable gzip file: {error}") from None
    header = 4 * (1 + axes)
    magic, *shape = np.frombuffer(content[:header].ljust(header, b"\0"), ">u4").tolist()
    expected = 0x0800 + axes  # bytes, and the number of axes
    if magic != expected:
        raise UserError(f"{path} starts with the magic number {magic}, not {expected}")
    size, needed = len(content) - header, math.prod(shape)
    if size != needed:
        raise UserError(f"{path} is cut short or too long: it holds {size} bytes of data, its header says {needed}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _read_part(image_file: Path, label_file: Path) -> tuple[Array, Array]:
    images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if images.shape[1:] != (SIDE, SIDE) or not len(images):
        raise UserError(f"{image_file} holds images of the shape {images.shape}, not (n, {SIDE}, {SIDE})")
    if len(images) != len(labels):
        raise UserError(f"{image_file} holds {len(images)} images, but {label_file.name} {len(labels)} labels")
    check_range(int(labels.min()), int(labels.max()), len(MnistData.classes), f"{label_file} holds the label")
    return images, labels
