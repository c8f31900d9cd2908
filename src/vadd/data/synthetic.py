"""Data sets that are drawn, with distributions that can be written down.

The paper's three two-dimensional ones are rescaled to [0, 1) and cut into V bins a side. ``checkerboard`` is uniform
on half of the 4 x 4 cells of [-2, 2]^2. ``swissroll`` (noise 0.2, the two coordinates of the spiral) and ``circles``
(noise 0.02, factor 0.5) come from scikit-learn. They are rescaled with fixed limits, four noise deviations beyond the
noiseless curve, so that every sample of every seed shares one grid; the few points outside fall into the outermost
bins. The probabilities on the grid are exact, not counted: a noisy curve is a mixture of round Gaussians along it, and
the mass of a Gaussian in a bin is a product of two differences of normal distribution functions.

``copies`` are noisy copies of one hidden symbol, positions as dependent as one likes: a symbol is drawn uniformly from
0..V-1; each of N positions shows it, or with probability ``noise`` a uniformly drawn value instead. Every probability
is a sum of V products.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Literal

import numpy as np
import torch
from pydantic import Field, PositiveInt

from vadd.data.dataset import DataSettings, DiscreteDataset
from vadd.kinds import Kind, kind_of
from vadd.kinds.arrays import Array
from vadd.settings import Fraction

Toy = Literal["checkerboard", "swissroll", "circles"]

CELLS = 4
NOISE = {"swissroll": 0.2, "circles": 0.02}
CIRCLES_FACTOR = 0.5
CURVE_NODES = 50_000


class ToyData(DataSettings):
    """One of the two-dimensional distributions of the paper."""

    kind: Literal["toy"] = "toy"
    name: Toy = "checkerboard"
    vocab_size: int = Field(100, ge=2)
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000

    def read(self, seed: int) -> DiscreteDataset:
        return _drawn(self, self.name, partial(toy_distribution, self.name, self.vocab_size), seed)

    def sample(self, count: int, seed: int) -> Array:
        return toy_sample(self.name, count, seed, self.vocab_size)

    def example_kind(self) -> Kind:
        return kind_of((2,), self.vocab_size)


class CopiesData(DataSettings):
    """Noisy copies of one hidden symbol; the entropy is known exactly."""

    kind: Literal["copies"] = "copies"
    positions: int = Field(6, ge=1, le=8)
    vocab_size: int = Field(4, ge=2, le=8)
    noise: Fraction = 0.1
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000

    def read(self, seed: int) -> DiscreteDataset:
        distribution = partial(copies_distribution, self.positions, self.vocab_size, self.noise)
        return _drawn(self, "copies", distribution, seed)

    def sample(self, count: int, seed: int) -> Array:
        """(count, positions) integers."""
        rng = np.random.default_rng(seed)
        symbol = rng.integers(0, self.vocab_size, (count, 1))
        replaced = rng.random((count, self.positions)) < self.noise
        return np.where(replaced, rng.integers(0, self.vocab_size, (count, self.positions)), symbol)

    def example_kind(self) -> Kind:
        return kind_of((self.positions,), self.vocab_size)


def _drawn(data: ToyData | CopiesData, name: str, distribution: Callable[[], Array], seed: int) -> DiscreteDataset:
    """A training sample and a fresh test sample."""
    first, second = (int(each) for each in np.random.SeedSequence(seed).generate_state(2))
    train = torch.from_numpy(data.sample(data.train_size, first))
    test = torch.from_numpy(data.sample(data.test_size, second))
    return DiscreteDataset(name, data.vocab_size, data.example_kind().shape, train, test, distribution)


@cache
def copies_distribution(positions: int, vocab_size: int, noise: float) -> Array:
    """The exact probability of every example, an array of shape (V,) * positions."""
    given_symbol = (1 - noise) * np.eye(vocab_size) + noise / vocab_size
    total = np.zeros((vocab_size,) * positions)
    for row in given_symbol:
        product = np.ones(())
        for _ in range(positions):
            product = np.multiply.outer(product, row)
        total += product / vocab_size
    return total


@cache
def _curve(name: Toy) -> Array:
    """Points along the noiseless spiral or the two circles."""
    nodes = np.arange(CURVE_NODES) + 0.5
    if name == "swissroll":
        angle = 1.5 * np.pi * (1 + 2 * nodes / CURVE_NODES)
        return np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1)
    angle = 2 * np.pi * nodes / CURVE_NODES
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([circle, CIRCLES_FACTOR * circle])


def _corners(name: Toy) -> tuple[Array, Array]:
    """The lowest and the highest corner of the rectangle that is cut into bins."""
    if name == "checkerboard":
        return np.full(2, -2.0), np.full(2, 2.0)
    curve, margin = _curve(name), 4 * NOISE[name]
    return curve.min(axis=0) - margin, curve.max(axis=0) + margin


def toy_points(name: Toy, count: int, seed: int) -> Array:
    """``count`` continuous points, (count, 2) float64."""
    rng = np.random.default_rng(seed)
    if name == "checkerboard":
        column = rng.integers(0, CELLS, count)
        row = 2 * rng.integers(0, CELLS // 2, count) + column % 2
        return np.stack([column, row], axis=1) + rng.random((count, 2)) - 2.0
    # Takes a second, and only these two toys need it.
    from sklearn.datasets import make_circles, make_swiss_roll

    if name == "swissroll":
        return np.asarray(make_swiss_roll(count, noise=NOISE[name], random_state=seed)[0][:, [0, 2]])
    return np.asarray(make_circles(count, noise=NOISE[name], factor=CIRCLES_FACTOR, random_state=seed)[0])


def toy_sample(name: Toy, count: int, seed: int, vocab_size: int = 100) -> Array:
    """``count`` discretized points, (count, 2) integers in 0..values-1."""
    low, high = _corners(name)
    unit = (toy_points(name, count, seed) - low) / (high - low)
    bins: Array = np.clip(np.floor(unit * vocab_size), 0, vocab_size - 1).astype(np.int64)
    return bins


@cache
def toy_distribution(name: Toy, vocab_size: int = 100) -> Array:
    """The exact probability of every bin, (values, values): first coordinate down, second across."""
    if name == "checkerboard":
        edges = np.linspace(0, CELLS, vocab_size + 1)
        # overlap[i, c]: the share of column band c that falls into bin i; bins need not align with the cells.
        band = np.arange(CELLS)
        overlap = np.clip(np.minimum(edges[1:, None], band + 1) - np.maximum(edges[:-1, None], band), 0, None)
        filled = (band[:, None] + band) % 2 == 0
        return np.asarray(overlap @ (filled / filled.sum()) @ overlap.T)
    from scipy.special import ndtr  # likewise

    curve, edges = _curve(name), np.linspace(*_corners(name), vocab_size + 1)
    edges[0], edges[-1] = -np.inf, np.inf
    down, across = (np.diff(ndtr((edges[:, axis] - curve[:, axis, None]) / NOISE[name]), axis=1) for axis in (0, 1))
    return np.asarray(down.T @ across / len(curve))
