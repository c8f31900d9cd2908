"""What an example is: a point, an array, an image, a text, a row of a table. Nothing in here imports torch."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.kind import TABLE, TOKENIZER, How, ImageKind, Kind, PointKind
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.kind import TableKind
from vadd.kinds.text.kind import TextKind
from vadd.kinds.text.subwords import load_tokenizer
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import Tokenizer


def kind_of(
    shape: tuple[int, ...],
    vocab_size: int,
    tokenizer: Tokenizer | None = None,
    wrap: Wrap | None = None,
    table: TableCodec | None = None,
    **facts: Any,
) -> Kind:
    """Text has a tokenizer, a table its codec; images have three axes, the last of 1 or 3 channels. ``facts`` are the
    other fields of :class:`Kind`.
    """
    if tokenizer is not None:
        return TextKind(shape, vocab_size, tokenizer=tokenizer, wrap=wrap, **facts)
    if table is not None:
        return TableKind(shape, vocab_size, codec=table, sizes=table.sizes, **facts)
    if len(shape) == 3 and shape[2] in (1, 3):
        return ImageKind(shape, vocab_size, **facts)
    return (PointKind if math.prod(shape) == 2 else Kind)(shape, vocab_size, **facts)


def read_kind(folder: Path, about: Mapping[str, Any], wrap: Wrap | None = None) -> Kind:
    """The kind that a run or an export has in its ``folder``, ``about`` as :meth:`Kind.to_json` has it. The recipe
    says how texts become sequences.
    """
    shape, vocab_size, facts = check_facts(about)
    tokenizer = load_tokenizer(folder / TOKENIZER) if (folder / TOKENIZER).exists() else None
    table = TableCodec.load(folder / TABLE) if (folder / TABLE).is_file() else None
    return kind_of(shape, vocab_size, tokenizer, wrap, table, **facts)


def check_facts(about: Mapping[str, Any]) -> tuple[tuple[int, ...], int, dict[str, Any]]:
    """Shape, V and the rest; ValueError and its kin where they are damaged."""
    shape, vocab_size, pad = tuple(map(int, about["shape"])), int(about["vocab_size"]), about.get("pad")
    if not shape or min(shape) < 1 or vocab_size < 2 or type(pad) not in (int, type(None)):
        raise ValueError
    labels = None if about.get("labels") is None else tuple(map(str, about["labels"]))
    shares = None if labels is None or about.get("label_shares") is None else tuple(map(float, about["label_shares"]))
    whole = shares is None or (abs(sum(shares) - 1) < 1e-6 and min(shares) >= 0 and len(shares) == len(labels or ()))
    if not whole:
        raise ValueError
    unknowns = bool(about.get("unknowns"))
    return shape, vocab_size, {"pad": pad, "labels": labels, "unknowns": unknowns, "label_shares": shares}
