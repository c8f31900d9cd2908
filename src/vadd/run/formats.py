"""What a run keeps of its data, so that nothing else of them is needed: their format, tokenizer and columns."""

from typing import Any

from vadd.data import ExampleFormat
from vadd.errors import UserError
from vadd.kinds.table import TableCodec
from vadd.kinds.text.saved_tokenizers import load_tokenizer
from vadd.kinds.text.tokenizers import Tokenizer, refuse_other
from vadd.recipe import Recipe
from vadd.recipe.building import example_format
from vadd.run.directory import RunDirectory
from vadd.run.exported import ExportedModel, read_labels


def exported_format(exported: ExportedModel, tokenizer: Tokenizer | None) -> ExampleFormat:
    """Exports of version 0.1.0 do not contain their pad; it follows from their recipe and tokenizer."""
    pad = exported.pad
    if pad is None and tokenizer is not None:
        pad = example_format(exported.recipe, tokenizer).pad
    return ExampleFormat(
        exported.shape,
        exported.vocab_size,
        pad,
        exported.sizes,
        exported.labels,
        exported.unknowns,
        exported.label_shares,
    )


def read_format(directory: RunDirectory, recipe: Recipe, tokenizer: Tokenizer | None) -> ExampleFormat:
    """What the run knows of its data; runs of version 0.1.0 must look into recipe, tokenizer or data."""
    about = directory.data()
    if about is None:
        return example_format(recipe, tokenizer)
    try:
        sizes = None if about.get("sizes") is None else tuple(map(int, about["sizes"]))
        shape, vocab_size, pad = tuple(map(int, about["shape"])), int(about["vocab_size"]), about.get("pad")
        if not shape or min(shape) < 1 or vocab_size < 2 or type(pad) not in (int, type(None)):
            raise ValueError
        labels, shares = read_labels(about)
        return ExampleFormat(shape, vocab_size, pad, sizes, labels, bool(about.get("unknowns")), shares)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"{directory.data_file} is damaged") from None


def write_format(directory: RunDirectory, format: ExampleFormat, fingerprint: str) -> None:
    """Make it the run's, with the ``fingerprint`` of its data; see :func:`read_format`."""
    about = {"shape": list(format.shape), "vocab_size": format.vocab_size, "pad": format.pad, "sha256": fingerprint}
    directory.write_data(about | varying(format))


def read_fingerprint(directory: RunDirectory) -> str | None:
    """Of the data; runs made before do not know it."""
    found = (directory.data() or {}).get("sha256")
    return found if isinstance(found, str) else None


def varying(format: ExampleFormat) -> dict[str, Any]:
    """What is said only of formats that have it: positions of different sizes, labels, unknown values."""
    sizes = {} if format.sizes is None else {"sizes": list(format.sizes)}
    labels: dict[str, Any] = {} if format.labels is None else {"labels": list(format.labels)}
    if format.label_shares is not None:
        labels["label_shares"] = list(format.label_shares)
    return sizes | labels | ({"unknowns": True} if format.unknowns else {})


def read_tokenizer(directory: RunDirectory) -> Tokenizer | None:
    """The tokenizer of a run on text."""
    place = directory.tokenizer_directory
    return load_tokenizer(place) if place.exists() else None


def read_table_codec(directory: RunDirectory) -> TableCodec | None:
    """The columns of a run on a table."""
    return TableCodec.load(directory.table_file) if directory.table_file.is_file() else None


def keep_table(directory: RunDirectory, table: TableCodec) -> None:
    """Make it the run's; a run that has another one already refuses it."""
    kept = read_table_codec(directory)
    if kept is None:
        table.save(directory.table_file)
    elif kept != table:
        raise UserError(f"{directory.path} was started with another table: its columns have other values")


def keep_tokenizer(directory: RunDirectory, tokenizer: Tokenizer) -> None:
    """Make it the run's; a run that has another one already refuses it."""
    kept = read_tokenizer(directory)
    if kept is None:
        tokenizer.save(directory.tokenizer_directory)
    else:
        refuse_other(kept, tokenizer, str(directory.path))
