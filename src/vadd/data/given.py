"""A data set made in Python, kept in a folder so that its run can be resumed and evaluated.

    examples.json        name, shape of an example, vocabulary size, pad, names of the labels
    train.npy  test.npy  the examples, flattened
    train_labels.npy  test_labels.npy  distribution.npy    where there are any

A tokenizer is not kept here: the run has it.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from vadd.data.dataset import DataSettings, DiscreteDataset
from vadd.errors import UserError, check_range
from vadd.files import write_json
from vadd.kinds.arrays import read_integers
from vadd.kinds.text.tokenizers import Tokenizer
from vadd.parsing import read_json
from vadd.progress import Progress, silent

ABOUT = "examples.json"
PARTS = ("train", "test", "train_labels", "test_labels")
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
            name, shape, pad = str(about["name"]), tuple(map(int, about["shape"])), about["pad"]
            vocab_size, labels = int(about["vocab_size"]), about.get("labels")
            names = None if labels is None else tuple(map(str, labels))
        except FileNotFoundError:
            raise UserError(f"there is no data set in {folder}") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{folder / ABOUT} is damaged") from None
        files = {part: folder / f"{part}.npy" for part in PARTS}
        if not (files["train"].exists() and files["test"].exists()):
            raise UserError(f"{folder} is damaged: it needs train.npy and test.npy")
        distribution = folder / "distribution.npy"
        tensors: dict[str, Any] = {
            part: torch.from_numpy(read_integers(file)) for part, file in files.items() if file.exists()
        }
        return DiscreteDataset(
            name=name,
            vocab_size=vocab_size,
            shape=shape,
            pad=pad,
            distribution=(lambda: np.load(distribution, allow_pickle=False)) if distribution.exists() else None,
            label_names=names,
            tokenizer=tokenizer,
            **tensors,
        )


def save_dataset(data: DiscreteDataset, folder: Path) -> None:
    """Into a folder that is there already."""
    about = {"name": data.name, "shape": list(data.shape), "vocab_size": data.vocab_size, "pad": data.pad}
    names = {} if data.label_names is None else {"labels": list(data.label_names)}
    write_json(folder / ABOUT, about | names)
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
        examples, labels = getattr(data, part), getattr(data, f"{part}_labels")
        if examples.ndim != 2 or not len(examples) or examples.shape[1] != data.kind.positions:
            wanted = f"(n, {data.kind.positions}) with n at least 1"
            raise UserError(f"the {part} part has the shape {tuple(examples.shape)}; needed is {wanted}")
        if examples.is_floating_point() or examples.is_complex():
            raise UserError(f"the {part} part holds {examples.dtype} values; integers are needed")
        check_range(int(examples.min()), int(examples.max()), data.vocab_size, f"the {part} part holds the value")
        if data.label_names is not None:
            if labels is None or tuple(labels.shape) != (len(examples),):
                shape = "missing" if labels is None else f"{tuple(labels.shape)}"
                wanted = f"({len(examples)},), not {shape}"
                raise UserError(f"with label_names every example has a label: {part}_labels is {wanted}")
            limits = int(labels.min()), int(labels.max())
            check_range(*limits, len(data.label_names), f"the {part} part holds the label")
