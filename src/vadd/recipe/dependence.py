"""How much the positions of examples say about each other, estimated in a second."""

import numpy as np
from torch import Tensor

from vadd.kinds.arrays import take

EXAMPLES, POSITIONS, VALUES = 4_000, 96, 64
"""Looked at, at most: examples, positions, and values of each; rarer values count as one."""


def dependence(array: np.ndarray | Tensor) -> float:
    """The nats of the best tree of pairwise dependences (Chow and Liu), scaled up from the positions looked at: a part
    of what all positions say about each other, since dependences among three or more are not seen.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree  # sampling does not wait for SciPy

    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(array), min(EXAMPLES, len(array)), replace=False))
    codes = (np.asarray(array[rows]) if isinstance(array, Tensor) else take(array, rows)).reshape(len(rows), -1)
    positions = codes.shape[1]
    # Neighbours stay neighbours: a run of positions, not some of all.
    first = max(0, positions - POSITIONS) // 2
    codes = codes[:, first : first + POSITIONS]
    information = _pairwise(np.stack([_few_values(column) for column in codes.T]))
    best_tree = -minimum_spanning_tree(-information).sum()
    return float(best_tree) * max(1, positions - 1) / max(1, codes.shape[1] - 1)


def _few_values(column: np.ndarray) -> np.ndarray:
    """0, 1, ... for the values of a column, the frequent ones first, the last for all others."""
    _, numbers, counts = np.unique(column, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank[numbers], VALUES - 1)


def _pairwise(columns: np.ndarray) -> np.ndarray:
    """Mutual information of all pairs of columns (N, n) in nats, (N, N), less the bias of counting few examples."""
    count = columns.shape[1]
    one_hot = [np.eye(column.max() + 1, dtype=np.float32)[column] for column in columns]
    information = np.zeros((len(columns), len(columns)))
    for row, left in enumerate(one_hot):
        for other in range(row):
            joint = (left.T @ one_hot[other]).astype(np.float64) / count
            product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
            seen = joint > 0
            bias = (seen.sum() - len(joint) - joint.shape[1] + 1) / (2 * count)
            nats = float((joint[seen] * np.log(joint[seen] / product[seen])).sum()) - bias
            information[row, other] = information[other, row] = max(0.0, nats)
    return information
