"""Pictures for tests: real photographs, the two that scikit-learn carries, and states on the way to a picture."""

from functools import cache

import numpy as np
import pytest

from vadd.data.dataset import Array


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


def trajectory(steps: int, count: int = 1, positions: int = 16, values: int = 2) -> Array:
    """(steps + 1, count, positions): from all masked, a share of the positions more at each state."""
    rng = np.random.default_rng(1)
    final = rng.integers(0, values, (count, positions))
    order = rng.random((count, positions))
    return np.stack([np.where(order < step / steps, final, values) for step in range(steps + 1)])
