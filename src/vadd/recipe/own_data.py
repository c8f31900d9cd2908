"""Recipes for the user's own data: network, latent and length chosen by what the data are, for minutes on a laptop."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vadd.data import ArrayData, Data, FolderData, TableData, TextData
from vadd.data.array import labels_file, read_array
from vadd.data.image_folder import SUFFIXES as IMAGE_SUFFIXES
from vadd.data.image_folder import folder_labels, look_at
from vadd.data.labels import LABELS_FILE
from vadd.data.text.corpora import LABEL_FIELD, TEXT_FIELD
from vadd.data.text.documents import ROW_SUFFIXES, TextFiles, first_fields, items_in, text_files
from vadd.errors import UserError
from vadd.kinds.table.reading import TABLE_SUFFIXES, header_of, read_table
from vadd.networks import MlpSettings
from vadd.networks.mlp import MlpDenoiserSettings, MlpRecognizerSettings
from vadd.networks.residual import ResidualSettings
from vadd.progress import note
from vadd.recipe.latent import LatentSection
from vadd.recipe.loading import load_recipe
from vadd.recipe.recipe import Recipe, name_from
from vadd.recipe.sections import Training

LONGEST_ITEM = 126
"""Characters; texts that are no longer are learnt one a sequence."""
MOST_WEIGHTS = 6_000_000
"""A checkpoint holds every weight four times, in single precision: it stays below 100 MB."""
SECONDS = 95.0
"""Of one core. Networks this small gain little from a second one: about two minutes by the clock."""
OVERHEAD, RATE = 0.01, 5e10
"""Seconds of a step beside its arithmetic, and FLOP per second, both of one core: what a step costs, roughly."""
SMALL = 200
"""Positions times values up to which a narrow network is enough."""
VALUE_EMBEDDINGS = (None, 64, 32, 16, 8, 4, 2)


def kind_of_data(path: Path) -> type[ArrayData] | type[FolderData] | type[TextData] | type[TableData]:
    """A folder is one of images, unless it holds .txt files and no images; a .csv is a table, unless it has a column
    called text.
    """
    if path.is_dir():
        suffixes = {file.suffix.lower() for file in path.rglob("*")}
        return TextData if ".txt" in suffixes and not suffixes & IMAGE_SUFFIXES else FolderData
    if path.suffix.lower() in TABLE_SUFFIXES and "text" not in header_of(path):
        return TableData
    return ArrayData if path.suffix in (".npy", ".npz") else TextData


def recipe_for(path: Path, *, field: str | None = None, labels: bool = False) -> Recipe:
    """A recipe for the data at this path. A ``field`` says that a .csv holds text, and where. ``labels`` that exist and
    are not asked for are mentioned.
    """
    kind = TextData if field is not None else kind_of_data(path)
    if kind is ArrayData:
        array, vocab_size = read_array(path)
        if not labels and path.name != LABELS_FILE and labels_file(path).is_file():
            _mention(f"{labels_file(path)} could be labels of the examples")
        data = ArrayData(path=str(path.resolve()), vocab_size=vocab_size)
        return recipe_for_examples(data, path.stem, len(array), array.shape[1:], vocab_size)
    if kind is TextData:
        return _recipe_for_text_files(path, field, labels)
    if kind is TableData:
        table = read_table(path)
        return recipe_for_table(path, table.rows, len(table.columns))
    images = look_at(path)
    note(
        f"{path}: {images.side} x {images.side} pixels in {'grey' if images.channels == 1 else 'colour'}, "
        f"{images.levels} values per channel; data.size, data.channels and data.levels change that"
    )
    if not labels:
        _mention_folders(path)
    return recipe_for_folder(path, images.side, images.channels, images.levels)


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


# Arrays and images


def table_weights(positions: int, vocab_size: int, width: int, value_embedding: int | None) -> int:
    """What reading tokens into a vector and writing logits from it takes, for one reading and one writing."""
    if value_embedding is None:
        return 2 * width * positions * (vocab_size + 1)
    return 2 * value_embedding * (positions * width + vocab_size) + positions * vocab_size


def fitting_size(positions: int, vocab_size: int, width: int, readings: int) -> tuple[int, int | None]:
    """A width and the richest way to read and write values with it that stay within the weights there are; two
    networks read ``readings`` times in all, and one writes. The smallest there is where the data need more.
    """
    for narrower in (width, 3 * width // 4, width // 2):
        for features in VALUE_EMBEDDINGS:
            tables = (readings + 1) / 2 * table_weights(positions, vocab_size, narrower, features)
            if tables + 12 * narrower**2 <= MOST_WEIGHTS:
                return narrower, features
    return width // 2, VALUE_EMBEDDINGS[-1]


def affordable_steps(weights: float, rows: int, most: int) -> int:
    """Of ``rows`` passes through so many weights each, forward and back, in the time there is."""
    return max(200, min(most, round(SECONDS / (OVERHEAD + 6 * weights * rows / RATE))))


def recipe_for_examples(data: Data, name: str, examples: int, shape: Sequence[int], vocab_size: int) -> Recipe:
    """For ``examples`` examples of ``shape``."""
    positions = math.prod(shape)
    wanted = 128 if positions * vocab_size <= SMALL else 256
    width, features = fitting_size(positions, vocab_size, wanted, readings=2)
    # Logits of all particles at once, in single precision: a hundred megabytes at most.
    outputs = positions * vocab_size
    particles = 4 if outputs <= 10_000 else 1
    batch = max(1, min(256, examples // 4, 25_000_000 // (outputs * particles)))
    latent = LatentSection(dim=min(64, max(2, math.ceil(math.sqrt(positions)))), particles=particles)
    weights = table_weights(positions, vocab_size, width, features) + 10 * width**2
    # With shared tables every position is multiplied with all values.
    products = weights if features is None else weights + outputs * features
    steps = affordable_steps(products, batch * particles, min(10_000, 500 * math.ceil(examples / batch)))
    return Recipe(
        name=name_from(name),
        about=f"{examples} examples of {positions} values in 0..{vocab_size - 1}",
        data=data,
        network=MlpSettings(
            width=width,
            value_embedding=features,
            denoiser=MlpDenoiserSettings(depth=4, latent_frequencies=(1, 2, 4) if latent.dim <= 4 else ()),
            recognizer=MlpRecognizerSettings(depth=2),
        ),
        latent=latent,
        training=Training(steps=steps, batch=batch, learning_rate=1e-3, warmup_steps=min(200, steps // 10)),
    )


def recipe_for_folder(path: Path, side: int, channels: Literal[1, 3], levels: int) -> Recipe:
    """For images of ``side`` x ``side`` pixels."""
    positions = side * side * channels
    width, features = fitting_size(positions, levels, 256, readings=3)
    weights = 2 * table_weights(positions, levels, width, features) + 10 * width**2
    colour = "grey" if channels == 1 else "colour"
    steps = affordable_steps(weights, 64, 2000)
    return Recipe(
        name=name_from(path.resolve().name),
        about=f"images of a folder, {side} x {side} in {colour}, {levels} values per channel",
        data=FolderData(path=str(path.resolve()), size=side, channels=channels, levels=levels),
        network=ResidualSettings(width=width, value_embedding=features),
        latent=LatentSection(dim=32),
        training=Training(steps=steps, batch=64, learning_rate=1e-3, warmup_steps=min(100, steps // 10), clip=1.0),
    )


# Text and tables, like a preset


def _recipe_for_text_files(path: Path, field: str | None, labels: bool) -> Recipe:
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


def recipe_for_text(path: Path, size: int) -> Recipe:
    """For ``size`` bytes of text, read as characters."""
    # Of a short text the tenth that is held out should still make some sequences.
    data = TextData(path=str(path.resolve()), length=max(8, min(64, size // 40)))
    about = {"name": name_from(path.resolve().stem), "about": f"text, {size:,} bytes"}
    return load_recipe("pydocs").model_copy(update={**about, "data": data})


def recipe_for_documents(path: Path, lengths: Sequence[int], source: str) -> Recipe:
    """For documents of so many characters each, one a sequence; ``source`` is what the user calls them."""
    if cut := sum(length > LONGEST_ITEM for length in lengths):
        note(
            f"{source}: {cut:,} of {len(lengths):,} documents are cut after {LONGEST_ITEM} characters; a larger "
            "data.length reads more"
        )
    return recipe_for_items(path, len(lengths), min(max(lengths), LONGEST_ITEM))


def recipe_for_items(path: Path, count: int, longest: int, documents: Literal["line"] | None = None) -> Recipe:
    """For ``count`` texts, the ``longest`` of so many characters, at most :data:`LONGEST_ITEM`: one a sequence, filled
    up.
    """
    # Two more, for where a text begins and ends.
    data = TextData(path=str(path.resolve()), length=max(8, longest + 2), wrap="padded", documents=documents)
    about = f"{count:,} texts of at most {longest} characters, one a sequence"
    return recipe_for_text(path, path.stat().st_size).model_copy(update={"about": about, "data": data})


def recipe_for_table(path: Path, rows: int, columns: int) -> Recipe:
    """For ``rows`` rows of ``columns`` columns: the recipe ``table``, wider and longer the more there is to learn."""
    like = load_recipe("table")
    width = 128 if rows < 1_000 else 256 if rows < 50_000 else 384
    batch = min(like.training.batch, max(1, rows // 4))
    # A small table is overfitted if it is read too often.
    steps = max(200, min(like.training.steps, 200 * math.ceil(rows / batch)))
    return like.model_copy(
        update={
            "name": path.resolve().stem,
            "about": f"a table of {rows:,} rows and {columns} columns",
            "data": TableData(path=str(path.resolve())),
            "network": like.network.model_copy(update={"width": width}),
            "training": like.training.model_copy(update={"batch": batch, "steps": steps}),
        }
    )
