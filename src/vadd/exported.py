"""An exported model: a folder from which anybody can sample, without the data and without the training.

mine/
    model.safetensors    the averaged weights of one checkpoint
    recipe.yaml          how they were trained, without paths of the machine
    config.json          format, version, shape of an example, values, step, checksum of the weights
    README.md            the model card
    tokenizer/           where the run had one

It may also lie on the Hugging Face Hub under a name "owner/name". :mod:`vadd.publish` writes what this module reads.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vadd.build import build_dataset, known_pad
from vadd.data import DiscreteDataset
from vadd.data.text import Tokenizer
from vadd.errors import UserError
from vadd.recipe import Recipe, TextData, load_recipe

FORMAT = 1
WEIGHTS, RECIPE, CONFIG, CARD, TOKENIZER = "model.safetensors", "recipe.yaml", "config.json", "README.md", "tokenizer"
READ_FROM_HUB = (WEIGHTS, RECIPE, CONFIG, f"{TOKENIZER}/*.json")
"""Nothing else is downloaded: there is nothing to execute and nothing to unpickle in it."""


_OF_A_DATASET = {field.name for field in fields(DiscreteDataset)}


class DataWhenNeeded(DiscreteDataset):
    """A data set of which the shape and the values are known; the rest is read when somebody asks for it.

    Of text everything but the text itself is known.
    """

    recipe: Recipe

    def __init__(self, recipe: Recipe, shape: tuple[int, ...], values: int, tokenizer: Tokenizer | None = None) -> None:
        known: dict[str, Any] = {"name": recipe.name, "shape": shape, "values": values, "tokenizer": tokenizer}
        known |= {"recipe": recipe, "pad": known_pad(recipe, tokenizer)}
        if isinstance(recipe.data, TextData):
            known |= {"distribution": None, "train_labels": None, "test_labels": None}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> Any:
        later = name in _OF_A_DATASET and name not in super().__getattribute__("__dict__")
        return getattr(self._whole, name) if later else super().__getattribute__(name)

    @property
    def positions(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def _whole(self) -> DiscreteDataset:
        try:
            data = build_dataset(self.recipe, tokenizer=self.tokenizer)
        except UserError as error:
            raise UserError(f"this needs the data that the model learned from: {error}") from None
        if (data.shape, data.values) != (self.shape, self.values):
            raise UserError(
                f"the data here are not what the model learned from: examples have the shape {data.shape} and "
                f"{data.values} values, not {self.shape} and {self.values}"
            )
        return data


@dataclass(frozen=True)
class ExportedModel:
    path: Path
    recipe: Recipe
    shape: tuple[int, ...]
    values: int
    step: int
    sha256: str

    def weights(self) -> dict[str, Tensor]:
        """After their checksum has been verified."""
        file = self.path / WEIGHTS
        if not file.is_file() or checksum(file) != self.sha256:
            raise UserError(f"the exported model {self.path} is damaged: {WEIGHTS} is missing, truncated or altered")
        try:
            return load_file(file)
        except SafetensorError as error:
            raise UserError(f"the exported model {self.path} is damaged: {WEIGHTS}: {error}") from None


def find_exported(path: str | Path) -> ExportedModel | None:
    """The exported model in the folder ``path`` or, where there is no such path, of that name on the Hub.

    None for anything else. A name "a/b" is looked for on the Hub only if there is no folder "a" here either: then it
    is a mistyped path.
    """
    local = Path(path)
    if local.exists():
        return read_exported(local) if (local / CONFIG).is_file() else None
    name = local.as_posix()
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is None or local.parent.exists():
        return None
    return read_exported(fetch(name))


def fetch(name: str) -> Path:
    """Get the model "owner/name" from the Hugging Face Hub, into its client's cache."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            f"there is no directory {name}; to look for it on the Hugging Face Hub: pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(repo_id=name, allow_patterns=list(READ_FROM_HUB)))
    except Exception as error:  # no network, no such name, no permission, a full disk: the client's own, and many
        told = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"there is no directory {name}, and the Hugging Face Hub did not give it: {told}") from None


def read_exported(path: Path) -> ExportedModel:
    try:
        content = json.loads((path / CONFIG).read_text())
        if content["library"] != "vadd":
            raise ValueError
        newer = int(content["format"]) > FORMAT
        shape, values, step = tuple(map(int, content["shape"])), int(content["values"]), int(content["step"])
        sha256 = str(content["sha256"])
        if not shape or min(shape) < 1 or values < 2:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a model exported by vadd: its {CONFIG} is missing or of another kind") from None
    if newer:
        raise UserError(f"{path} was exported by a newer version, vadd {content.get('vadd')}: upgrade with pip")
    return ExportedModel(path, load_recipe(str(path / RECIPE)), shape, values, step, sha256)


def checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
