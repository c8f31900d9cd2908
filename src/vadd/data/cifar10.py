"""CIFAR-10 in its binary layout: one label byte, then 32 x 32 bytes of red, of green and of blue, for each image.

A directory may hold a part of it, whole records in at least one training batch and the test batch: what is there is
used.
"""

import tarfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from vadd.data.dataset import ClassifiedImages
from vadd.data.download import data_directory, fetch, not_there
from vadd.errors import UserError, check_range
from vadd.files import reading, whole_file
from vadd.kinds.arrays import Array, quantize
from vadd.progress import Progress, silent

TRAIN_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_BATCH = "test_batch.bin"
FOLDER = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
SIDE, CHANNELS = 32, 3
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + SIDE * SIDE * CHANNELS
BATCH_IMAGES = 10_000


class Cifar10Data(ClassifiedImages):
    shape = (SIDE, SIDE, CHANNELS)
    classes = CLASSES
    kind: Literal["cifar10"] = "cifar10"
    directory: str | None = None
    """Where the binary batches lie; by default where `vadd data cifar10` puts them."""
    levels: int = Field(256, ge=2, le=256)
    """Values per channel."""

    def parts(self, seed: int) -> Sequence[tuple[Array, Array]]:
        place = _place(Path(self.directory) if self.directory else None)
        train = [place / name for name in TRAIN_BATCHES if (place / name).is_file()]
        if not train or not (place / TEST_BATCH).is_file():
            raise not_there("CIFAR-10", place, TEST_BATCH if train else TRAIN_BATCHES[0], self.directory)
        return [self._joined(files) for files in (train, [place / TEST_BATCH])]

    def _joined(self, files: Sequence[Path]) -> tuple[Array, Array]:
        images, labels = zip(*map(read_batch, files), strict=True)
        return np.concatenate([quantize(pixels, self.levels) for pixels in images]), np.concatenate(labels)


def read_batch(path: Path) -> tuple[Array, Array]:
    """The images of one file, (n, 3072) bytes in the order height, width, channel, and their labels, (n,) int64."""
    with reading(path):
        content = np.fromfile(path, np.uint8)
    count, rest = divmod(len(content), RECORD)
    if rest or not count:
        raise UserError(f"{path} is cut short or not CIFAR-10: {len(content)} bytes are not records of {RECORD}")
    records = content.reshape(count, RECORD)
    labels = records[:, 0].astype(np.int64)
    check_range(int(labels.min()), int(labels.max()), len(CLASSES), f"{path} holds the label")
    channel_first = records[:, 1:].reshape(count, CHANNELS, SIDE, SIDE)
    return channel_first.transpose(0, 2, 3, 1).reshape(count, -1), labels


def count_cifar10(directory: Path | None = None) -> tuple[int, int]:
    """How many training and test images there are, by the sizes of the files."""
    place = _place(directory)
    files = [place / name for name in (*TRAIN_BATCHES, TEST_BATCH)]
    *train, test = (file.stat().st_size // RECORD if file.is_file() else 0 for file in files)
    return sum(train), test


def fetch_cifar10(directory: Path | None = None, *, progress: Progress = silent) -> Path:
    """The directory with all 60,000 images, downloaded and unpacked unless they are there."""
    place = data_directory("cifar10") if directory is None else directory
    if count_cifar10(place) != (len(TRAIN_BATCHES) * BATCH_IMAGES, BATCH_IMAGES):
        fetch(place / ARCHIVE, MIRRORS, MD5, progress, partial(unpack_batches, folder=place / FOLDER))
    return place


def unpack_batches(archive: Path, folder: Path) -> None:
    """Write the six batches of the official archive into ``folder``: by these names only, whatever else it holds."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for name in (*TRAIN_BATCHES, TEST_BATCH):
                source = tar.extractfile(f"{FOLDER}/{name}")
                content = b"" if source is None else source.read(BATCH_IMAGES * RECORD + 1)
                if len(content) != BATCH_IMAGES * RECORD:
                    raise UserError(f"{archive} is not CIFAR-10: {name} has {len(content)} bytes")
                with whole_file(folder / name) as file:
                    file.write(content)
    except KeyError:
        raise UserError(f"{archive} is not CIFAR-10: it has no {FOLDER}/{name}") from None
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{archive} is not a readable archive: {error}") from None


def _place(directory: Path | None) -> Path:
    """The directory itself, or the one in it that the official archive makes."""
    place = data_directory("cifar10") if directory is None else directory
    return place / FOLDER if (place / FOLDER / TEST_BATCH).is_file() else place
