"""Data sets by the names that recipes give them, and what their examples look like."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vadd.data import (
    DiscreteDataset,
    load_array,
    load_cifar10,
    load_copies,
    load_dataset,
    load_digits,
    load_image_folder,
    load_mnist,
    load_table,
    load_text,
    load_toy,
    read_array,
)
from vadd.data.array import labels_beside
from vadd.data.image_folder import folder_labels
from vadd.data.labels import read_labels
from vadd.data.text import Tokenizer
from vadd.errors import UserError
from vadd.kinds import Kind, TextKind, kind_of
from vadd.progress import Progress, silent
from vadd.recipe import ArrayData, FolderData, GivenData, Recipe, TableData, TextData


@dataclass(frozen=True)
class DataKind:
    load: Callable[..., DiscreteDataset]
    """Section, seed, and for text tokenizer and progress -> the data set."""
    format: Callable[[Any], Kind]
    """Section -> what its examples look like; without reading them where the section says enough."""


def _load_text(data: TextData, seed: int, tokenizer: Tokenizer | None, progress: Progress) -> DiscreteDataset:
    settings = data.model_dump(exclude={"kind"})
    settings["path"] = Path(data.path) if data.path else None
    settings["tokenizer"] = tokenizer or data.tokenizer
    settings["tokenizer_path"] = Path(data.tokenizer_path) if data.tokenizer_path else None
    return load_text(**settings, seed=seed, progress=progress)


def _load_given(data: GivenData, seed: int, tokenizer: Tokenizer | None, progress: Progress) -> DiscreteDataset:
    return replace(load_dataset(Path(data.path)), tokenizer=tokenizer)


def _array_format(data: ArrayData) -> Kind:
    try:
        array, vocab_size = read_array(Path(data.path), data.vocab_size)
    except UserError as error:
        raise UserError(f"only the data can tell the shape of these examples, and {error}") from None
    place = labels_beside(Path(data.path), data.labels_path)
    names = read_labels(place, len(array)).names if data.labels else None
    return kind_of(array.shape[1:], vocab_size, labels=names)


def _folder_format(data: FolderData) -> Kind:
    names = folder_labels(Path(data.path)).names if data.labels else None
    return kind_of((data.size, data.size, data.channels), data.levels, labels=names)


def _text_format(data: TextData) -> Kind:
    # For planning only: without the specials that a training may add, and a BPE may come out smaller.
    known = {"gpt2": 50_257, "bert": 30_521, "bytes": 256, "bpe": data.vocabulary}
    if data.corpus == "text8":
        known["characters"] = 27
    if data.tokenizer in known and not data.labels:
        return kind_of((data.length,), known[data.tokenizer])
    return _load_text(data, 0, None, silent).kind


def _load_table(data: TableData, seed: int, *_: object) -> DiscreteDataset:
    settings = data.model_dump(exclude={"kind", "path", "schema_path", "labels"})
    path, schema = (None if place is None else Path(place) for place in (data.path, data.schema_path))
    return load_table(path, schema_path=schema, **settings, seed=seed)


def _settings(data: Any) -> dict[str, Any]:
    """All keys of a section but those that name its kind and its place."""
    return {name: value for name, value in data if name not in ("kind", "path", "directory")}


def _but_labels(data: Any) -> dict[str, Any]:
    """The same for data sets that have their labels in any case."""
    return {name: value for name, value in _settings(data).items() if name != "labels"}


def _directory(data: Any) -> Path | None:
    return Path(data.directory) if data.directory else None


DIGITS = tuple(map(str, range(10)))
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def _with_labels(dataset: DiscreteDataset, data: Any, names: tuple[str, ...]) -> DiscreteDataset:
    """Its labels are shown to models where the section says so."""
    return replace(dataset, label_names=names) if data.labels else dataset


DATASETS: dict[str, DataKind] = {
    "toy": DataKind(
        lambda data, seed, *_: load_toy(**_settings(data), seed=seed),
        lambda data: kind_of((2,), data.vocab_size),
    ),
    "copies": DataKind(
        lambda data, seed, *_: load_copies(**_settings(data), seed=seed),
        lambda data: kind_of((data.positions,), data.vocab_size),
    ),
    "array": DataKind(lambda data, seed, *_: load_array(Path(data.path), **_settings(data), seed=seed), _array_format),
    "given": DataKind(_load_given, lambda data: load_dataset(Path(data.path)).kind),
    "digits": DataKind(
        lambda data, seed, *_: _with_labels(load_digits(**_but_labels(data), seed=seed), data, DIGITS),
        lambda data: kind_of((8, 8, 1), data.levels, labels=DIGITS if data.labels else None),
    ),
    "mnist": DataKind(
        lambda data, *_: _with_labels(load_mnist(_directory(data)), data, DIGITS),
        lambda data: kind_of((32, 32, 1), 2, labels=DIGITS if data.labels else None),
    ),
    "cifar10": DataKind(
        lambda data, *_: _with_labels(load_cifar10(_directory(data), **_but_labels(data)), data, CIFAR10_CLASSES),
        lambda data: kind_of((32, 32, 3), data.levels, labels=CIFAR10_CLASSES if data.labels else None),
    ),
    "folder": DataKind(
        lambda data, seed, *_: load_image_folder(Path(data.path), **_settings(data), seed=seed), _folder_format
    ),
    "text": DataKind(_load_text, _text_format),
    "table": DataKind(_load_table, lambda data: _load_table(data, 0).kind),
}


def build_dataset(recipe: Recipe, *, kind: Kind | None = None, progress: Progress = silent) -> DiscreteDataset:
    """The data of a recipe; text is read with the tokenizer of ``kind`` if one is given, else with the recipe's."""
    tokenizer = kind.tokenizer if isinstance(kind, TextKind) else None
    return DATASETS[recipe.data.kind].load(recipe.data, recipe.seed, tokenizer, progress)


def example_format(recipe: Recipe) -> Kind:
    """What the examples of a recipe are. The recipe says it, except for arrays and alphabets: there the data must be
    read.
    """
    return DATASETS[recipe.data.kind].format(recipe.data)
