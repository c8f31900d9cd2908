"""Noisy copies of one hidden symbol: known entropy, and positions as dependent as one likes.

A symbol is drawn uniformly from 0..V-1; each of N positions shows it, or with probability ``noise`` a uniformly drawn
value instead. Every probability is a sum of V products, so the whole distribution can be written down.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import Array, DiscreteDataset


def copies_sample(count: int, *, positions: int, values: int, noise: float, seed: int) -> Array:
    """(count, positions) integers in 0..values-1."""
    rng = np.random.default_rng(seed)
    symbol = rng.integers(0, values, (count, 1))
    replaced = rng.random((count, positions)) < noise
    return np.where(replaced, rng.integers(0, values, (count, positions)), symbol)


@cache
def copies_distribution(positions: int, values: int, noise: float) -> Array:
    """The exact probability of every example, an array of shape (values,) * positions."""
    given_symbol = (1 - noise) * np.eye(values) + noise / values
    total = np.zeros((values,) * positions)
    for row in given_symbol:
        product = np.ones(())
        for _ in range(positions):
            product = np.multiply.outer(product, row)
        total += product / values
    return total


def load_copies(
    *, positions: int = 6, values: int = 4, noise: float = 0.1, train_size: int, test_size: int, seed: int = 0
) -> DiscreteDataset:
    def draw(count: int, stream: int) -> Tensor:
        return torch.from_numpy(copies_sample(count, positions=positions, values=values, noise=noise, seed=stream))

    train_seed, test_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2))
    return DiscreteDataset(
        name="copies",
        values=values,
        shape=(positions,),
        train=draw(train_size, train_seed),
        test=draw(test_size, test_seed),
        distribution=lambda: copies_distribution(positions, values, noise),
    )
