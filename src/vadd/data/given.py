"""A data set that somebody made in Python, kept in a folder so that its run can go on and be judged without them.

    examples.json        name, shape of an example, vocabulary size, pad, names of the labels
    train.npy  test.npy  the examples, flattened
    train_labels.npy  test_labels.npy  distribution.npy    where there are any

A tokenizer is not kept here: the run has it.
"""

from pathlib import Path

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.errors import UserError, check_range
from vadd.files import write_json
from vadd.kinds.arrays import read_integers
from vadd.parsing import read_json

ABOUT = "examples.json"
LARGEST_DISTRIBUTION = 1 << 24
"""Entries; a larger table is not kept, and the run is judged as if nobody knew it."""


def save_dataset(data: DiscreteDataset, folder: Path) -> None:
    """Into a folder that is there already."""
    about = {"name": data.name, "shape": list(data.shape), "vocab_size": data.vocab_size, "pad": data.pad}
    names = {} if data.label_names is None else {"labels": list(data.label_names)}
    write_json(folder / ABOUT, about | names)
    for name in ("train", "test", "train_labels", "test_labels"):
        if (tensor := getattr(data, name)) is not None:
            np.save(folder / f"{name}.npy", tensor.cpu().numpy())
    if data.distribution is not None and data.vocab_size**data.positions <= LARGEST_DISTRIBUTION:
        np.save(folder / "distribution.npy", data.distribution())


def load_dataset(folder: Path) -> DiscreteDataset:
    """What :func:`save_dataset` wrote."""
    try:
        about = read_json(folder / ABOUT)
        name, shape, pad = str(about["name"]), tuple(map(int, about["shape"])), about["pad"]
        vocab_size, labels = int(about["vocab_size"]), about.get("labels")
        names = None if labels is None else tuple(map(str, labels))
    except FileNotFoundError:
        raise UserError(f"there is no data set in {folder}") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder / ABOUT} is damaged") from None
    tensors = {
        part: torch.from_numpy(read_integers(folder / f"{part}.npy"))
        for part in ("train", "test", "train_labels", "test_labels")
        if (folder / f"{part}.npy").exists()
    }
    if not {"train", "test"} <= tensors.keys():
        raise UserError(f"{folder} is damaged: it needs train.npy and test.npy")
    table = folder / "distribution.npy"
    return DiscreteDataset(
        name=name,
        vocab_size=vocab_size,
        shape=shape,
        pad=pad,
        distribution=(lambda: np.load(table, allow_pickle=False)) if table.exists() else None,
        train=tensors["train"],
        test=tensors["test"],
        train_labels=tensors.get("train_labels"),
        test_labels=tensors.get("test_labels"),
        label_names=names,
    )


def check_dataset(data: DiscreteDataset) -> None:
    """Refuse examples that are not what the data set says of them."""
    if data.vocab_size < 2:
        raise UserError(f"a data set needs at least 2 values, not {data.vocab_size}")
    for part in ("train", "test"):
        examples = getattr(data, part)
        if examples.ndim != 2 or not len(examples) or examples.shape[1] != data.kind.positions:
            wanted = f"(n, {data.kind.positions}) with n at least 1"
            raise UserError(f"the {part} part has the shape {tuple(examples.shape)}; needed is {wanted}")
        if examples.is_floating_point() or examples.is_complex():
            raise UserError(f"the {part} part holds {examples.dtype} values; integers are needed")
        low, high = int(examples.min()), int(examples.max())
        if low < 0 or high >= data.vocab_size:
            wrong = low if low < 0 else high
            raise UserError(f"the {part} part holds the value {wrong}, outside 0..{data.vocab_size - 1}")
        if data.label_names is not None:
            _check_labels(part, getattr(data, f"{part}_labels"), len(examples), len(data.label_names))


def _check_labels(part: str, labels: torch.Tensor | None, examples: int, names: int) -> None:
    if labels is None or tuple(labels.shape) != (examples,):
        found = "none" if labels is None else f"{tuple(labels.shape)}"
        raise UserError(f"with label_names every example has a label: {part}_labels is ({examples},), not {found}")
    check_range(int(labels.min()), int(labels.max()), names, f"the {part} part holds the label")
