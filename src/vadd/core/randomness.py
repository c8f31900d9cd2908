"""Randomness as a function of (seed, purpose, step): nothing to save, and the same after any interruption."""

import numpy as np
import torch
from torch import Tensor

ORDER, MASKS, TEST, SAMPLING, BOUNDS, HEALTH, DROPOUT, PILOT, PRIOR, CONDITIONS, PREDICTIONS = range(11)
"""What random numbers are for; the first number of every stream. New ones come last: a seed must keep its meaning."""


def step_generator(seed: int, *stream: int) -> torch.Generator:
    """A CPU generator for one purpose at one moment, independent of all others."""
    # SeedSequence mixes its numbers: neighbouring seeds and steps give unrelated streams, as sums of them would not.
    state = int(np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state)


def seed_dropout(seed: int, step: int, process: int, device: torch.device) -> None:
    """Dropout uses the global generators. The draws of several processes must differ; the first one's are those of a
    training in one process.
    """
    stream = (MASKS, step) if process == 0 else (DROPOUT, step, process)
    number = step_generator(seed, *stream).initial_seed()
    torch.default_generator.manual_seed(number)
    if device.type != "cpu":
        torch.manual_seed(number)


class ShuffledBatches:
    """Indices of training examples: every epoch is a fresh permutation, and batches run on over the ends of epochs.

    ``batches[step]`` depends on the seed and the step only.
    """

    def __init__(self, examples: int, batch: int, seed: int) -> None:
        self.examples = examples
        self.batch = batch
        self.seed = seed
        self._epochs: dict[int, Tensor] = {}

    def __getitem__(self, step: int) -> Tensor:
        first = step * self.batch
        last = first + self.batch - 1
        epochs = range(first // self.examples, last // self.examples + 1)
        self._epochs = {epoch: self._permutation(epoch) for epoch in epochs}
        # Permutations of millions of examples take time: those of the epochs at hand are kept, and no others.
        order = torch.cat([self._epochs[epoch] for epoch in epochs]) if len(epochs) > 1 else self._epochs[epochs[0]]
        offset = first - epochs[0] * self.examples
        return order[offset : offset + self.batch]

    def _permutation(self, epoch: int) -> Tensor:
        known = self._epochs.get(epoch)
        if known is not None:
            return known
        return torch.randperm(self.examples, generator=step_generator(self.seed, ORDER, epoch))
