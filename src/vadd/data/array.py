"""Any integer array in an ``.npy`` file is a data set: the first axis counts examples, the rest is one example."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.utils._pytree import tree_map

from vadd.data.dataset import DataSettings, DiscreteDataset, Labels, TestFraction, random_split, read_labels
from vadd.errors import UserError, check_range, refuse_if
from vadd.files import write_json
from vadd.kinds import Kind, check_facts, kind_of
from vadd.kinds.arrays import LARGE, Array, extremes, read_integers, take, value_type
from vadd.kinds.text.tokenizers import Tokenizer
from vadd.parsing import read_json
from vadd.progress import Progress, silent

LARGEST_VALUE = 2**31 - 1


class ArrayData(DataSettings):
    """Any integer array in an .npy file, examples along the first axis."""

    kind: Literal["array"] = "array"
    path: str
    labels: bool = False
    """Whether the model is given the class of each example, to draw from a class: `vadd sample --label`."""
    labels_path: str | None = None
    """An .npy file with a label for each example, integers or text; by default labels.npy beside it."""
    vocab_size: int | None = Field(None, ge=2)
    """V; by default one more than the largest value in the file."""
    known: str | None = None
    """An .npy file of zeros and ones of the same shape: ones where a value is given from the start. Training masks the
    rest only, for a model that completes such examples and is not meant to draw whole ones.
    """
    test_fraction: TestFraction = 0.1

    def read(self, seed: int) -> DiscreteDataset:
        path, array = Path(self.path), read_integers(Path(self.path))
        labels = self._labels(len(array)) if array.ndim else None
        return self.split(array, labels, str(path), name=path.stem, seed=seed)

    def split(self, array: Array, labels: Labels | None, source: str, *, name: str, seed: int = 0) -> DiscreteDataset:
        """The data set of an array in memory, which errors call ``source``."""
        vocab_size = values_of(array, self.vocab_size, source)
        train, test = random_split(len(array), self.test_fraction, seed, source)
        flat = array.reshape(len(array), -1)
        learnt, held_out = rows_of(flat, train, vocab_size), rows_of(flat, test, vocab_size)
        more: dict[str, Any] = {} if labels is None else labels.parts(train, test, source)
        if self.known is not None:
            known = _known(Path(self.known), array.shape)
            more |= {"train_known": rows_of(known, train, 2), "test_known": rows_of(known, test, 2)}
        return DiscreteDataset(name, vocab_size, array.shape[1:], learnt, held_out, **more)

    def example_kind(self) -> Kind:
        try:
            array, vocab_size = read_array(Path(self.path), self.vocab_size)
        except UserError as error:
            raise UserError(f"without the data the shape of the examples is unknown: {error}") from None
        labels = self._labels(len(array))
        return kind_of(array.shape[1:], vocab_size, labels=None if labels is None else labels.names)

    def _labels(self, examples: int) -> Labels | None:
        return read_labels(Path(self.path), self.labels_path, examples) if self.labels else None


def _known(path: Path, shape: tuple[int, ...]) -> Array:
    """(n, N)"""
    known = read_integers(path)
    if known.shape != shape:
        raise UserError(f"data.known: {path} has the shape {known.shape}, the examples have {shape}")
    low, high = extremes(known, str(path))
    check_range(low, high, 2, f"data.known: {path} holds the value")
    flat: Array = known.reshape(len(known), -1)
    if flat.all():
        raise UserError(f"data.known: {path} holds ones only; there is nothing to learn")
    return flat


class MappedRows(Tensor):
    """Rows of a large array in an order of their own, (n, N): as a tensor of which only those are read that are
    indexed. Whatever needs the content of all reads all.
    """

    array: Array
    order: Array
    kind: np.dtype[Any]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = args[0]
        if func in _ABOUT_SHAPE:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if func is Tensor.__getitem__ and isinstance(args[1], slice):
            return mapped_rows(rows.array, rows.order[args[1]], rows.kind)
        if func is Tensor.__getitem__ and isinstance(args[1], Tensor | list):
            return rows.read(np.asarray(args[1]))
        whole = tree_map(lambda each: each.read(slice(None)) if isinstance(each, cls) else each, (args, kwargs or {}))
        return func(*whole[0], **whole[1])

    def read(self, rows: Array | slice) -> Tensor:
        numbers = self.order[rows]
        content = take(self.array, numbers.reshape(-1)).astype(self.kind)
        return torch.from_numpy(content.reshape(*numbers.shape, self.array.shape[1]))


_ABOUT_SHAPE = (Tensor.shape.__get__, Tensor.ndim.__get__, Tensor.dtype.__get__, Tensor.__len__)  # type: ignore[attr-defined]


def mapped_rows(array: Array, order: Array, kind: np.dtype[Any]) -> MappedRows:
    dtype = torch.from_numpy(np.zeros(0, kind)).dtype
    rows = torch.empty(len(order), array.shape[1], dtype=dtype, device="meta").as_subclass(MappedRows)
    rows.array, rows.order, rows.kind = array, order, kind
    return rows


def rows_of(array: Array, order: Array, vocab_size: int) -> Tensor:
    """Of an array (n, N), in this order: in memory, or mapped where that would be large."""
    if array.size * 8 >= LARGE:
        return mapped_rows(array, order, value_type(vocab_size))
    return torch.from_numpy(array[order].astype(np.int64))


def read_array(path: Path, vocab_size: int | None = None) -> tuple[Array, int]:
    """The array, checked, and its V: ``vocab_size`` if given, else one more than the largest value."""
    array = read_integers(path)
    return array, values_of(array, vocab_size, str(path))


def values_of(array: Array, vocab_size: int | None, source: str) -> int:
    """The V of an array of integers that can be learnt from; see :func:`read_array`."""
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{source} has shape {array.shape}; needed is (examples, positions) or more axes")
    low, high = extremes(array, source)
    if high > LARGEST_VALUE:
        raise UserError(f"{source} holds the value {high}; number the values from 0 on (np.unique does it)")
    known = high + 1 if vocab_size is None else vocab_size
    check_range(low, high, known, f"{source} holds the value")
    return max(known, 2)


def examples_from(path: Path) -> Tensor:
    """All examples of a file, flattened: (n, N) int64."""
    array, _ = read_array(path)
    return torch.from_numpy(array.reshape(len(array), -1).astype(np.int64))


ABOUT = "examples.json"
PARTS = ("train", "test", "train_labels", "test_labels", "train_known", "test_known")
LARGEST_DISTRIBUTION = 1 << 24
"""Entries; a larger table is not kept, and the run is evaluated as if it were not known."""


class GivenData(DataSettings):
    """A data set that was made in Python; its run keeps it in this folder."""

    kind: Literal["given"] = "given"
    path: str

    def load(self, seed: int = 0, tokenizer: Tokenizer | None = None, progress: Progress = silent) -> DiscreteDataset:
        """What :func:`save_dataset` wrote."""
        folder = Path(self.path)
        try:
            about = read_json(folder / ABOUT)
            name, (shape, vocab_size, facts) = str(about["name"]), check_facts(about)
        except FileNotFoundError:
            raise UserError(f"there is no data set in {folder}") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{folder / ABOUT} is damaged") from None
        files = {part: file for part in PARTS if (file := folder / f"{part}.npy").exists()}
        if not {"train", "test"} <= files.keys():
            raise UserError(f"{folder} is damaged: it needs train.npy and test.npy")
        known = folder / "distribution.npy"
        distribution = partial(np.load, known, allow_pickle=False) if known.exists() else None
        about = {"distribution": distribution, "pad": facts["pad"], "label_names": facts["labels"]}
        about |= {part: torch.from_numpy(read_integers(file)) for part, file in files.items()}
        return DiscreteDataset(name=name, vocab_size=vocab_size, shape=shape, tokenizer=tokenizer, **about)


def save_dataset(data: DiscreteDataset, folder: Path) -> None:
    """Into an existing folder."""
    write_json(folder / ABOUT, {"name": data.name} | data.kind.to_json())
    for part in PARTS:
        if (tensor := getattr(data, part)) is not None:
            np.save(folder / f"{part}.npy", tensor.cpu().numpy())
    if data.distribution is not None and data.vocab_size**data.positions <= LARGEST_DISTRIBUTION:
        np.save(folder / "distribution.npy", data.distribution())


def check_dataset(data: DiscreteDataset) -> None:
    """Refuse examples that are not what the data set says of them."""
    if data.vocab_size < 2:
        raise UserError(f"a data set needs at least 2 values, not {data.vocab_size}")
    for part in ("train", "test"):
        examples, labels, known = (getattr(data, f"{part}{what}") for what in ("", "_labels", "_known"))
        hollow = examples.is_meta or examples.layout is not torch.strided
        misshapen = examples.ndim != 2 or not len(examples) or examples.shape[1] != data.kind.positions
        shapes = f"{tuple(examples.shape)}; needed is (n, {data.kind.positions}) with n at least 1"
        broken = examples.is_floating_point() or examples.is_complex()
        refuse_if(
            (hollow, f"the {part} part is a meta or sparse tensor; a dense one is needed (tensor.to_dense())"),
            (misshapen, f"the {part} part has the shape {shapes}"),
            (broken, f"the {part} part holds {examples.dtype} values; integers are needed"),
            (
                known is not None and known.shape != examples.shape,
                f"{part}_known has not the shape of {part}, {tuple(examples.shape)}",
            ),
        )
        check_range(int(examples.min()), int(examples.max()), data.vocab_size, f"the {part} part holds the value")
        if data.label_names is not None:
            shape = None if labels is None else tuple(labels.shape)
            if shape != (len(examples),):
                wanted = f"({len(examples)},), not {'missing' if shape is None else shape}"
                raise UserError(f"with label_names every example has a label: {part}_labels is {wanted}")
            low, high = int(labels.min()), int(labels.max())
            check_range(low, high, len(data.label_names), f"the {part} part holds the label")
