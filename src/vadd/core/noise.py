"""Random numbers for many samples, each sample's own.

Samples are drawn in chunks as large as memory allows. So that the chunks do not matter, the rows come in blocks, every
block with its own generator, which always draws for the whole block: the numbers of a row depend on its block and its
place in it, not on the rows drawn together with it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

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
        return self._each(torch.rand, shape, dtype=torch.float64)

    def normal(self, *shape: int) -> Tensor:
        """(rows, *shape) float32, from the standard normal distribution."""
        return self._each(torch.randn, shape)

    def seeds(self) -> Tensor:
        """(rows,) integers, for generators of a row's own."""
        return self._each(partial(torch.randint, 2**62), ())

    def _each(self, draw: Callable[..., Tensor], shape: tuple[int, ...], **options: Any) -> Tensor:
        size = (self._block, *shape)
        return torch.cat([draw(size, generator=generator, **options)[rows] for generator, rows in self._parts])
