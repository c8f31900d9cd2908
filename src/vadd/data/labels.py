"""Labels of somebody's own examples: one for each, in any spelling, turned into names and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.parsing import regular_file
from vadd.words import plural

BESIDE = "labels.npy"
"""What the labels of an array are called that lie beside it."""
MOST_LABELS = 1000
"""More are no labels: a model has weights for each of them, and must see examples of each."""


@dataclass(frozen=True)
class Labels:
    """The names, sorted (numbers by size), and for each example the number of its name, (n,) int64."""

    names: tuple[str, ...]
    codes: Tensor

    @classmethod
    def of(cls, found: Sequence[str], source: str) -> "Labels":
        """Of one name for each example; ``source`` is what errors call them."""
        names, codes, counts = np.unique(np.asarray(found, dtype=np.str_), return_inverse=True, return_counts=True)
        if not all(name.strip() for name in names.tolist()):
            raise UserError(f"{source}: a label is blank; every example needs one that can be named")
        if len(names) < 2:
            raise UserError(f"{source}: all examples have the label {str(names[0])!r}; at least 2 labels are needed")
        if len(names) > MOST_LABELS:
            raise UserError(
                f"{source}: {len(names):,} different labels for {len(found):,} examples; at most {MOST_LABELS}"
            )
        if counts.min() < 2:
            rare = names[counts.argmin()]
            raise UserError(f"{source}: a single example has the label {str(rare)!r}; at least 2 of each are needed")
        order = sorted(range(len(names)), key=lambda number: _place(str(names[number])))
        rank = np.argsort(np.asarray(order))
        return cls(tuple(str(names[number]) for number in order), torch.from_numpy(rank[codes].astype(np.int64)))

    def parts(self, train: Array, test: Array, source: str) -> tuple[Tensor, Tensor]:
        """Those of the examples number ``train`` and ``test``."""
        learnt, held_out = self.codes[torch.from_numpy(train)], self.codes[torch.from_numpy(test)]
        missing = set(range(len(self.names))) - set(learnt.tolist())
        if missing:
            name = self.names[min(missing)]
            raise UserError(
                f"{source}: all examples of the label {name!r} are held out; change data.test_fraction or the seed"
            )
        return learnt, held_out


def _place(name: str) -> tuple[bool, float, str]:
    """Numbers come first and by their size: 2 before 10."""
    return (False, float(name), name) if name.isdecimal() else (True, 0.0, name)


def read_labels(path: Path, examples: int) -> Labels:
    """Of an ``.npy`` file of integers or text, as many as there are ``examples``."""
    try:
        with regular_file(path).open("rb") as file:
            array: Array = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(
            f"there are no labels in {path}: data.labels=true reads {BESIDE} beside the array, or the file that "
            "data.labels_path names"
        ) from None
    except (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        holds_objects = "Object arrays" in str(error)
        reason = "it holds Python objects, which are not read" if holds_objects else "it is no array or cut off"
        raise UserError(f"{path} is not a readable .npy file: {reason}") from None
    return labels_of(array, examples, str(path))


def given_labels(labels: Any, examples: int, source: str) -> list[str]:
    """One name for each of ``examples`` examples, of whatever Python holds labels in: a list, an array, a tensor or a
    column of a DataFrame, of integers or text.
    """
    if hasattr(labels, "detach"):  # a tensor, on whatever device
        labels = labels.detach().cpu()
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of different lengths
        raise UserError(f"{source}: labels are one integer or text for each example, not lists of them") from None
    if array.dtype.kind == "O" and array.ndim == 1:
        wrong = [label for label in array.tolist() if not isinstance(label, str | int)]
        if wrong:
            raise UserError(f"{source}: the label {wrong[0]!r} is neither text nor an integer; every example needs one")
        array = np.array([str(label) for label in array.tolist()])
    _check_labels(array, examples, source)
    return [str(label) for label in array.tolist()]


def labels_of(array: Array, examples: int, source: str) -> Labels:
    """The same for an array in memory."""
    _check_labels(array, examples, source)
    return Labels.of([str(label) for label in array.tolist()], source)


def _check_labels(array: Array, examples: int, source: str) -> None:
    if array.ndim != 1 or array.dtype.kind not in "iubUT":
        raise UserError(f"{source}: labels are (n,) integers or text, not {array.dtype} of the shape {array.shape}")
    if len(array) != examples:
        raise UserError(f"{source}: {plural(len(array), 'label')} for {plural(examples, 'example')}")
