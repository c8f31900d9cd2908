"""How close samples come to training examples, beside how close held-out examples come: does a model copy?

Samples that lie closer to the training set than unseen examples of the same data do have been learnt by heart, at least
in part. Being further away proves nothing about their quality: noise is far from everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.progress import Progress, silent

COMPARED = 1000
"""Samples for each number of steps, and held-out examples."""
NUMBERS_AT_ONCE = 2**25
MOST_ONE_HOT = 64
"""Values up to which the agreement of two sequences is cheapest as a product of one-hot vectors."""


@dataclass(frozen=True)
class NearestReport:
    """Medians of the number of positions in which an example differs from the training example nearest to it."""

    samples: Mapping[int, float]
    """By number of steps."""
    held_out: float
    compared: int
    """How many of each there were, at most."""

    def to_json(self) -> dict[str, Any]:
        samples = [{"steps": steps, "median": median} for steps, median in self.samples.items()]
        return {"samples": samples, "held_out": self.held_out, "compared": self.compared}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "NearestReport":
        samples = {entry["steps"]: entry["median"] for entry in json["samples"]}
        return cls(samples, json["held_out"], json["compared"])


def nearest_report(
    samples: Mapping[int, Tensor], held_out: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent
) -> NearestReport:
    """``samples`` (n, N) by number of steps; of all at most the first :data:`COMPARED` are compared."""
    parts = [held_out[:COMPARED], *(drawn[:COMPARED] for drawn in samples.values())]
    found = distances_to_nearest(torch.cat([part.long() for part in parts]), training, vocab_size, progress)
    own, *drawn = (float(part.double().median()) for part in torch.split(found, [len(part) for part in parts]))
    return NearestReport(dict(zip(samples, drawn, strict=True)), own, COMPARED)


def distances_to_nearest(x: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent) -> Tensor:
    """For each of the examples (n, N) the smallest number of positions in which one of (m, N) differs from it: (n,).

    >>> distances_to_nearest(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 1, 1], [0, 0, 2]]), vocab_size=3)
    tensor([1])
    """
    positions = x.shape[1]
    nearest = torch.full((len(x),), positions, dtype=torch.int64)
    wanted, width = _readable(x, vocab_size), positions * (vocab_size if vocab_size <= MOST_ONE_HOT else 1)
    done = 0
    for part in torch.split(training, max(1, NUMBERS_AT_ONCE // max(width, len(x)))):
        known = _readable(part, vocab_size)
        if vocab_size <= MOST_ONE_HOT:
            differing = positions - (wanted @ known.T).max(dim=1).values
        else:
            differing = torch.cdist(wanted, known, p=0).min(dim=1).values
        nearest = torch.minimum(nearest, differing.round().long())
        done += len(part)
        progress("looking for the nearest training examples", done, len(training))
    return nearest


def _readable(x: Tensor, vocab_size: int) -> Tensor:
    """One-hot vectors (n, N * V), whose products count agreements, or the values themselves; exact in float32."""
    values = x.cpu().long()
    return (F.one_hot(values, vocab_size).flatten(1) if vocab_size <= MOST_ONE_HOT else values).float()
