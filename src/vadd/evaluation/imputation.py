"""How often a filled cell is right, beside what people fill cells with.

A fifth of the cells of held-out rows is hidden. The model says the likeliest value of each given the rest of its row;
beside it stand the column's most frequent value and scikit-learn's ``KNNImputer`` and ``IterativeImputer``, which are
shown categories as one column for each value and numbers as the number of their bin. All learn from training rows.
"""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vadd.evaluation.metrics import read_fields
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.table.codec import TableCodec
from vadd.progress import Progress, silent
from vadd.run.run import Run
from vadd.run.tables import cell_probabilities

HIDDEN = 0.2
"""Share of the cells."""
ROWS, LEARNT = 500, 3000
"""Held-out rows with hidden cells, and training rows for the imputers of scikit-learn, whose time grows with both."""


@dataclass(frozen=True, kw_only=True)
class ImputationReport:
    """Shares of the hidden cells that were filled with what had been there."""

    model: float
    mode: float
    nearest_neighbours: float
    iterative: float
    cells: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "ImputationReport":
        return read_fields(cls, json)


def judge_imputation(run: Run, seed: int = 0, progress: Progress = silent) -> ImputationReport | None:
    """None where there are no cells to hide."""
    data = run.data
    assert data.table is not None
    present = np.array(data.table.present_sizes)
    rows = data.test.numpy()[:ROWS]
    rng = np.random.default_rng([seed, 4])
    # Of a cell that is missing in truth nobody knows whether it was filled well.
    hidden = (rng.random(rows.shape) < HIDDEN) & (rows < present)
    if not hidden.any():
        return None
    gaps = np.where(hidden | (rows >= present), TO_FILL, rows)
    progress("filling hidden cells")
    filled = cell_probabilities(run, gaps, seed=seed).argmax(-1)
    learnt = data.train.numpy()
    learnt = learnt[rng.permutation(len(learnt))[:LEARNT]]
    right = {"model": filled, "mode": np.broadcast_to(_modes(learnt, present), rows.shape)}
    right |= _by_scikit_learn(data.table, learnt, gaps, progress)
    scores = {name: float((found[hidden] == rows[hidden]).mean()) for name, found in right.items()}
    return ImputationReport(**scores, cells=int(hidden.sum()))


def _modes(rows: Array, present: Array) -> Array:
    """The most frequent value of each column, missing ones left out."""
    return np.array(
        [np.bincount(rows[rows[:, n] < size, n], minlength=size).argmax() for n, size in enumerate(present)]
    )


def _by_scikit_learn(table: TableCodec, learnt: Array, gaps: Array, progress: Progress) -> dict[str, Array]:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer

    found = {}
    for name, imputer in (
        ("nearest_neighbours", KNNImputer(n_neighbors=10)),
        ("iterative", IterativeImputer(random_state=0, max_iter=10)),
    ):
        progress(f"filling hidden cells by scikit-learn's {type(imputer).__name__}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged, or that a column is constant
            imputer.fit(_numbers(table, np.where(learnt < np.array(table.present_sizes), learnt, TO_FILL)))
            found[name] = _codes(table, imputer.transform(_numbers(table, gaps)))
    return found


def _numbers(table: TableCodec, rows: Array) -> Array:
    """Columns as scikit-learn takes them, NaN where something is to be filled."""
    parts = []
    for n, column in enumerate(table.columns):
        codes = np.where(rows[:, n] == TO_FILL, 0, rows[:, n])
        shown = np.eye(column.present)[codes] if _unordered(table, n) else codes[:, None].astype(float)
        parts.append(np.where(rows[:, n, None] == TO_FILL, np.nan, shown))
    return np.concatenate(parts, axis=1)


def _codes(table: TableCodec, numbers: Array) -> Array:
    """And back: the value with the largest number, or the nearest bin."""
    found, first = [], 0
    for n, column in enumerate(table.columns):
        width = column.present if _unordered(table, n) else 1
        part = numbers[:, first : first + width]
        first += width
        ordered = np.clip(part[:, 0].round(), 0, column.present - 1)
        found.append(part.argmax(axis=1) if _unordered(table, n) else ordered)
    return np.stack(found, axis=1).astype(np.int64)


def _unordered(table: TableCodec, n: int) -> bool:
    return table.columns[n].kind in ("category", "boolean")
