"""Recipes for the user's own data: network, latent and length chosen by what the data are, for minutes on a laptop."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from torch import Tensor

from vadd.data import ArrayData, Data, FolderData, TableData, TextData
from vadd.data.array import read_array
from vadd.data.dataset import LABELS_FILE
from vadd.data.image_folder import SUFFIXES as IMAGE_SUFFIXES
from vadd.data.image_folder import Look, folder_labels, look_at
from vadd.data.text.corpora import LABEL_FIELD, TEXT_FIELD
from vadd.data.text.documents import ROW_SUFFIXES, TextFiles, first_fields, items_in, text_files
from vadd.errors import UserError
from vadd.kinds import Kind, kind_of
from vadd.kinds.table.reading import TABLE_SUFFIXES, RawTable, header_of, read_table
from vadd.kinds.table.schema import identifiers, infer, usual_bins
from vadd.kinds.text.tokenizers import WORDS, count_tokens
from vadd.networks import NetworkSettings, short_transformer
from vadd.networks.perceptrons import ResidualSettings
from vadd.networks.pyramid import PyramidSettings
from vadd.networks.short_transformer import ShortTransformerSettings
from vadd.networks.tables import TableSettings
from vadd.progress import note
from vadd.recipe.dependence import dependence
from vadd.recipe.latent import AutoregressiveSection, LatentSection
from vadd.recipe.recipe import Recipe, name_from
from vadd.recipe.sections import Diffusion, Sampling, Training

LONGEST_ITEM = 126
"""Characters; texts that are no longer are learnt one a sequence."""
MOST_WEIGHTS = 6_000_000
"""A checkpoint holds every weight four times, in single precision: it stays below 100 MB."""
SECONDS = 240.0
"""Of one core, for a training. Networks this small gain little from a second one."""
OVERHEAD, RATE = 0.015, 4e10
"""Seconds of a step besides its arithmetic, and FLOP per second, both of one core: what a step costs, roughly."""
FEW_EXAMPLES = 2_000
"""Below, networks are trained with dropout."""
SHORT = 12
"""Positions up to which a perceptron learns an array as well as a transformer does."""
MOST_VALUES = 512
"""Of a transformer, whose prior over z has clusters for them."""
LARGEST_LATENT = 48
RANK_FUNCTIONS = 16
STEPS = {1: 0.5, 2: 0.2, 4: 0.1, 8: 0.1, 16: 0.05, 32: 0.05}
"""What is trained for: one step must do what twenty can."""
LETTERS_OF_A_WORD = 6
USUAL_CHARACTERS = 100
"""How many values a text has is known when it has been read; these cost about as much."""
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


def recipe_for(path: Path, *, field: str | None = None, labels: bool = False, tokenizer: str | None = None) -> Recipe:
    """A recipe for the data at this path. A ``field`` says that a .csv holds text, and where. ``labels`` that exist and
    are not asked for are mentioned. Texts of words or symbols (``tokenizer``) are as long as they have of them.
    """
    kind = TextData if field is not None else kind_of_data(path)
    if kind is ArrayData:
        array, vocab_size = read_array(path)
        beside = path.parent / LABELS_FILE
        if not labels and path.name != LABELS_FILE and beside.is_file():
            _mention(f"{beside} could be labels of the examples")
        data = ArrayData(path=str(path.resolve()), vocab_size=vocab_size)
        return recipe_for_examples(data, path.stem, array, vocab_size)
    if kind is TextData:
        return _recipe_for_text_files(path, field, labels, tokenizer)
    if kind is TableData:
        return recipe_for_table(path, read_table(path))
    images = look_at(path)
    note(f"{path}: by default {images.described}; data.size, data.channels and data.levels change that")
    if not labels:
        _mention_folders(path)
    return recipe_for_folder(path, images)


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
    note(f"{what}: left out; with data.labels=true they are learned, and vadd sample RUN --label NAME draws of one")


def _mention_folders(path: Path) -> None:
    try:
        names = folder_labels(path).names
    except UserError:  # no labels then
        return
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    _mention(f"{path}: the names of {len(names)} folders ({shown}) could be labels")


# Arrays and images


def recipe_for_examples(data: Data, name: str, array: np.ndarray | Tensor, vocab_size: int) -> Recipe:
    """For an array of examples, (n, ...), of values in 0..vocab_size-1."""
    kind = kind_of(tuple(array.shape[1:]), vocab_size)
    about = f"{len(array)} examples of {kind.positions} values in 0..{vocab_size - 1}"
    return _fitted(name, about, data, kind, network_for(kind), len(array), dependence(array))


def recipe_for_folder(path: Path, images: Look) -> Recipe:
    """For images of a folder."""
    kind = kind_of((images.side, images.side, images.channels), images.levels)
    return _fitted(
        path.resolve().name,
        f"images of a folder, {images.described}",
        FolderData(path=str(path.resolve()), size=images.side, channels=images.channels, levels=images.levels),
        kind,
        network_for(kind),
        images.count,
    )


def network_for(kind: Kind) -> NetworkSettings:
    """Pyramids for images that can be halved twice, perceptrons for other images and for what is short, very long or
    has too many values, transformers for all else.
    """
    if kind.name == "image" and kind.positions >= 256 and all(side % 4 == 0 for side in kind.shape[:2]):
        return PyramidSettings()
    if kind.name != "image" and SHORT < kind.positions <= LONGEST_ITEM + 2 and kind.vocab_size <= MOST_VALUES:
        return transformer(pairs=True)
    width, features = fitting_size(kind.positions, kind.vocab_size, 256, readings=3)
    return ResidualSettings(width=width, value_embedding=features)


def transformer(*, pairs: bool = False) -> ShortTransformerSettings:
    """Small: z has a share for each position, which says nearly all, and the prior knows how they go together. In
    arrays, unlike texts, it is the same positions that depend on each other in every example (``pairs``).
    """
    denoiser = short_transformer.ShortTransformerDenoiserSettings(width=96, blocks=2, latent_everywhere=True)
    return ShortTransformerSettings(denoiser=denoiser, pairs=pairs)


def latent_for(kind: Kind, network: NetworkSettings, nats: float) -> LatentSection:
    """One z for all steps with a prior that is trained with the model. ``nats`` is what the positions say about each
    other: it sizes a z for the whole. A share of a position must tell its values apart.
    """
    if network.divides_latent:
        share = max(2, min(8, math.ceil(math.log2(kind.vocab_size))))
        components, pairs = max(32, min(256, 2 * kind.vocab_size)), network.values_of("denoiser")["pairs"]
        prior = AutoregressiveSection(width=128, blocks=3, components=components, pairs=pairs)
        return LatentSection(kind="shared", dim=share, per="position", prior="autoregressive", autoregressive=prior)
    dim = max(min(8, 2 * kind.positions), min(LARGEST_LATENT, round(min(2 * nats, kind.positions))))
    return LatentSection(kind="shared", dim=dim, prior="autoregressive")


def _fitted(
    name: str,
    about: str,
    data: Data,
    kind: Kind,
    network: NetworkSettings,
    examples: int,
    nats: float = math.inf,
) -> Recipe:
    """Half of the training for one step, and as many training steps as the time allows."""
    divided = network.divides_latent
    steps = {steps: share for steps, share in STEPS.items() if steps <= max(4, kind.positions)}
    # The logits of all examples, in single precision: a hundred megabytes at most.
    few = examples < FEW_EXAMPLES
    batch = 64 if divided else 128 if few else 256
    batch = max(1, min(batch, examples // 4, 25_000_000 // (kind.positions * kind.vocab_size)))
    recipe = Recipe(
        name=name_from(name),
        about=about,
        data=data,
        network=network.model_copy(update={"dropout": 0.1 if few else 0.0}),  # which all of them have
        latent=latent_for(kind, network, nats),
        diffusion=Diffusion(steps=steps),
        training=Training(
            batch=batch,
            optimizer="adamw",
            learning_rate=3e-3 if divided else 1e-3 if few else 2e-3,
            weight_decay=0.01,
            clip=1,
            kl_warmup=0.3,
            kl_weight=0.3 if divided else 1,
            remedies=True,
        ),
        sampling=Sampling(latent_policy="fixed"),
    )
    from vadd.recipe.counting import model_on_meta, training_cost  # loading a model does without

    flops = batch * training_cost(model_on_meta(recipe, kind), recipe, most_examples=8).flops
    # Few examples are overfitted if they are read too often.
    most = min(10_000, (250 if few else 500) * math.ceil(examples / batch))
    count = max(200, min(most, round(SECONDS / (OVERHEAD + flops / RATE))))
    # Collapse is noticed after a tenth of the steps.
    lengths = {"steps": count, "warmup_steps": min(100, count // 10), "evaluate_every": count // 10}
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=lengths)})


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
            if tables + 18 * narrower**2 <= MOST_WEIGHTS:
                return narrower, features
    return width // 2, VALUE_EMBEDDINGS[-1]


# Text and tables, like a preset


def _recipe_for_text_files(path: Path, field: str | None, labels: bool, tokenizer: str | None) -> Recipe:
    """Of a text with one item a line each item is a sequence; of documents with labels each document is one."""
    files = text_files(path)
    if labels:
        lengths = [count_tokens(document, tokenizer) for document in TextFiles(files, "line", field or TEXT_FIELD)]
        if not lengths:
            raise UserError(f"{path} holds no text")
        return recipe_for_documents(path, lengths, str(path))
    if path.suffix in ROW_SUFFIXES and LABEL_FIELD in first_fields(path):
        _mention(f"{path}: the field {LABEL_FIELD!r} could be the label of each document")
    items = items_in(path, LONGEST_ITEM, tokenizer) if path.is_file() else None
    if items is None:
        return recipe_for_text(path, sum(file.stat().st_size for file in files), tokenizer)
    count, longest = items
    running = "data.documents=file data.wrap=packed data.length=64"
    note(f"{path}: {count:,} lines, read as one item each; as a running text with {running}")
    return recipe_for_items(path, count, longest, documents="line")


def recipe_for_text(path: Path, size: int, tokenizer: str | None = None) -> Recipe:
    """For ``size`` bytes of running text."""
    # Of a short text the tenth that is held out should still make some sequences.
    tokens = size // LETTERS_OF_A_WORD if tokenizer in WORDS else size
    data = TextData(path=str(path.resolve()), length=max(8, min(64, tokens // 40)))
    kind = kind_of((data.length,), USUAL_CHARACTERS)
    return _fitted(path.resolve().stem, f"text, {size:,} bytes", data, kind, transformer(), tokens // data.length)


def recipe_for_documents(path: Path, lengths: Sequence[int], source: str) -> Recipe:
    """For documents of so many tokens each, one a sequence; ``source`` is what the user calls them."""
    if cut := sum(length > LONGEST_ITEM for length in lengths):
        note(
            f"{source}: {cut:,} of {len(lengths):,} documents are cut after {LONGEST_ITEM} tokens; a larger "
            "data.length reads more"
        )
    return recipe_for_items(path, len(lengths), min(max(lengths), LONGEST_ITEM))


def recipe_for_items(path: Path, count: int, longest: int, documents: Literal["line"] | None = None) -> Recipe:
    """For ``count`` texts, the ``longest`` of so many tokens, at most :data:`LONGEST_ITEM`: one a sequence, filled
    up.
    """
    # Two more, for where a text begins and ends.
    data = TextData(path=str(path.resolve()), length=max(8, longest + 2), wrap="padded", documents=documents)
    about = f"{count:,} texts of at most {longest} tokens, one a sequence"
    kind = kind_of((data.length,), USUAL_CHARACTERS)
    return _fitted(path.resolve().stem, about, data, kind, transformer(), count)


def recipe_for_table(path: Path, table: RawTable) -> Recipe:
    """A network is wider the more there is to learn. Integers that only number the rows are left out."""
    rows, named = table.rows, identifiers(table, infer(table))
    if named:
        names = ", ".join(named)
        note(f"{table.source}: {names}: another integer in every row, which names it: left out; data.skip=[] keeps it")
    width = 128 if rows < 1_000 else 256 if rows < 50_000 else 384
    network = TableSettings(width=width, rank_functions=RANK_FUNCTIONS)
    columns, bins = len(table.columns) - len(named), usual_bins(rows)
    about = f"a table of {rows:,} rows and {columns} columns"
    data = TableData(path=str(path.resolve()), skip=tuple(named), bins=bins, draw="tails")
    # How many values the columns have is known when the table has been read.
    return _fitted(path.resolve().stem, about, data, kind_of((columns,), bins), network, rows)
