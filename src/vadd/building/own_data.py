"""A recipe for somebody's own data, by looking at them."""

from pathlib import Path

from vadd.data import read_array
from vadd.data.image_folder import SUFFIXES as IMAGE_SUFFIXES
from vadd.data.image_folder import look_at
from vadd.data.tables.reading import TABLE_SUFFIXES, header_of, read_table
from vadd.data.text.documents import items_in, text_files
from vadd.progress import note
from vadd.recipe import (
    ArrayData,
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


def recipe_for(path: Path, *, as_text: bool = False) -> Recipe:
    """A recipe for somebody's own data, for minutes on a laptop; ``as_text`` where a .csv is known to hold text."""
    kind = TextData if as_text else kind_of_data(path)
    if kind is ArrayData:
        array, vocab_size = read_array(path)
        return recipe_for_array(path, len(array), array.shape[1:], vocab_size)
    if kind is TextData:
        return _recipe_for_text(path)
    if kind is TableData:
        table = read_table(path)
        return recipe_for_table(path, table.rows, len(table.columns))
    found = look_at(path)
    note(
        f"{path}: {found.side} x {found.side} pixels in {'grey' if found.channels == 1 else 'colour'}, {found.levels} "
        "values per channel; data.size, data.channels and data.levels change that"
    )
    return recipe_for_folder(path, found.side, found.channels, found.levels)


def _recipe_for_text(path: Path) -> Recipe:
    """Of a text with one item a line each item is a sequence."""
    files = text_files(path)
    items = items_in(path, LONGEST_ITEM) if path.is_file() else None
    if items is None:
        return recipe_for_text(path, sum(file.stat().st_size for file in files))
    count, longest = items
    running = "data.documents=file data.wrap=packed data.length=64"
    note(f"{path}: {count:,} lines, read as one item each; as a running text with {running}")
    return recipe_for_items(path, count, longest, documents="line")
