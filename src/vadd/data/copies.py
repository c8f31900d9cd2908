"""Noisy copies of one hidden symbol: known entropy, and positions as dependent as one likes.

A symbol is drawn uniformly from 0..V-1; each of N positions shows it, or with probability ``noise`` a uniformly drawn
value instead. Every probability is a sum of V products, so the whole distribution can be written down.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.kinds.arrays import Array


def copies_sample(count: int, *, positions: int, vocab_size: int, noise: float, seed: int) -> Array:
    """(count, positions) integers in 0..values-1."""
    rng = np.random.default_rng(seed)
    symbol = rng.integers(0, vocab_size, (count, 1))
    replaced = rng.random((count, positions)) < noise
    return np.where(replaced, rng.integers(0, vocab_size, (count, positions)), symbol)


@cache
def copies_distribution(positions: int, vocab_size: int, noise: float) -> Array:
    """The exact probability of every example, an array of shape (values,) * positions."""
    given_symbol = (1 - noise) * np.eye(vocab_size) + noise / vocab_size
    total = np.zeros((vocab_size,) * positions)
    for row in given_symbol:
        product = np.ones(())
        for _ in range(positions):
            product = np.multiply.outer(product, row)
        total += product / vocab_size
    return total


def load_copies(
    *, positions: int = 6, vocab_size: int = 4, noise: float = 0.1, train_size: int, test_size: int, seed: int = 0
) -> DiscreteDataset:
    def draw(count: int, stream: int) -> Tensor:
        return torch.from_numpy(
            copies_sample(count, positions=positions, vocab_size=vocab_size, noise=noise, seed=stream)
        )

    train_seed, test_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2))
    return DiscreteDataset(
        name="copies",
        vocab_size=vocab_size,
        shape=(positions,),
        train=draw(train_size, train_seed),
        test=draw(test_size, test_seed),
        distribution=lambda: copies_distribution(positions, vocab_size, noise),
    )
