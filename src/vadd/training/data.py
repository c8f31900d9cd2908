"""What ``vadd.train`` accepts as data. What is in memory is written into the run, so that it can be resumed and
evaluated later.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch.utils.data import TensorDataset

from vadd.data import ArrayData, DiscreteDataset, GivenData, TableData, TextData, check_dataset, save_dataset
from vadd.data.array import values_of
from vadd.data.dataset import Labels, given_labels, without_torch
from vadd.data.text.corpora import LABEL_FIELD, TEXT_FIELD
from vadd.data.text.documents import encodable
from vadd.errors import UserError, refuse_if
from vadd.files import whole_file, whole_path
from vadd.kinds.arrays import Array
from vadd.kinds.table.kind import write_parquet
from vadd.kinds.table.reading import RawTable, from_frame, is_frame
from vadd.kinds.text.tokenizers import WORDS, count_tokens
from vadd.progress import Progress, silent
from vadd.recipe import Recipe, build_dataset, load_recipe, recipe_for, recipe_names
from vadd.recipe.own_data import (
    LONGEST_ITEM,
    recipe_for_documents,
    recipe_for_examples,
    recipe_for_table,
    recipe_for_text,
)
from vadd.run.directory import RunDirectory
from vadd.words import suggestion

IN_MEMORY, TEXTS = "the array", "the texts"
"""What errors call them."""


class Source(ABC):
    """Where the data of a training come from."""

    name: str
    """Of the run's default directory."""
    labelled = False
    """Whether labels were given with the data."""

    @abstractmethod
    def recipe(self, directory: RunDirectory) -> Recipe:
        """For these data, as the run in ``directory`` will have them; nothing is written."""

    def read(self, recipe: Recipe, progress: Progress) -> DiscreteDataset:
        return build_dataset(recipe, progress=progress)

    def keep(self, directory: RunDirectory) -> None:  # noqa: B027  # files on disk stay where they are
        """Write into the run what is in memory only."""


class RecipeSource(Source):
    """A recipe, a file or a folder; to resume, the recipes are compared, and they name the data."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self.name = recipe, recipe.name

    def recipe(self, directory: RunDirectory) -> Recipe:
        return self._recipe


class InMemoryArray(Source):
    name = "array"

    def __init__(self, array: Array, labels: Any = None) -> None:
        self.array, self.vocab_size, self.labelled = array, values_of(array, None, IN_MEMORY), labels is not None
        self.names = given_labels(labels, len(array), IN_MEMORY) if self.labelled else []
        self.labels = Labels.of(self.names, IN_MEMORY) if self.labelled else None

    def recipe(self, directory: RunDirectory) -> Recipe:
        path = str(directory.examples(".npy").resolve())
        data = ArrayData(path=path, vocab_size=self.vocab_size, labels=self.labelled)
        return recipe_for_examples(data, directory.path.name, self.array, self.vocab_size)

    def read(self, recipe: Recipe, progress: Progress) -> DiscreteDataset:
        if not isinstance(recipe.data, ArrayData):
            return super().read(recipe, progress)
        labels = self.labels if recipe.data.labels else None
        return recipe.data.split(self.array, labels, IN_MEMORY, name=recipe.name, seed=recipe.seed)

    def keep(self, directory: RunDirectory) -> None:
        with whole_file(directory.examples(".npy")) as file:
            np.save(file, self.array, allow_pickle=False)
        if self.labelled:
            with whole_file(directory.example_labels) as file:
                np.save(file, np.array(self.names), allow_pickle=False)


class Texts(Source):
    name = "texts"

    def __init__(self, texts: Sequence[str], labels: Any = None, tokenizer: str | None = None) -> None:
        self.labelled = labels is not None
        rows = [{"text": encodable(text, TEXTS)} for text in texts]
        if self.labelled:
            names = given_labels(labels, len(texts), TEXTS)
            rows = [row | {LABEL_FIELD: name} for row, name in zip(rows, names, strict=True)]
        kept = [row for row in rows if row["text"].strip()]
        if len(kept) < 2:
            raise UserError(f"there are {len(kept)} texts that are not blank; at least 2 are needed")
        if self.labelled:
            Labels.of([row[LABEL_FIELD] for row in kept], TEXTS)
        self.content = "".join(json.dumps(row) + "\n" for row in kept)
        self.lengths = [count_tokens(row["text"], tokenizer) for row in kept]
        self.tokenizer = {"tokenizer": tokenizer} if tokenizer in WORDS else {}

    def recipe(self, directory: RunDirectory) -> Recipe:
        file = directory.examples(".jsonl")
        if self.labelled or max(self.lengths) <= LONGEST_ITEM:
            recipe = recipe_for_documents(file, self.lengths, TEXTS)
        else:
            recipe = recipe_for_text(file, len(self.content), self.tokenizer.get("tokenizer"))
        data = recipe.data.model_copy(update={"labels": self.labelled, **self.tokenizer})
        return recipe.model_copy(update={"name": directory.path.name, "data": data})

    def read(self, recipe: Recipe, progress: Progress) -> DiscreteDataset:
        if not isinstance(recipe.data, TextData):
            return super().read(recipe, progress)
        with TemporaryDirectory() as folder:
            file = Path(folder, "texts.jsonl")
            file.write_text(self.content, encoding="utf-8")
            here = recipe.data.model_copy(update={"path": str(file)})
            return build_dataset(recipe.model_copy(update={"data": here}), progress=progress)

    def keep(self, directory: RunDirectory) -> None:
        with whole_file(directory.examples(".jsonl")) as file:
            file.write(self.content.encode())


class Rows(Source):
    """A DataFrame of pandas or Polars, read as a table."""

    name = "table"

    def __init__(self, table: RawTable) -> None:
        self.table = table

    def recipe(self, directory: RunDirectory) -> Recipe:
        path = directory.examples(".parquet").resolve()
        recipe = recipe_for_table(path, self.table)
        return recipe.model_copy(update={"name": directory.path.name})

    def read(self, recipe: Recipe, progress: Progress) -> DiscreteDataset:
        if not isinstance(recipe.data, TableData):
            return super().read(recipe, progress)
        return recipe.data.split(self.table, name=recipe.name, seed=recipe.seed)

    def keep(self, directory: RunDirectory) -> None:
        write_parquet(directory.examples(".parquet"), self.table.columns)


class InMemoryDataset(Source):
    def __init__(self, data: DiscreteDataset) -> None:
        check_dataset(data)
        self.data, self.name = data, data.name

    def recipe(self, directory: RunDirectory) -> Recipe:
        section, data = GivenData(path=str(directory.examples().resolve())), self.data
        return recipe_for_examples(section, data.name, data.train.view(-1, *data.shape), data.vocab_size)

    def read(self, recipe: Recipe, progress: Progress) -> DiscreteDataset:
        return self.data if isinstance(recipe.data, GivenData) else super().read(recipe, progress)

    def keep(self, directory: RunDirectory) -> None:
        with whole_path(directory.examples()) as partial:
            partial.mkdir()
            save_dataset(self.data, partial)


def check_same_data(source: Source, recipe: Recipe, kept: DiscreteDataset, run: Path) -> None:
    """Refuse to go on where the data that were given are not those that the run keeps."""
    given = source.read(recipe, silent)
    labels = ((given.train_labels, kept.train_labels), (given.test_labels, kept.test_labels))
    if (
        source.labelled != (kept.label_names is not None)
        or given.kind != kept.kind
        or given.fingerprint() != kept.fingerprint()
        or any(ours is not None and theirs is not None and not ours.equal(theirs) for ours, theirs in labels)
    ):
        raise UserError(f"{run} was trained on other data, or other labels, than those that were given")


def source_of(data: Any, labels: Any = None, reading: Mapping[str, Any] | None = None) -> Source:
    """What ``data`` are. ``labels`` are those of data in memory; ``reading`` says how a file is to be read, as
    :func:`vadd.recipe.recipe_for` takes it.
    """
    if isinstance(data, Recipe | str | Path):
        if data == "":  # not the working directory
            raise UserError("the data have an empty name; give an array, texts, a path or the name of a recipe")
        if labels is not None:
            raise UserError("labels=[...] are for data in memory; labels=True takes those of a recipe or a file")
        return RecipeSource(data if isinstance(data, Recipe) else _named(data, reading or {}))
    reading = reading or {}
    data, labels = _unpacked(data, labels, wanted=reading.get("labels", False))
    if isinstance(data, DiscreteDataset):
        if labels is not None:
            raise UserError("a DiscreteDataset has its labels in train_labels, test_labels and label_names")
        return InMemoryDataset(data)
    if is_frame(data):
        if labels is not None:
            raise UserError("a label of a table is one of its columns: draw with sample_frame(n, {COLUMN: VALUE})")
        return Rows(from_frame(data))
    if labels is None and reading.get("labels"):
        raise UserError("the labels of data in memory are given with them: labels=[...], one for each example")
    return _in_memory(data, labels, reading.get("tokenizer"))


def _unpacked(data: Any, labels: Any, *, wanted: bool) -> tuple[Any, Any]:
    """What torch's TensorDataset and Hugging Face's Dataset hold: examples, texts or a table, and the labels that they
    have if they are ``wanted``.
    """
    if isinstance(data, TensorDataset):
        examples, *rest = data.tensors
        return examples, rest[0] if wanted and rest else labels
    if type(data).__module__.split(".")[0] != "datasets":
        return data, labels
    if type(data).__name__ != "Dataset":
        raise UserError(f"a {type(data).__name__} is not one data set in memory: give one split, data['train']")
    columns = data.with_format(None)[:]
    if wanted and LABEL_FIELD in columns:
        names = getattr(data.features[LABEL_FIELD], "names", None)
        labels = [names[number] if names else number for number in columns[LABEL_FIELD]]
    others = {name: column for name, column in columns.items() if name != LABEL_FIELD}
    if TEXT_FIELD in others:
        return others[TEXT_FIELD], labels
    nested = [column for column in others.values() if column and isinstance(column[0], list)]
    return (nested[0], labels) if len(nested) == len(others) == 1 else (data.with_format(None).to_pandas(), labels)


def _named(name: str | Path, reading: Mapping[str, Any]) -> Recipe:
    """A recipe by its name or file, or one for the data at this path."""
    if str(name) in recipe_names() or Path(name).suffix in (".yaml", ".yml"):
        return load_recipe(str(name))
    if Path(name).exists():
        return recipe_for(Path(name), **reading)
    hint = suggestion(str(name), recipe_names())
    raise UserError(f"{str(name)!r} is neither a recipe nor an existing file or folder{hint}")


def _in_memory(data: Any, labels: Any, tokenizer: str | None) -> Source:
    data = without_torch(data, IN_MEMORY)
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "UOT":
        data = data.tolist()
    if isinstance(data, list | tuple) and all(isinstance(row, list | tuple) and row for row in data):
        symbols = [symbol for row in data for symbol in row]
        if symbols and all(isinstance(symbol, str) for symbol in symbols):
            for symbol in symbols:
                if len(symbol.split()) != 1:
                    raise UserError(f"the symbol {symbol!r} is blank or has white space in it")
            return Texts([" ".join(row) for row in data], labels, tokenizer or "symbols")
    taken = "arrays and tensors of integers, DataFrames, texts, lists of symbols, a data set, a path or a recipe"
    try:
        array = np.asarray(data)
    except (ValueError, TypeError):  # rows of different lengths
        refuse_if((not isinstance(data, list | tuple), f"vadd.train takes {taken}, not {type(data).__name__}"))
        wanted = "an array of integers is needed, texts or lists of symbols"
        raise UserError(f"the data are rows of different lengths; {wanted}") from None
    if not array.size:
        array = array.astype(np.int64)  # refused by its shape
    if array.dtype.kind in "UOT" and array.ndim == 1:
        others = {type(text).__name__ for text in array.tolist() if not isinstance(text, str)}
        if others:
            raise UserError(f"a list of texts holds {', '.join(sorted(others))} too; give text only")
        return Texts([str(text) for text in array.tolist()], labels, tokenizer)
    if array.dtype.kind == "f":
        needed = "integers are needed: cut them into levels first, or array.astype(int) if they are whole numbers"
        raise UserError(f"the array holds {array.dtype} values; {needed}")
    if array.dtype.kind not in "iub":
        raise UserError(f"vadd.train takes {taken}, not {type(data).__name__}")
    return InMemoryArray(array.astype(np.uint8) if array.dtype.kind == "b" else array, labels)
