"""Pictures for tests: the two photographs that scikit-learn carries, noise in files like those of MNIST and CIFAR-10,
and states on the way to a picture.
"""

import gzip
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vadd.kinds.arrays import Array


@cache
def photographs(count: int, side: int = 32) -> Array:
    """(count, side, side, 3) bytes, from a temple under trees and a flower in turn; no two overlap."""
    pytest.importorskip("PIL", reason="Pillow, the extra `images`, is not installed")
    from sklearn.datasets import load_sample_images

    cut = []
    for image in load_sample_images().images:
        rows, columns = image.shape[0] // side, image.shape[1] // side
        tiles = image[: rows * side, : columns * side].reshape(rows, side, columns, side, 3)
        cut.append(tiles.swapaxes(1, 2).reshape(-1, side, side, 3))
    both = np.stack(cut, axis=1).reshape(-1, side, side, 3)
    assert len(both) >= count
    return np.asarray(both[:count], np.uint8)


def mnist_files(place: Path) -> Path:
    generator = np.random.default_rng(0)
    place.mkdir()
    for name, count in (("train", 60), ("t10k", 40)):
        pixels = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        header = np.array([0x803, count, 28, 28], ">u4").tobytes()
        (place / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels.tobytes()))
        labels = np.arange(count, dtype=np.uint8) % 10
        header = np.array([0x801, count], ">u4").tobytes()
        (place / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(header + labels.tobytes()))
    return place


def cifar_files(place: Path) -> Path:
    place.mkdir()
    for name, count in (("data_batch_1.bin", 30), ("test_batch.bin", 20)):
        records = np.random.default_rng(count).integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(place / name)
    return place


def trajectory(steps: int, count: int = 1, positions: int = 16, values: int = 2) -> Array:
    """(steps + 1, count, positions): from all masked, a share of the positions more at each state."""
    rng = np.random.default_rng(1)
    final = rng.integers(0, values, (count, positions))
    order = rng.random((count, positions))
    return np.stack([np.where(order < step / steps, final, values) for step in range(steps + 1)])
