"""What every data set looks like to the rest of the package."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.kinds.table.codec import TableCodec
    from vadd.kinds.text.tokenizers import Tokenizer

Array = np.ndarray[Any, np.dtype[Any]]

HASHED_VALUES = 1 << 25
"""Of a training or test set; they take a fraction of a second."""
HASHED_ROWS = 4096
"""At a time."""
TO_FILL = -1
"""Stands in unfinished examples where a value is missing."""


@dataclass(frozen=True)
class ExampleFormat:
    """What a model must know of its data."""

    shape: tuple[int, ...]
    """Of one example, before it is flattened."""
    vocab_size: int
    """V: values are 0..V-1, and V is the mask."""
    pad: int | None = None
    """The value that fills examples up, where one does; it is not scored."""
    sizes: tuple[int, ...] | None = None
    """Where positions have different numbers of values: position i has 0..sizes[i]-1, and V is the largest size."""
    labels: tuple[str, ...] | None = None
    """The names of the labels, for data that a model learns from with their labels."""
    unknowns: bool = False
    """Whether examples may hold V, the mask, at positions that nobody knows: they stay hidden and are not scored."""
    label_shares: tuple[float, ...] | None = field(default=None, compare=False)
    """How frequent each label is among the training examples; not known of runs made before it was kept."""

    @property
    def positions(self) -> int:
        """N, the values of an example."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class DiscreteDataset:
    """Examples of N integers in 0..V-1, flattened; ``shape`` is what one example looks like before flattening.

    An image has the shape (height, width, channels) and is flattened in that order.
    """

    name: str
    vocab_size: int
    shape: tuple[int, ...]
    train: Tensor
    """(n, N) integers of any type (images are uint8, text lies on disk): turn batches into int64."""
    test: Tensor
    """(m, N) integers of the same type, disjoint from ``train``."""
    distribution: Callable[[], Array] | None = None
    """Where it is known: the exact probabilities of all values of one example, an array of shape (V,) * N."""
    train_labels: Tensor | None = None
    """Where there are classes: (n,) int64. They serve to judge samples; models see them only with ``label_names``."""
    test_labels: Tensor | None = None
    """(m,) int64."""
    tokenizer: "Tokenizer | None" = None
    """Where the examples are text: what turns them back into it."""
    pad: int | None = None
    """Where examples are filled up: the value that does it. Models mask and see it like any other, but it is not
    scored, neither in training nor in judging.
    """
    table: "TableCodec | None" = None
    """Where the examples are rows of a table: what turns them back into rows."""
    label_names: tuple[str, ...] | None = None
    """Where models are given the labels: what they are called."""
    unknowns: bool = False
    """Whether examples hold V where a value is unknown; see :class:`ExampleFormat`."""

    @property
    def positions(self) -> int:
        return self.train.shape[1]

    def fingerprint(self) -> str:
        """Tells data sets apart: a checksum of all examples or, of very many, of some spread evenly over them."""
        digest = hashlib.sha256()
        for part in (self.train, self.test):
            digest.update(repr(tuple(part.shape)).encode())
            for rows in _spread(len(part), max(1, HASHED_VALUES // part.shape[1])).split(HASHED_ROWS):  # type: ignore[no-untyped-call]
                digest.update(part[rows].cpu().numpy().astype("<i4").tobytes())
        return digest.hexdigest()

    @property
    def format(self) -> ExampleFormat:
        sizes = None if self.table is None else self.table.sizes
        return ExampleFormat(
            self.shape, self.vocab_size, self.pad, sizes, self.label_names, self.unknowns, self._label_shares()
        )

    def _label_shares(self) -> tuple[float, ...] | None:
        if self.label_names is None or self.train_labels is None:
            return None
        counts = torch.bincount(self.train_labels, minlength=len(self.label_names)).double()
        return tuple((counts / counts.sum()).tolist())


def _spread(total: int, most: int) -> Tensor:
    """All indices below ``total``, or ``most`` of them at equal distances."""
    return torch.arange(total) if total <= most else torch.linspace(0, total - 1, most, dtype=torch.float64).long()


def quantize(pixels: Array, levels: int, *, of: int = 256) -> Array:
    """Integers in 0..of-1 cut evenly into 0..levels-1: floor(pixel * levels / of), uint8.

    Two levels split at half of the largest value, ``of`` levels change nothing.
    """
    if not 2 <= levels <= of:
        raise UserError(f"levels must be in 2..{of}, not {levels}")
    table = (np.arange(of) * levels // of).astype(np.uint8)
    return table[pixels]
