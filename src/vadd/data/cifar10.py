"""CIFAR-10 in its binary layout: one label byte, then 32 x 32 bytes of red, of green and of blue, for each image.

A directory may hold a part of it, whole records in at least one training batch and the test batch: what is there is
used.
"""

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from vadd.data.dataset import LABELS, DataSettings, DiscreteDataset
from vadd.data.download import data_directory, download
from vadd.errors import UserError, check_range
from vadd.files import whole_file
from vadd.kinds import Kind, kind_of
from vadd.kinds.arrays import Array, quantize
from vadd.progress import Progress, silent

TRAIN_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_BATCH = "test_batch.bin"
FOLDER = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
SIDE = 32
CHANNELS = 3
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + SIDE * SIDE * CHANNELS
BATCH_IMAGES = 10_000


class Cifar10Data(DataSettings):
    kind: Literal["cifar10"] = "cifar10"
    labels: bool = Field(False, description=LABELS)
    directory: str | None = Field(
        None, description="where the binary batches lie; by default where `vadd data cifar10` puts them"
    )
    levels: int = Field(256, ge=2, le=256, description="values per channel")

    def read(self, seed: int = 0) -> DiscreteDataset:
        place = _place(Path(self.directory) if self.directory else None)
        train_files = [place / name for name in TRAIN_BATCHES if (place / name).is_file()]
        if not train_files or not (place / TEST_BATCH).is_file():
            absent = TEST_BATCH if train_files else TRAIN_BATCHES[0]
            command = "vadd data cifar10" + (f" --dir {self.directory}" if self.directory else "")
            raise UserError(f"CIFAR-10 is not in {place}: {absent} is missing; fetch it with: {command}")
        train, train_labels = _read_part(train_files, self.levels)
        test, test_labels = _read_part([place / TEST_BATCH], self.levels)
        return DiscreteDataset(
            name="cifar10",
            vocab_size=self.levels,
            shape=(SIDE, SIDE, CHANNELS),
            train=torch.from_numpy(train),
            test=torch.from_numpy(test),
            train_labels=torch.from_numpy(train_labels),
            test_labels=torch.from_numpy(test_labels),
            label_names=CLASSES if self.labels else None,
        )

    def example_kind(self) -> Kind:
        return kind_of((SIDE, SIDE, CHANNELS), self.levels, labels=CLASSES if self.labels else None)


def read_batch(path: Path) -> tuple[Array, Array]:
    """The images of one file, (n, 3072) bytes in the order height, width, channel, and their labels, (n,) int64."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
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
    sizes = [file.stat().st_size // RECORD for name in TRAIN_BATCHES if (file := place / name).is_file()]
    test = place / TEST_BATCH
    return sum(sizes), test.stat().st_size // RECORD if test.is_file() else 0


def fetch_cifar10(
    directory: Path | None = None, *, progress: Progress = silent, mirrors: Sequence[str] | None = None
) -> Path:
    """The directory with all 60,000 images, downloaded and unpacked unless they are there."""
    place = data_directory("cifar10") if directory is None else directory
    if count_cifar10(place) == (len(TRAIN_BATCHES) * BATCH_IMAGES, BATCH_IMAGES):
        return place
    archive = place / ARCHIVE
    was_there = archive.exists()
    download([mirror + ARCHIVE for mirror in mirrors or MIRRORS], archive, md5=MD5, progress=progress)
    unpack_batches(archive, place / FOLDER)
    if not was_there:
        archive.unlink()
    return place


def unpack_batches(archive: Path, folder: Path) -> None:
    """Write the six batches of the official archive into ``folder``: by these names only, whatever else it holds."""
    missing = {*TRAIN_BATCHES, TEST_BATCH}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                folder_name, _, name = member.name.partition("/")
                if folder_name != FOLDER or name not in missing or not member.isreg():
                    continue
                if member.size != BATCH_IMAGES * RECORD:
                    raise UserError(f"{archive} is not CIFAR-10: {name} has {member.size} bytes")
                source = tar.extractfile(member)
                assert source is not None
                content = source.read()
                with whole_file(folder / name) as file:
                    file.write(content)
                missing.remove(name)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise UserError(f"{archive} is not a readable archive: {error}") from None
    if missing:
        raise UserError(f"{archive} is not CIFAR-10: it has no {FOLDER}/{min(missing)}")


def _read_part(files: Sequence[Path], levels: int) -> tuple[Array, Array]:
    images, labels = [], []
    for file in files:
        pixels, classes = read_batch(file)
        images.append(quantize(pixels, levels))
        labels.append(classes)
    return np.concatenate(images), np.concatenate(labels)


def _place(directory: Path | None) -> Path:
    """The directory itself, or the one in it that the official archive makes."""
    place = data_directory("cifar10") if directory is None else directory
    return place / FOLDER if (place / FOLDER / TEST_BATCH).is_file() else place
