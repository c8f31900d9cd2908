"""How well samples reproduce the dependence between positions, where the joint distribution is too large to count.

The mean Jensen-Shannon divergence over pairs of positions: for each pair the joint histogram of the samples against
that of the data. A factorised one-step sampler gets every single position right and the pairs wrong; this sees it.
"""

import numpy as np

from vadd.evaluation.divergence import histogram, jsd
from vadd.kinds.arrays import Array

MAX_PAIRS = 200


def position_pairs(positions: int, seed: int = 0, most: int = MAX_PAIRS) -> Array:
    """All pairs i < j, or ``most`` of them at random: (pairs, 2). A single position is compared by itself: [[0]]."""
    if positions == 1:
        return np.zeros((1, 1), dtype=np.int64)
    pairs = np.stack(np.triu_indices(positions, k=1), axis=1)
    # A large image has half a million pairs; the mean over a few hundred of them is accurate enough.
    if len(pairs) > most:
        pairs = pairs[np.random.default_rng(seed).choice(len(pairs), most, replace=False)]
    return pairs


def pair_jsd(a: Array, b: Array, vocab_size: int, pairs: Array) -> float:
    """The mean over ``pairs`` of the divergence between the pair's histograms in ``a`` (n, N) and ``b`` (m, N)."""
    return float(np.mean([jsd(histogram(a[:, pair], vocab_size), histogram(b[:, pair], vocab_size)) for pair in pairs]))
