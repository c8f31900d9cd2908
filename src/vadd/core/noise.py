"""Random numbers for many samples, each sample's own.

Samples are drawn in chunks as large as memory allows. So that the chunks do not matter, the rows come in blocks, every
block with a generator of its own: what a row is given depends on its block alone, not on the rows drawn beside it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

BLOCK = 64
"""Rows that share a generator; part of what a seed means."""


class Noise:
    """Uniform and other random numbers for ``rows`` samples. All are made on the CPU, in float64, and mean the same on
    every device.
    """

    def __init__(self, generators: Sequence[torch.Generator], rows: int, block: int = BLOCK) -> None:
        if len(generators) != -(-rows // block):
            raise ValueError(f"{rows} rows in blocks of {block} need {-(-rows // block)} generators")
        self.rows = rows
        self._parts = [
            (generator, slice(first, min(first + block, rows)))
            for generator, first in zip(generators, range(0, rows, block), strict=True)
        ]

    @classmethod
    def of(cls, generator: torch.Generator, rows: int) -> "Noise":
        """All rows from one generator."""
        return cls([generator], rows, max(1, rows))

    def each(self, draw: Callable[[slice, torch.Generator], Tensor | None]) -> Tensor | None:
        """``draw(rows, generator)`` for every block, one below the other."""
        drawn = [found for generator, rows in self._parts if (found := draw(rows, generator)) is not None]
        return torch.cat(drawn) if drawn else None

    def uniform(self, *shape: int) -> Tensor:
        """(rows, *shape), in [0, 1)."""
        return torch.cat(
            [
                torch.rand(rows.stop - rows.start, *shape, generator=generator, dtype=torch.float64)
                for generator, rows in self._parts
            ]
        )

    def uniform_at(self, where: Tensor, *shape: int) -> Tensor:
        """(M, *shape), for the M true entries of ``where`` (rows, N) in row-major order."""
        counts = where.sum(dim=1).cpu()
        return torch.cat(
            [
                torch.rand(int(counts[rows].sum()), *shape, generator=generator, dtype=torch.float64)
                for generator, rows in self._parts
            ]
        )
