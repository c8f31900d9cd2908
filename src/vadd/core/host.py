"""Random numbers and positions of a batch, found on the host, and their way to a device.

Randomness is a function of (seed, purpose, step): there is nothing to save, and it is the same after any interruption.

Asked how many entries of a mask are true, a GPU makes the host wait until it has done all that came before. Masks and
plans of samplers are drawn on the host, which can send the numbers of the positions along instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

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


WITHOUT_FLOAT64: frozenset[str] = frozenset({"mps"})
"""Types of devices: Apple's GPUs."""


def has_float64(device: torch.device) -> bool:
    return device.type not in WITHOUT_FLOAT64


ALIGNED = 16
"""Bytes: where a tensor may begin in a buffer of several."""


@dataclass(frozen=True)
class Places:
    """M of the B x N positions of a batch, by their numbers b * N + n, in rising order.

    >>> places = Places.of(torch.tensor([[True, False, True], [False, False, True]]))
    >>> places.numbers, places.rows, places.columns
    (tensor([0, 2, 5]), tensor([0, 0, 1]), tensor([0, 2, 2]))
    >>> places.values(torch.tensor([[7, 8, 9], [4, 5, 6]]))
    tensor([7, 9, 6])
    """

    numbers: Tensor
    """(M,)"""
    batch: int
    """B"""
    positions: int
    """N"""
    group: int = 1
    """Positions that a network reads out together, the channels of a pixel."""
    groups: Tensor | None = None
    """The numbers of the groups in which there are some, where a group has several positions."""

    @classmethod
    def of(cls, where: "Where", group: int = 1) -> "Places":
        """The true entries of ``where`` (B, N), if it is not known yet which they are."""
        if isinstance(where, Places):
            if where.group != group and group > 1:
                return replace(where, group=group, groups=torch.unique_consecutive(where.numbers // group))
            return where
        groups = None if group == 1 else where.reshape(-1, group).any(dim=1).nonzero()[:, 0]
        batch, positions = where.shape
        return cls(where.flatten().nonzero()[:, 0], batch, positions, group, groups)

    @classmethod
    def counted(cls, where: Tensor, counts: Tensor) -> "Places":
        """The first true entries of each row of ``where`` (B, N), as many as ``counts`` (B,) of the host say: the
        device is not asked.

        >>> Places.counted(torch.tensor([[True, False, True], [False, False, True]]), torch.tensor([2, 1])).numbers
        tensor([0, 2, 5])
        """
        batch, positions = where.shape
        wanted = (torch.arange(positions) < counts[:, None]).flatten().nonzero()[:, 0]
        (wanted,) = upload([wanted], where.device)
        ordered = (~where).byte().argsort(dim=1, stable=True)
        return cls(ordered.flatten()[wanted] + wanted // positions * positions, batch, positions)

    @classmethod
    def everywhere(cls, x: Tensor) -> "Places":
        """All positions of x (B, N)."""
        batch, positions = x.shape
        return cls(torch.arange(x.numel(), device=x.device), batch, positions)

    @property
    def rows(self) -> Tensor:
        return self.numbers // self.positions

    @property
    def columns(self) -> Tensor:
        return self.numbers % self.positions

    @property
    def mask(self) -> Tensor:
        """(B, N) bool."""
        mask = torch.zeros(self.batch * self.positions, dtype=torch.bool, device=self.numbers.device)
        return mask.index_fill_(0, self.numbers, True).view(self.batch, self.positions)

    def values(self, x: Tensor) -> Tensor:
        """Those of x (B, N): (M,)."""
        return x.flatten().index_select(0, self.numbers)

    def written(self, x: Tensor, values: Tensor) -> Tensor:
        """x (B, N) with other values (M,) here."""
        return x.flatten().index_copy(0, self.numbers, values).view_as(x)

    def repeated(self, times: int) -> "Places":
        """Of so many copies of the batch, one after the other."""
        if times == 1:
            return self
        copies = torch.arange(times, device=self.numbers.device)[:, None]
        numbers = (copies * (self.batch * self.positions) + self.numbers).flatten()
        groups = self.groups
        if groups is not None:
            groups = (copies * (self.batch * self.positions // self.group) + groups).flatten()
        return replace(self, numbers=numbers, batch=times * self.batch, groups=groups)

    def to(self, device: torch.device) -> "Places":
        numbers, groups = upload([self.numbers, self.groups], device)
        return replace(self, numbers=numbers, groups=groups)


Where = Tensor | Places
"""A bool mask (B, N), or the numbers of its true entries."""


def upload(given: Sequence[Tensor | None], device: torch.device) -> list[Any]:
    """Tensors of the host on a device, None for None: one copy for all of them, which the host does not wait for."""
    if device.type == "cpu":
        return list(given)
    tensors = [tensor for tensor in given if tensor is not None]
    if not has_float64(device):
        tensors = [tensor.float() if tensor.dtype == torch.float64 else tensor for tensor in tensors]
    begins = list(accumulate((-(-tensor.nbytes // ALIGNED) * ALIGNED for tensor in tensors), initial=0))
    # Only from pinned memory can a GPU copy by itself.
    pinned = device.type == "cuda"
    buffer = torch.empty(begins[-1], dtype=torch.uint8, pin_memory=pinned)

    def part(whole: Tensor, begin: int, tensor: Tensor) -> Tensor:
        return whole[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)

    for begin, tensor in zip(begins, tensors, strict=False):
        part(buffer, begin, tensor).copy_(tensor)
    sent = buffer.to(device, non_blocking=pinned)
    parts = (part(sent, begin, tensor) for begin, tensor in zip(begins, tensors, strict=False))
    return [None if tensor is None else next(parts) for tensor in given]


def precise(tensor: Tensor) -> Tensor:
    """As float64, wherever the device has it."""
    return tensor.double() if has_float64(tensor.device) else tensor


def at_least_single(tensor: Tensor) -> Tensor:
    """As float32 where a network worked in half precision: logits, losses and KL need more digits than that."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def summed_by_row(each: Tensor, where: Where) -> Tensor:
    """Numbers (M,) at the true entries of ``where`` (B, N), added up for every row: (B,)."""
    places = Places.of(where)
    # Long sums of logarithms: float64 where nothing is trained on them.
    each = each if each.requires_grad else precise(each)
    return each.new_zeros(places.batch).index_add(0, places.rows, each)
