"""How close samples come to training examples, compared with held-out examples: does a model copy?

Samples that lie closer to the training set than unseen examples of the same data have been memorised, at least in part.
Being further away proves nothing about their quality: noise is far from everything.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.evaluation.reports import NearestReport, NearestSamples
from vadd.progress import Progress, silent

COMPARED = 1000
"""Samples for each number of steps, and held-out examples."""
NUMBERS_AT_ONCE = 2**25
MOST_ONE_HOT = 64
"""Values up to which the agreement of two sequences is cheapest as a product of one-hot vectors."""


def nearest_report(
    samples: Mapping[int, Tensor], held_out: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent
) -> NearestReport:
    """``samples`` (n, N) by number of steps; of all at most the first :data:`COMPARED` are compared."""
    parts = [held_out[:COMPARED], *(drawn[:COMPARED] for drawn in samples.values())]
    distances = distances_to_nearest(torch.cat([part.long() for part in parts]), training, vocab_size, progress)
    split = torch.split(distances, [len(part) for part in parts])
    own, *medians = (float(part.double().median()) for part in split)
    by_steps = [NearestSamples(steps=steps, median=median) for steps, median in zip(samples, medians, strict=True)]
    return NearestReport(samples=tuple(by_steps), held_out=own, compared=COMPARED)


def distances_to_nearest(x: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent) -> Tensor:
    """For each of the examples (n, N) the smallest number of positions in which one of (m, N) differs from it: (n,).

    >>> distances_to_nearest(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 1, 1], [0, 0, 2]]), vocab_size=3)
    tensor([1])
    """
    positions = x.shape[1]
    nearest = torch.full((len(x),), positions, dtype=torch.int64)
    one_hot = vocab_size <= MOST_ONE_HOT

    def readable(values: Tensor) -> Tensor:
        """One-hot vectors (n, N * V), whose products count agreements, or the values themselves; exact in float32."""
        values = values.cpu().long()
        return (F.one_hot(values, vocab_size).flatten(1) if one_hot else values).float()

    wanted, done = readable(x), 0
    for part in torch.split(training, max(1, NUMBERS_AT_ONCE // max(wanted.shape[1], len(x)))):
        known = readable(part)
        if one_hot:
            differing = positions - (wanted @ known.T).max(dim=1).values
        else:
            differing = torch.cdist(wanted, known, p=0).min(dim=1).values
        nearest = torch.minimum(nearest, differing.round().long())
        done += len(part)
        progress("looking for the nearest training examples", done, len(training))
    return nearest
