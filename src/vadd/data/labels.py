"""Labels of one's own examples: one for each, in any spelling, turned into names and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadd.errors import UserError
from vadd.kinds.arrays import Array, read_npy
from vadd.words import plural

LABELS_FILE = "labels.npy"
"""The labels of an array, in the same folder."""
MOST_LABELS = 1000
"""A model has weights for each of them, and must see examples of each."""


@dataclass(frozen=True)
class Labels:
    """The names, sorted (numbers by size), and for each example the number of its name, (n,) int64."""

    names: tuple[str, ...]
    codes: Tensor

    @classmethod
    def of(cls, labels: Sequence[str], source: str) -> "Labels":
        """Of one name for each example; ``source`` is what errors call them."""
        names, codes, counts = np.unique(np.asarray(labels, dtype=np.str_), return_inverse=True, return_counts=True)
        if not all(name.strip() for name in names.tolist()):
            raise UserError(f"{source}: a label is blank; every example needs one that can be named")
        if len(names) < 2:
            raise UserError(f"{source}: all examples have the label {str(names[0])!r}; 2 labels are needed")
        if len(names) > MOST_LABELS:
            raise UserError(
                f"{source}: {len(names):,} different labels for {len(labels):,} examples; at most {MOST_LABELS}"
            )
        if counts.min() < 2:
            rare = names[counts.argmin()]
            raise UserError(f"{source}: a single example has the label {str(rare)!r}; 2 of each are needed")
        order = sorted(range(len(names)), key=lambda number: _sorting_key(str(names[number])))
        rank = np.argsort(np.asarray(order))
        return cls(tuple(str(names[number]) for number in order), torch.from_numpy(rank[codes].astype(np.int64)))

    def parts(self, train: Array, test: Array, source: str) -> dict[str, Any]:
        """What a data set of the examples number ``train`` and ``test`` says of them."""
        learnt, held_out = self.codes[torch.from_numpy(train)], self.codes[torch.from_numpy(test)]
        missing = set(range(len(self.names))) - set(learnt.tolist())
        if missing:
            name = self.names[min(missing)]
            raise UserError(
                f"{source}: all examples of the label {name!r} are held out; change data.test_fraction or seed"
            )
        return {"train_labels": learnt, "test_labels": held_out, "label_names": self.names}


def _sorting_key(name: str) -> tuple[bool, float, str]:
    """Numbers come first and by their size: 2 before 10."""
    return (False, float(name), name) if name.isdecimal() else (True, 0.0, name)


def read_labels(path: Path, examples: int) -> Labels:
    """Of an ``.npy`` file of integers or text, as many as there are ``examples``."""
    try:
        array = read_npy(path)
    except FileNotFoundError:
        raise UserError(
            f"there are no labels in {path}: data.labels=true reads {LABELS_FILE} in the folder of the array, or the "
            "file that data.labels_path names"
        ) from None
    return Labels.of(given_labels(array, examples, str(path)), str(path))


def without_torch(values: Any, source: str) -> Any:
    """A tensor, on whatever device, as an array; anything else as it is."""
    if not isinstance(values, Tensor):
        return values
    if values.is_meta:
        raise UserError(f"{source}: a tensor on the device meta has no values")
    dense = values.detach().to_dense() if values.layout is not torch.strided else values.detach()
    return (dense.float() if dense.dtype is torch.bfloat16 else dense).cpu().numpy()


def given_labels(labels: Any, examples: int, source: str) -> list[str]:
    """One name for each of ``examples`` examples, of whatever Python holds labels in: a list, an array, a tensor or a
    column of a DataFrame, of integers or text.
    """
    labels = without_torch(labels, source)
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of different lengths
        raise UserError(f"{source}: labels are one integer or text for each example, not lists of them") from None
    if array.dtype.kind == "O" and array.ndim == 1:
        wrong = [label for label in array.tolist() if not isinstance(label, str | int)]
        if wrong:
            raise UserError(f"{source}: the label {wrong[0]!r} is neither text nor an integer")
        array = np.array([str(label) for label in array.tolist()])
    if array.ndim != 1 or array.dtype.kind not in "iubUT":
        raise UserError(f"{source}: labels are (n,) integers or text, not {array.dtype} of the shape {array.shape}")
    if len(array) != examples:
        raise UserError(f"{source}: {plural(len(array), 'label')} for {plural(examples, 'example')}")
    return [str(label) for label in array.tolist()]
