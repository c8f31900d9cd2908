"""How samples of rows compare with the rows of a table: columns, pairs of columns, what a classifier learns from them,
and how near they come to rows that the model has seen.

Every number stands beside one of real rows: the training rows are cut in two halves, as many samples as a half has
rows are compared with the one, and the other half is compared with it too. Which rows are in a half changes the total
variation of pairs by some hundredths of itself, so it is the mean over several ways to halve them.
"""

import warnings
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.metrics import TableDistance
from vadd.evaluation.nearest import COMPARED, distances_to_nearest
from vadd.kinds.arrays import Array

MOST_ROWS = 20_000
HALVINGS = 8
MOST_CLASSES = 10
"""Values of a column that a classifier is asked to predict."""
TARGETS = 4
"""Columns that are predicted, those with the fewest values."""
TREES = 50


def column_tv(a: Array, b: Array, sizes: tuple[int, ...]) -> Array:
    """For each column the total variation between rows ``a`` and rows ``b``: half the sum of the differences."""
    found = [
        np.abs(_frequencies(a[:, [n]], (size,)) - _frequencies(b[:, [n]], (size,))).sum() / 2
        for n, size in enumerate(sizes)
    ]
    return np.array(found)


def pair_tv(a: Array, b: Array, sizes: tuple[int, ...]) -> Array:
    """The same for each pair of columns: (N, N), symmetric, 0 on the diagonal."""
    found = np.zeros((len(sizes), len(sizes)))
    for i, j in combinations(range(len(sizes)), 2):
        shape = (sizes[i], sizes[j])
        difference = _frequencies(a[:, [i, j]], shape) - _frequencies(b[:, [i, j]], shape)
        found[i, j] = found[j, i] = np.abs(difference).sum() / 2
    return found


def _frequencies(rows: Array, shape: tuple[int, ...]) -> Array:
    """Of the rows in which everything is known."""
    known = rows[(rows < np.array(shape)).all(axis=1)]
    flat = np.ravel_multi_index(tuple(known.T), shape)
    return np.asarray(np.bincount(flat, minlength=int(np.prod(shape))) / max(1, len(known)))


def mean_over_pairs(matrix: Array) -> float:
    """Of a symmetric matrix; a single column has no pairs."""
    above = matrix[np.triu_indices(len(matrix), k=1)]
    return float(above.mean()) if len(above) else 0.0


class RowComparison:
    """Built once for all numbers of steps."""

    def __init__(self, data: DiscreteDataset, samples: int, seed: int) -> None:
        assert data.table is not None
        self.sizes = data.table.sizes
        train = data.train.numpy()
        self.samples = max(2, min(samples, len(train) // 2, MOST_ROWS))
        rng = np.random.default_rng([seed, 3])
        orders = [rng.permutation(len(train)) for _ in range(HALVINGS)]
        self.halves = [(train[order[: self.samples]], train[order[-self.samples :]]) for order in orders]
        self.reference, self.other = self.halves[0]
        self.held_out, self.train = data.test.numpy(), data.train
        self.column_floor = self._mean(column_tv(other, one, self.sizes).mean() for one, other in self.halves)
        self.pair_floor = self._mean(mean_over_pairs(pair_tv(other, one, self.sizes)) for one, other in self.halves)
        self.real_accuracy = self._accuracy(self.other)
        self.distance_floor = self._distance(self.held_out)

    def __call__(self, drawn: Array) -> TableDistance:
        return TableDistance(
            column_tv=self._mean(column_tv(drawn, one, self.sizes).mean() for one, _ in self.halves),
            column_tv_floor=self.column_floor,
            pair_tv=self._mean(mean_over_pairs(pair_tv(drawn, one, self.sizes)) for one, _ in self.halves),
            pair_tv_floor=self.pair_floor,
            trained_on_samples=self._accuracy(drawn),
            trained_on_rows=self.real_accuracy,
            row_distance=self._distance(drawn),
            row_distance_floor=self.distance_floor,
        )

    @staticmethod
    def _mean(found: Iterable[float]) -> float:
        """Over the ways to halve the rows."""
        return float(np.mean(list(found)))

    def _distance(self, rows: Array) -> float:
        """The mean number of cells in which a row differs from the training row nearest to it."""
        # One more value for what is unknown.
        found = distances_to_nearest(torch.from_numpy(rows[:COMPARED]), self.train, max(self.sizes) + 1)
        return float(found.double().mean())

    def _accuracy(self, rows: Array) -> float | None:
        """Of classifiers that learn from ``rows`` to predict one column from the others, on held-out rows; the mean
        over the columns that are predicted, None where no column has few values.
        """
        few = [n for n, size in enumerate(self.sizes) if 2 <= size <= MOST_CLASSES]
        targets = sorted(few, key=lambda n: self.sizes[n])[:TARGETS]
        scores = [self._score(rows, target) for target in targets] if len(self.sizes) > 1 else []
        return float(np.mean(scores)) if scores else None

    def _score(self, rows: Array, target: int) -> float:
        from sklearn.ensemble import RandomForestClassifier

        size = self.sizes[target]
        learnt, asked = rows[rows[:, target] < size], self.held_out[self.held_out[:, target] < size]
        forest = RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0, n_jobs=1)
        others = [n for n in range(len(self.sizes)) if n != target]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the number of classes, which is the table's own affair
            return float(forest.fit(learnt[:, others], learnt[:, target]).score(asked[:, others], asked[:, target]))
