"""A recipe for somebody's own data, by looking at them."""

from collections.abc import Sequence
from pathlib import Path

from vadd.data.array import labels_file, read_array
from vadd.data.image_folder import SUFFIXES as IMAGE_SUFFIXES
from vadd.data.image_folder import folder_labels, look_at
from vadd.data.labels import LABELS_FILE
from vadd.data.text.corpora import LABEL_FIELD, TEXT_FIELD
from vadd.data.text.documents import ROW_SUFFIXES, TextFiles, first_fields, items_in, text_files
from vadd.errors import UserError
from vadd.kinds.table.reading import TABLE_SUFFIXES, header_of, read_table
from vadd.progress import note
from vadd.recipe import (
    ArrayData,
    Data,
    FolderData,
    Recipe,
    TableData,
    TextData,
    recipe_for_array,
    recipe_for_folder,
    recipe_for_items,
    recipe_for_table,
    recipe_for_text,
)
from vadd.recipe.own_data import LONGEST_ITEM


def kind_of_data(path: Path) -> type[ArrayData] | type[FolderData] | type[TextData] | type[TableData]:
    """What somebody's own data are: a folder is one of images, unless it holds .txt files and no images; a .csv is a
    table, unless it has a column called text.
    """
    if path.is_dir():
        found = {file.suffix.lower() for file in path.rglob("*")}
        return TextData if ".txt" in found and not found & IMAGE_SUFFIXES else FolderData
    if path.suffix.lower() in TABLE_SUFFIXES and "text" not in header_of(path):
        return TableData
    return ArrayData if path.suffix in (".npy", ".npz") else TextData


def recipe_for(path: Path, *, field: str | None = None, labels: bool = False) -> Recipe:
    """A recipe for somebody's own data, for minutes on a laptop. A ``field`` says that a .csv holds text, and where.
    ``labels`` that are there and not asked for are mentioned.
    """
    kind = TextData if field is not None else kind_of_data(path)
    if kind is ArrayData:
        array, vocab_size = read_array(path)
        if not labels and path.name != LABELS_FILE and labels_file(path).is_file():
            _mention(f"{labels_file(path)} could be labels of the examples")
        return recipe_for_array(path, len(array), array.shape[1:], vocab_size)
    if kind is TextData:
        return _recipe_for_text(path, field, labels)
    if kind is TableData:
        table = read_table(path)
        return recipe_for_table(path, table.rows, len(table.columns))
    found = look_at(path)
    note(
        f"{path}: {found.side} x {found.side} pixels in {'grey' if found.channels == 1 else 'colour'}, {found.levels} "
        "values per channel; data.size, data.channels and data.levels change that"
    )
    if not labels:
        _mention_folders(path)
    return recipe_for_folder(path, found.side, found.channels, found.levels)


def with_data(recipe: Recipe, path: Path) -> Recipe:
    """The recipe for the data at this path. How a recipe reads text or tables stays; only the file is another."""
    kind, data, file = kind_of_data(path), recipe.data, str(path.resolve())
    changed: Data
    if isinstance(data, TextData) and (kind is TextData or path.suffix == ".csv"):
        changed = data.model_copy(update={"path": file})
    elif isinstance(data, TableData) and kind is TableData:
        changed = data.model_copy(update={"path": file, "name": None})
    else:
        changed = kind(path=file)
    return recipe.model_copy(update={"data": changed})


def _mention(what: str) -> None:
    note(f"{what}: left out; with data.labels=true they are learnt, and vadd sample RUN --label NAME draws of one")


def _mention_folders(path: Path) -> None:
    try:
        names = folder_labels(path).names
    except UserError:  # no labels then
        return
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    _mention(f"{path}: the names of {len(names)} folders ({shown}) could be labels")


def _recipe_for_text(path: Path, field: str | None, labels: bool) -> Recipe:
    """Of a text with one item a line each item is a sequence; of documents with labels each document is one."""
    files = text_files(path)
    if labels:
        lengths = [len(document) for document in TextFiles(files, "line", field or TEXT_FIELD)]
        if not lengths:
            raise UserError(f"{path} holds no text")
        return recipe_for_documents(path, lengths, str(path))
    if path.suffix in ROW_SUFFIXES and LABEL_FIELD in first_fields(path):
        _mention(f"{path}: the field {LABEL_FIELD!r} could be the label of each document")
    items = items_in(path, LONGEST_ITEM) if path.is_file() else None
    if items is None:
        return recipe_for_text(path, sum(file.stat().st_size for file in files))
    count, longest = items
    running = "data.documents=file data.wrap=packed data.length=64"
    note(f"{path}: {count:,} lines, read as one item each; as a running text with {running}")
    return recipe_for_items(path, count, longest, documents="line")


def recipe_for_documents(path: Path, lengths: Sequence[int], source: str) -> Recipe:
    """For documents of so many characters each, one a sequence; ``source`` is what the user calls them."""
    longest = max(lengths)
    if longest > LONGEST_ITEM:
        cut = sum(length > LONGEST_ITEM for length in lengths)
        note(
            f"{source}: {cut:,} of {len(lengths):,} documents are cut after {LONGEST_ITEM} characters; a larger "
            "data.length reads more"
        )
    return recipe_for_items(path, len(lengths), min(longest, LONGEST_ITEM))
