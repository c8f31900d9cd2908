"""What every data set looks like to the rest of the package."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class DiscreteDataset:
    """Examples of N integers in 0..V-1, flattened; ``shape`` is what one example looks like before flattening."""

    name: str
    values: int
    shape: tuple[int, ...]
    train: Tensor
    """(n, N) int64."""
    test: Tensor
    """(m, N) int64, disjoint from ``train``."""
    distribution: Callable[[], Array] | None = None
    """Where it is known: the exact probabilities of all values of one example, an array of shape (V,) * N."""

    @property
    def positions(self) -> int:
        return self.train.shape[1]
