"""Randomness as a function of (seed, purpose, step): nothing to save, and the same after any interruption."""

from collections.abc import Sequence

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
        return order[offset : offset + self.batch].long()

    def _permutation(self, epoch: int) -> Tensor:
        known = self._epochs.get(epoch)
        if known is not None:
            return known
        smaller = torch.int32 if self.examples < 1 << 31 else torch.int64  # the same numbers in half of the memory
        return torch.randperm(self.examples, dtype=smaller, generator=step_generator(self.seed, ORDER, epoch))


BLOCK = 64
"""Rows that share a generator; part of what a seed means."""


class Noise:
    """Random numbers for ``rows`` samples, the first of which is the ``first`` of its block. All are made on the CPU
    and mean the same on every device.

    The last two of five samples get the same numbers alone as with the others:

    >>> whole = Noise([torch.Generator().manual_seed(0)], rows=5).uniform(3)
    >>> alone = Noise([torch.Generator().manual_seed(0)], rows=2, first=3).uniform(3)
    >>> torch.equal(whole[3:], alone)
    True
    """

    def __init__(self, generators: Sequence[torch.Generator], rows: int, block: int = BLOCK, *, first: int = 0) -> None:
        if not 0 <= first < block:
            raise ValueError(f"a block of {block} rows has no row {first}")
        needed = -(-(first + rows) // block)
        if len(generators) != needed:
            raise ValueError(f"{rows} rows in blocks of {block} need {needed} generators")
        self.rows = rows
        self._block = block
        self._parts = [
            (generator, slice(max(first - start, 0), min(first + rows - start, block)))
            for generator, start in zip(generators, range(0, first + rows, block), strict=True)
        ]

    @classmethod
    def of(cls, generator: torch.Generator, rows: int) -> "Noise":
        """All rows from one generator."""
        return cls([generator], rows, max(1, rows))

    def uniform(self, *shape: int) -> Tensor:
        """(rows, *shape) float64, in [0, 1)."""
        size = (self._block, *shape)
        return torch.cat([torch.rand(size, generator=g, dtype=torch.float64)[rows] for g, rows in self._parts])

    def normal(self, *shape: int) -> Tensor:
        """(rows, *shape) float32, from the standard normal distribution."""
        return torch.cat([torch.randn((self._block, *shape), generator=g)[rows] for g, rows in self._parts])

    def seeds(self) -> Tensor:
        """(rows,) integers, for generators of a row's own."""
        return torch.cat([torch.randint(2**62, (self._block,), generator=g)[rows] for g, rows in self._parts])
