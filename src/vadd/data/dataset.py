"""What every data set looks like to the rest of the package, what the settings of each have in common, and labels of
one's own examples: one for each, in any spelling, turned into names and numbers.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from vadd.errors import UserError, refuse_if
from vadd.kinds import Array, Kind, kind_of
from vadd.kinds.arrays import read_npy
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import Tokenizer
from vadd.progress import Progress, silent
from vadd.settings import Section
from vadd.words import plural

HASHED_VALUES = 1 << 25
"""Of a training or test set; they take a fraction of a second."""
HASHED_ROWS = 1024
"""At a time."""

TestFraction = Annotated[float, Field(gt=0, lt=1)]
ColumnName = Annotated[
    str, BeforeValidator(lambda name: str(name) if isinstance(name, int) and not isinstance(name, bool) else name)
]
"""A column may be called 2024, or have a number for want of a name."""


@dataclass(frozen=True)
class DiscreteDataset:
    """Examples of N integers in 0..V-1, flattened; ``shape`` is what one example looks like before flattening.

    An image has the shape (height, width, channels) and is flattened in that order.
    """

    name: str
    vocab_size: int
    shape: tuple[int, ...]
    train: Tensor
    """(n, N) integers of any type (images are uint8, text is mapped from disk). Turn batches into int64."""
    test: Tensor
    """(m, N) integers of the same type, disjoint from ``train``."""
    distribution: Callable[[], Array] | None = None
    """The exact probabilities of all examples, an array of shape (V,) * N; None if they are not known."""
    train_labels: Tensor | None = None
    """The labels, (n,) int64. Evaluation uses them; models read them only with ``label_names``."""
    test_labels: Tensor | None = None
    """The labels of ``test``, (m,) int64."""
    train_known: Tensor | None = None
    """(n, N), not zero where a value is given from the start: training never masks it."""
    test_known: Tensor | None = None
    """The same of ``test``, (m, N)."""
    tokenizer: Tokenizer | None = None
    """Turns examples into text, if the data are text."""
    pad: int | None = None
    """The value that fills up short examples. Models mask and read it like any other value. It is scored neither in
    training nor in evaluation.
    """
    table: TableCodec | None = None
    """Turns examples into rows, if the data are a table."""
    label_names: tuple[str, ...] | None = None
    """The names of the labels. With them, models learn from the labels."""
    unknowns: bool = False
    """Whether examples may hold V, the mask, where a value is unknown; see :class:`~vadd.kinds.Kind`."""
    wrap: Wrap | None = None
    """How documents were made into sequences, if the data are text."""
    frame: int = 0
    """Pixels that were added to each side of the images; the FID is of the images without them."""

    @cached_property
    def kind(self) -> Kind:
        """What an example is."""
        shares = None
        if self.label_names is not None and self.train_labels is not None:
            counts = torch.bincount(self.train_labels, minlength=len(self.label_names)).double()
            shares = tuple((counts / counts.sum()).tolist())
        facts = {"pad": self.pad, "labels": self.label_names, "unknowns": self.unknowns, "label_shares": shares}
        return kind_of(self.shape, self.vocab_size, self.tokenizer, self.wrap, self.table, **facts)

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


def chosen_examples(examples: Tensor, numbers: str) -> Array:
    """ "0,5" -> these examples, (n, N) int64."""
    try:
        chosen = [int(number) for number in numbers.split(",")]
    except ValueError:
        raise UserError(f"held-out examples are named by numbers, like 0,5,7; not {numbers!r}") from None
    for number in chosen:
        if not 0 <= number < len(examples):
            raise UserError(f"there is no example {number}; choose from 0..{len(examples) - 1}")
    return examples[chosen].long().numpy()


def _spread(total: int, most: int) -> Tensor:
    """All indices below ``total``, or ``most`` of them at equal distances."""
    return torch.arange(total) if total <= most else torch.linspace(0, total - 1, most, dtype=torch.float64).long()


class DataSettings(Section):
    """The section ``data`` of a recipe: which data set, and how it is read."""

    kind: Any
    """Its name in recipes."""

    def load(self, seed: int = 0, tokenizer: Tokenizer | None = None, progress: Progress = silent) -> DiscreteDataset:
        """Text is read with the ``tokenizer`` of a run, where one is given."""
        return self.read(seed)

    def read(self, seed: int) -> DiscreteDataset:
        """The same for data sets that need nothing else."""
        raise NotImplementedError

    def example_kind(self) -> Kind:
        """What an example is; without reading the data where the settings say enough."""
        return self.load().kind


class ClassifiedImages(DataSettings):
    """Published images with a class each, in a training and a test part."""

    labels: bool = False
    """Whether the model is given the class of each example, to draw from a class: `vadd sample --label`."""
    shape: ClassVar[tuple[int, int, int]]
    frame: ClassVar[int] = 0
    classes: ClassVar[tuple[str, ...]] = tuple(map(str, range(10)))

    def parts(self, seed: int) -> Sequence[tuple[Array, Array]]:
        """Images (n, N) and classes (n,) int64, of both parts."""
        raise NotImplementedError

    def read(self, seed: int = 0) -> DiscreteDataset:
        tensors = [torch.from_numpy(array) for part in self.parts(seed) for array in part]
        train, train_labels, test, test_labels = tensors
        about = self.example_kind()
        more: dict[str, Any] = {"train_labels": train_labels, "test_labels": test_labels, "frame": self.frame}
        return DiscreteDataset(self.kind, about.vocab_size, self.shape, train, test, label_names=about.labels, **more)

    def example_kind(self) -> Kind:
        # Where there is no such setting images are black and white.
        return kind_of(self.shape, getattr(self, "levels", 2), labels=self.classes if self.labels else None)


def random_split(
    count: int, test_fraction: float, seed: int, source: str, noun: str = "example"
) -> tuple[Array, Array]:
    """The numbers of the examples to train on and of those held out: shuffled, the last share of them, at least one."""
    held_out = max(1, math.floor(test_fraction * count))
    if held_out >= count:
        raise UserError(f"{source} holds {plural(count, noun)}; at least 2 are needed to train and to test")
    order: Array = np.arange(count, dtype=np.int32 if count < 1 << 31 else np.int64)  # half of the memory, or a quarter
    np.random.default_rng(seed).shuffle(order)
    return order[:-held_out], order[-held_out:]


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
        counts = Counter(labels)
        # Numbers come first and by their size: 2 before 10.
        names = sorted(counts, key=lambda name: (0, float(name), name) if name.isdecimal() else (1, 0.0, name))
        count = f"{len(names):,} different labels for {len(labels):,} examples; at most {MOST_LABELS}"
        rare = min(names, key=counts.__getitem__)
        blank = not all(name.strip() for name in names)
        refuse_if(
            (blank, f"{source}: a label is blank; every example needs one that can be named"),
            (len(names) < 2, f"{source}: all examples have the label {names[0]!r}; 2 labels are needed"),
            (len(names) > MOST_LABELS, f"{source}: {count}"),
            (counts[rare] < 2, f"{source}: a single example has the label {rare!r}; 2 of each are needed"),
        )
        numbers = {name: number for number, name in enumerate(names)}
        return cls(tuple(names), torch.tensor([numbers[label] for label in labels]))

    def parts(self, train: Array, test: Array, source: str) -> dict[str, Any]:
        """What a data set of the examples number ``train`` and ``test`` says of them."""
        learnt, tested = self.codes[torch.from_numpy(train)], self.codes[torch.from_numpy(test)]
        missing = set(range(len(self.names))) - set(learnt.tolist())
        if missing:
            held_out = f"all examples of the label {self.names[min(missing)]!r} are held out"
            raise UserError(f"{source}: {held_out}; change data.test_fraction or seed")
        return {"train_labels": learnt, "test_labels": tested, "label_names": self.names}


def read_labels(array: Path, given: str | None, examples: int) -> Labels:
    """Of an ``.npy`` file of integers or text, as many as there are ``examples``: beside the array, unless the settings
    say where.
    """
    path = array.parent / LABELS_FILE if given is None else Path(given)
    try:
        labels = read_npy(path)
    except FileNotFoundError:
        raise UserError(f"there are no labels in {path}; data.labels_path names another file") from None
    return Labels.of(given_labels(labels, examples, str(path)), str(path))


def without_torch(values: Any, source: str) -> Any:
    """A tensor, on whatever device, as an array; anything else as it is."""
    if not isinstance(values, Tensor):
        refuse_if((np.ma.is_masked(values), f"{source} is masked; array.filled(value) gives its gaps a value"))
        return values
    refuse_if(
        (values.is_meta, f"{source}: a tensor on the device meta has no values"),
        (values.is_nested or values.is_quantized, f"{source}: nested and quantised tensors are not taken"),
    )
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
