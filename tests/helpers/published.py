"""Small files in the layout of published data sets: MNIST, CIFAR-10 and text8."""

import gzip
import io
import tarfile
import zipfile

import numpy as np

from vadd.data.cifar10 import FOLDER, RECORD, TEST_BATCH, TRAIN_BATCHES
from vadd.data.mnist import TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS


def idx(array: np.ndarray, magic: int | None = None) -> bytes:
    """A file of MNIST, gzipped; written with Python's integers, unlike it is read."""
    head = (0x0800 + array.ndim if magic is None else magic, *array.shape)
    return gzip.compress(b"".join(number.to_bytes(4, "big") for number in head) + array.tobytes())


def mnist_files(train: int = 5, test: int = 3) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {
        TRAIN_IMAGES: idx(rng.integers(0, 256, (train, 28, 28), dtype=np.uint8)),
        TRAIN_LABELS: idx(rng.integers(0, 10, train, dtype=np.uint8)),
        TEST_IMAGES: idx(rng.integers(0, 256, (test, 28, 28), dtype=np.uint8)),
        TEST_LABELS: idx(rng.integers(0, 10, test, dtype=np.uint8)),
    }


def cifar10_records(count: int, seed: int = 0) -> np.ndarray:
    """(count, 3073): random pixels, labels in 0..9."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (count, RECORD), dtype=np.uint8)
    made[:, 0] = rng.integers(0, 10, count)
    return made


def cifar10_batches(count: int = 4) -> dict[str, bytes]:
    return {name: cifar10_records(count, seed).tobytes() for seed, name in enumerate((*TRAIN_BATCHES, TEST_BATCH))}


def in_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """As the archive of CIFAR-10 names them."""
    return {f"{FOLDER}/{name}": content for name, content in files.items()}


def tar_of(files: dict[str, bytes]) -> bytes:
    """A .tar.gz, as CIFAR-10 is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(content: bytes, name: str = "text8") -> bytes:
    """A .zip of one file, as text8 is; the same bytes at any time, for they name tests."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
