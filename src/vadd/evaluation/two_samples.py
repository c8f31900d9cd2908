r"""Two samples of feature vectors compared as distributions: the energy distance with a permutation test, and MAUVE.

The energy distance :math:`2 E |X - Y| - E |X - X'| - E |Y - Y'|` is 0 only for equal distributions. Its p-value is the
share of random divisions of all vectors into two parts that are at least as far from each other, so it is valid for
every n and every feature. MAUVE (Pillutla et al. 2021) puts all vectors into clusters and is the area under the curve
of :math:`e^{-c KL(q || r)}` against :math:`e^{-c KL(p || r)}` for the mixtures r of the two histograms: 1 for equal
ones, and biased downwards where n is small. Both are to be read beside a floor, real data against real data at the same
n.
"""

from typing import NamedTuple

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import Array

PERMUTATIONS, CURVE, SCALE, EXPLAINED = 999, 25, 5.0, 0.9


class EnergyTest(NamedTuple):
    distance: float
    p_value: float


def energy_test(first: Array, second: Array, permutations: int = PERMUTATIONS, seed: int = 0) -> EnergyTest:
    """The energy distance of feature vectors (n, d) and (m, d), and the p-value of their being from one distribution.

    >>> same = np.random.default_rng(0).normal(size=(2, 50, 3))
    >>> energy_test(*same).p_value > 0.05, energy_test(same[0], same[1] + 1).p_value
    (True, 0.001)
    """
    from scipy.spatial.distance import cdist

    _check(first, second)
    together = np.concatenate([first, second]).astype(np.float64)
    distances = cdist(together, together)
    # With weights 1/n of the first and -1/m of the second the distance is a quadratic form.
    weights = np.repeat([1 / len(first), -1 / len(second)], [len(first), len(second)])
    rng = np.random.default_rng(seed)
    every = np.stack([weights, *(rng.permutation(weights) for _ in range(permutations))])
    found = -((every @ distances) * every).sum(axis=1)
    # Ties by rounding count as at least as far.
    as_far = int((found[1:] >= found[0] - 1e-12).sum())
    return EnergyTest(float(found[0]), (1 + as_far) / (1 + permutations))


def mauve(first: Array, second: Array, clusters: int | None = None, seed: int = 0) -> float:
    """Of feature vectors (n, d) and (m, d); by default a cluster for every 10 of the smaller sample.

    >>> same = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> mauve(*same) > 0.9, mauve(same[0], -5 - same[1]) < 0.05
    (True, True)
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    _check(first, second)
    together = np.concatenate([first, second]).astype(np.float64)
    lengths = np.linalg.norm(together, axis=1, keepdims=True)
    together = together / np.where(lengths > 0, lengths, 1)
    turned = PCA(random_state=seed).fit(together)
    kept = int(np.searchsorted(np.cumsum(turned.explained_variance_ratio_), EXPLAINED)) + 1
    count = clusters or max(2, round(min(len(first), len(second)) / 10))
    if count > len(np.unique(together, axis=0)):
        raise UserError(f"{count} clusters need as many different vectors; there are fewer")
    reduced = turned.transform(together)[:, :kept]
    labels = KMeans(count, n_init=5, max_iter=500, random_state=seed).fit_predict(reduced)
    histograms = [np.bincount(part, minlength=count) / len(part) for part in np.split(labels, [len(first)])]
    return mauve_of(*histograms)


def mauve_of(p: Array, q: Array) -> float:
    """Of two histograms (clusters,).

    >>> mauve_of(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    1.0
    """
    mixtures = [w * p + (1 - w) * q for w in np.linspace(1e-6, 1 - 1e-6, CURVE)]
    inner = [(np.exp(-SCALE * _kl(q, r)), np.exp(-SCALE * _kl(p, r))) for r in mixtures]
    x, y = np.array([(0.0, 1.0), *inner, (1.0, 0.0)]).T
    by_x, by_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    return float((np.trapezoid(y[by_x], x[by_x]) + np.trapezoid(x[by_y], y[by_y])) / 2)


def _kl(p: Array, q: Array) -> float:
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


def _check(first: Array, second: Array) -> None:
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or min(len(first), len(second)) < 2:
        raise UserError(
            f"two samples are at least two vectors of equal length each, not {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UserError("the feature vectors hold values that are no numbers")
