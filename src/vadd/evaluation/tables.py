"""Rows of a table: how samples compare with the table's rows, and how often a filled cell is right.

Samples are compared by columns, pairs of columns, what a classifier learns from them, and how near they come to rows
that the model has seen. Every number stands beside one of real rows: the training rows are cut in two halves, as many
samples as a half has rows are compared with the one, and the other half is compared with it too. Which rows are in a
half changes the total variation of pairs by some hundredths of itself, so it is the mean over several ways to halve
them.

To measure imputation a fifth of the cells of held-out rows is masked. The model fills each with its likeliest value
given the rest of the row; beside it stand the column's most frequent value and scikit-learn's ``KNNImputer`` and
``IterativeImputer``, which see categories as one column for each value and numbers as the number of their bin.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import torch

from vadd.evaluation.divergence import COMPARED, distances_to_nearest
from vadd.evaluation.evaluators import Evaluator, Reference
from vadd.evaluation.reports import ImputationReport, TableDistance, WorstColumns
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.kind import TableKind
from vadd.progress import Progress, silent
from vadd.run.run import Run
from vadd.run.tables import cell_probabilities

MOST_ROWS = 20_000
HALVINGS = 8
WORST = 3
"""Columns, and pairs of them, that are named."""
MOST_CLASSES = 10
"""Values of a column that a classifier predicts."""
TARGETS = 4
"""Columns that are predicted, those with the fewest values."""
TREES = 50
MASKED = 0.2
"""Share of the cells."""
TESTED_ROWS, FITTED_ROWS = 500, 3000
"""Held-out rows with masked cells, and training rows for the imputers of scikit-learn, whose time grows with both."""


def column_tv(a: Array, b: Array, sizes: tuple[int, ...]) -> Array:
    """For each column the total variation between rows ``a`` and rows ``b``: half the sum of the differences."""
    return np.array([_tv(a, b, sizes, [column]) for column in range(len(sizes))])


def pair_tv(a: Array, b: Array, sizes: tuple[int, ...]) -> Array:
    """The same for each pair of columns: (N, N), symmetric, 0 on the diagonal."""
    matrix = np.zeros((len(sizes), len(sizes)))
    for i, j in combinations(range(len(sizes)), 2):
        matrix[i, j] = matrix[j, i] = _tv(a, b, sizes, [i, j])
    return matrix


def _tv(a: Array, b: Array, sizes: tuple[int, ...], columns: list[int]) -> float:
    shape = tuple(sizes[column] for column in columns)
    return float(np.abs(_frequencies(a[:, columns], shape) - _frequencies(b[:, columns], shape)).sum() / 2)


def _frequencies(rows: Array, shape: tuple[int, ...]) -> Array:
    """Of the rows in which everything is known."""
    known = rows[(rows < np.array(shape)).all(axis=1)]
    flat = np.ravel_multi_index(tuple(known.T), shape)
    return np.asarray(np.bincount(flat, minlength=int(np.prod(shape))) / max(1, len(known)))


def mean_over_pairs(matrix: Array) -> float:
    """Of a symmetric matrix; a single column has no pairs."""
    above = matrix[np.triu_indices(len(matrix), k=1)]
    return float(above.mean()) if len(above) else 0.0


class RowComparison(Evaluator):
    """Compares sampled rows with the training rows."""

    def __init__(self, compared: Reference) -> None:
        data = compared.data
        assert isinstance(data.kind, TableKind)
        self.codec = data.kind.codec
        self.sizes = tuple(column.size for column in self.codec.shown)
        rows, self.held_out = (self.codec.with_dependents(part.numpy()) for part in (data.train, data.test))
        self.train = torch.from_numpy(rows)
        self.samples = max(2, min(compared.samples, len(rows) // 2, MOST_ROWS))
        rng = np.random.default_rng([compared.seed, 3])
        orders = [rng.permutation(len(rows)) for _ in range(HALVINGS)]
        self.halves = [(rows[order[: self.samples]], rows[order[-self.samples :]]) for order in orders]
        self.reference, self.other = self.halves[0]
        self.names = self.codec.names
        self.column_floors = self._mean(lambda half, other: column_tv(other, half, self.sizes))
        self.pair_floors = self._mean(lambda half, other: pair_tv(other, half, self.sizes))
        self.floors = {
            "column_tv_floor": float(self.column_floors.mean()),
            "pair_tv_floor": mean_over_pairs(self.pair_floors),
            "trained_on_rows": self._accuracy(self.other),
            "row_distance_floor": self._distance(self.held_out),
        }

    def __call__(self, drawn: Array, steps: int) -> TableDistance:
        drawn = self.codec.with_dependents(drawn)
        columns = self._mean(lambda half, _: column_tv(drawn, half, self.sizes))
        pairs = self._mean(lambda half, _: pair_tv(drawn, half, self.sizes))
        return TableDistance(
            column_tv=float(columns.mean()),
            pair_tv=mean_over_pairs(pairs),
            trained_on_samples=self._accuracy(drawn),
            row_distance=self._distance(drawn),
            worst_columns=self._worst(columns, self.column_floors),
            worst_pairs=self._worst(np.triu(pairs, 1), np.triu(self.pair_floors, 1)),
            **self.floors,
        )

    def _mean(self, distance: Callable[[Array, Array], Array]) -> Array:
        """Over the ways to halve the rows."""
        return np.asarray(np.mean([distance(half, other) for half, other in self.halves], axis=0))

    def _worst(self, distances: Array, floors: Array) -> tuple[WorstColumns, ...]:
        """The few that are farthest above their floors, the worst first."""
        worst = np.argsort((floors - distances).ravel(), kind="stable")[:WORST]
        places = [np.unravel_index(place, distances.shape) for place in worst]
        return tuple(
            WorstColumns(
                columns=tuple(self.names[int(n)] for n in place), tv=float(distances[place]), floor=float(floors[place])
            )
            for place in places
            if distances[place] > floors[place]
        )

    def _distance(self, rows: Array) -> float:
        """The mean number of cells in which a row differs from the nearest training row."""
        # One more value for what is unknown.
        distances = distances_to_nearest(torch.from_numpy(rows[:COMPARED]), self.train, max(self.sizes) + 1)
        return float(distances.double().mean())

    def _accuracy(self, rows: Array) -> float | None:
        """On held-out rows, of classifiers that are trained on ``rows`` to predict one column from the others; the mean
        over the columns that are predicted, None where no column has few values.
        """
        few = [n for n, size in enumerate(self.sizes) if 2 <= size <= MOST_CLASSES]
        targets = sorted(few, key=lambda n: self.sizes[n])[:TARGETS]
        scores = [self._score(rows, target) for target in targets] if len(self.sizes) > 1 else []
        return float(np.mean(scores)) if scores else None

    def _score(self, rows: Array, target: int) -> float:
        from sklearn.ensemble import RandomForestClassifier

        size = self.sizes[target]
        known, tested = rows[rows[:, target] < size], self.held_out[self.held_out[:, target] < size]
        forest = RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0, n_jobs=1)
        others = [n for n in range(len(self.sizes)) if n != target]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the number of classes
            return float(forest.fit(known[:, others], known[:, target]).score(tested[:, others], tested[:, target]))


def measure_imputation(run: Run, seed: int = 0, progress: Progress = silent) -> ImputationReport | None:
    """None where there are no cells to mask."""
    data, kind = run.data, run.kind
    assert isinstance(kind, TableKind)
    present = np.array(kind.codec.present_sizes)
    rows = data.test.numpy()[:TESTED_ROWS]
    rng = np.random.default_rng([seed, 4])
    # The true value of a cell that is missing in the table is not known.
    masked = (rng.random(rows.shape) < MASKED) & (rows < present)
    if not masked.any():
        return None
    gaps = np.where(masked | (rows >= present), TO_FILL, rows)
    progress("filling hidden cells")
    filled = {"model": cell_probabilities(run, gaps, seed=seed).argmax(-1)}
    train = data.train.numpy()
    train = train[rng.permutation(len(train))[:FITTED_ROWS]]
    modes = [np.bincount(train[train[:, n] < size, n], minlength=size).argmax() for n, size in enumerate(present)]
    filled["mode"] = np.broadcast_to(np.array(modes), rows.shape)
    filled |= _by_scikit_learn(kind.codec, train, gaps, progress)
    scores = {name: float((values[masked] == rows[masked]).mean()) for name, values in filled.items()}
    return ImputationReport(**scores, cells=int(masked.sum()))


def _by_scikit_learn(table: TableCodec, train: Array, gaps: Array, progress: Progress) -> dict[str, Array]:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    imputers = {
        "nearest_neighbours": KNNImputer(n_neighbors=10),
        "iterative": IterativeImputer(random_state=0, max_iter=10),
    }
    filled = {}
    for name, imputer in imputers.items():
        progress(f"filling hidden cells by scikit-learn's {type(imputer).__name__}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged, or that a column is constant
            imputer.fit(to_numbers(table, np.where(train < np.array(table.present_sizes), train, TO_FILL)))
            filled[name] = to_codes(table, imputer.transform(to_numbers(table, gaps)))
    return filled


def _widths(table: TableCodec) -> Iterator[tuple[int, int | None]]:
    """Of each column the number of its values and, of one without an order, of the columns that scikit-learn sees."""
    for column in table.columns:
        yield column.present, column.present if column.kind in ("category", "boolean") else None


def to_numbers(table: TableCodec, rows: Array) -> Array:
    """Columns as scikit-learn takes them, NaN where something is to be filled."""
    parts = []
    for codes, (_, width) in zip(rows.T, _widths(table), strict=True):
        known = np.where(codes == TO_FILL, 0, codes)
        shown = known[:, None].astype(float) if width is None else np.eye(width)[known]
        parts.append(np.where(codes[:, None] == TO_FILL, np.nan, shown))
    return np.concatenate(parts, axis=1)


def to_codes(table: TableCodec, numbers: Array) -> Array:
    """And back: the value with the largest number, or the nearest bin."""
    codes, first = [], 0
    for present, width in _widths(table):
        part = numbers[:, first : first + (width or 1)]
        first += width or 1
        codes.append(np.clip(part[:, 0].round(), 0, present - 1) if width is None else part.argmax(axis=1))
    return np.stack(codes, axis=1).astype(np.int64)
