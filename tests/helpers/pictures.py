"""Real photographs for tests: the two that scikit-learn carries, cut into small pictures."""

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
