r"""Divergences between distributions on a finite grid.

``jsd`` is the Jensen-Shannon divergence in nats, at most ln 2. ``paper_js`` reproduces what the paper tabulates under
that name, whose values exceed ln 2: the mean of the two Kullback-Leibler divergences after 1e-6 is added to every
bin. Both are biased upwards for samples, so they mean something only beside their *floor*: the same number between
two independent samples of the truth.
"""

from collections.abc import Callable

import numpy as np

from vadd.kinds.arrays import Array

Divergence = Callable[[Array, Array], float]

PAPER_EPSILON = 1e-6


def histogram(tokens: Array, vocab_size: int) -> Array:
    """The empirical distribution of examples (n, N), an array of shape (vocab_size,) * N that sums to 1."""
    positions = tokens.shape[1]
    shape = (vocab_size,) * positions
    flat = np.ravel_multi_index(tuple(tokens.T), shape)
    return np.bincount(flat, minlength=vocab_size**positions).reshape(shape) / len(tokens)


def entropy(p: Array) -> float:
    """The entropy in nats."""
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def mutual_information(p: Array) -> float:
    """The mutual information of the coordinates of a distribution (V, V), in nats: what a factorised model loses in one
    step.
    """
    return entropy(p.sum(axis=0)) + entropy(p.sum(axis=1)) - entropy(p)


def kl_divergence(p: Array, q: Array) -> float:
    """KL(p || q) in nats; infinite where q misses what p has."""
    support = p > 0
    # Division by 0 is meant: infinity is the answer where q misses what p has.
    with np.errstate(divide="ignore"):
        return float((p[support] * np.log(p[support] / q[support])).sum())


def jsd(p: Array, q: Array) -> float:
    """The mean KL from both to their middle, in nats."""
    # 2 p / (p + q) and not p / ((p + q) / 2): half of the smallest of all numbers is zero.
    both = p + q
    ratios = [(one[one > 0], 2 * one[one > 0] / both[one > 0]) for one in (p, q)]
    total = sum(float((weights * np.log(ratio)).sum()) for weights, ratio in ratios)
    # Rounding can leave identical arguments a hair below zero.
    return max(0.0, total / 2)


def paper_js(p: Array, q: Array) -> float:
    p, q = (array + PAPER_EPSILON for array in (p, q))
    p, q = p / p.sum(), q / q.sum()
    return (kl_divergence(p, q) + kl_divergence(q, p)) / 2


def draw_histogram(p: Array, count: int, rng: np.random.Generator) -> Array:
    """The empirical distribution of ``count`` draws from p."""
    return rng.multinomial(count, (p / p.sum()).ravel()).reshape(p.shape) / count


def sampling_floor(divergence: Divergence, p: Array, count: int, seed: int = 0, repeats: int = 20) -> float:
    """The mean divergence between two independent samples of ``count`` draws from the truth itself."""
    rng = np.random.default_rng(seed)
    pairs = ((draw_histogram(p, count, rng), draw_histogram(p, count, rng)) for _ in range(repeats))
    return float(np.mean([divergence(a, b) for a, b in pairs]))
