"""Any integer array in an ``.npy`` file is a data set: the first axis counts examples, the rest is one example."""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.data.labels import BESIDE, Labels, read_labels
from vadd.errors import UserError, check_range
from vadd.kinds.arrays import Array, read_integers

LARGEST_VALUE = 2**31 - 1


def read_array(path: Path, vocab_size: int | None = None) -> tuple[Array, int]:
    """The array, checked, and its V: ``vocab_size`` if given, else one more than the largest value."""
    array = read_integers(path)
    return array, values_of(array, vocab_size, str(path))


def values_of(array: Array, vocab_size: int | None, source: str) -> int:
    """The V of an array of integers that can be learnt from; see :func:`read_array`."""
    if array.ndim < 2 or array.size == 0:
        raise UserError(
            f"{source} has shape {array.shape}; needed is (examples, positions) or (examples, height, width, ...)"
        )
    low, high = int(array.min()), int(array.max())
    if high > LARGEST_VALUE:
        raise UserError(
            f"{source} holds the value {high}; number the values from 0 on, without gaps (np.unique does it)"
        )
    known = high + 1 if vocab_size is None else vocab_size
    check_range(low, high, known, f"{source} holds the value")
    return max(known, 2)


def examples_from(path: Path) -> Tensor:
    """All examples of a file, flattened: (n, N) int64."""
    array, _ = read_array(path)
    return torch.from_numpy(array.reshape(len(array), -1).astype(np.int64))


def load_array(
    path: Path,
    *,
    vocab_size: int | None = None,
    labels: bool = False,
    labels_path: str | None = None,
    test_fraction: float = 0.1,
    seed: int = 0,
) -> DiscreteDataset:
    """Examples are shuffled by ``seed`` and the last ``test_fraction`` of them (at least one) held out. ``labels`` lie
    in ``labels.npy`` beside the file, or in ``labels_path``.
    """
    array = read_integers(path)
    found = read_labels(labels_beside(path, labels_path), len(array)) if labels and array.ndim else None
    return split_array(
        array,
        str(path),
        name=path.stem,
        vocab_size=vocab_size,
        test_fraction=test_fraction,
        seed=seed,
        labels=found,
    )


def labels_beside(path: Path, labels_path: str | None = None) -> Path:
    """Where the labels of an array lie."""
    return path.parent / BESIDE if labels_path is None else Path(labels_path)


def split_array(
    array: Array,
    source: str,
    *,
    name: str,
    vocab_size: int | None,
    test_fraction: float,
    seed: int,
    labels: Labels | None = None,
) -> DiscreteDataset:
    """The same for an array in memory, which errors call ``source``."""
    known = values_of(array, vocab_size, source)
    count = len(array)
    held_out = max(1, math.floor(test_fraction * count))
    if held_out >= count:
        raise UserError(f"{source} holds {count} example(s); at least 2 are needed to train and to test")
    order = np.random.default_rng(seed).permutation(count)
    flat = torch.from_numpy(array.reshape(count, -1)[order].astype(np.int64))
    train_labels, test_labels = (
        (None, None) if labels is None else labels.parts(order[:-held_out], order[-held_out:], source)
    )
    return DiscreteDataset(
        name=name,
        vocab_size=known,
        shape=array.shape[1:],
        train=flat[:-held_out],
        test=flat[-held_out:],
        train_labels=train_labels,
        test_labels=test_labels,
        label_names=None if labels is None else labels.names,
    )
