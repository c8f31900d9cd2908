"""What an example is: a point, an array, an image, a text, a row of a table. Nothing in here imports torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.kind import TABLE, TOKENIZER, How, ImageKind, Kind, PointKind
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.kind import TableKind
from vadd.kinds.text import load_tokenizer
from vadd.kinds.text.kind import TextKind
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import Tokenizer


class Facts(TypedDict, total=False):
    """See :class:`Kind`."""

    pad: int | None
    labels: tuple[str, ...] | None
    unknowns: bool
    label_shares: tuple[float, ...] | None


def kind_of(
    shape: tuple[int, ...],
    vocab_size: int,
    *,
    tokenizer: Tokenizer | None = None,
    wrap: Wrap | None = None,
    table: TableCodec | None = None,
    **facts: Unpack[Facts],
) -> Kind:
    """Text has a tokenizer, a table its codec; images have three axes, the last of 1 or 3 channels."""
    if tokenizer is not None:
        return TextKind(shape, vocab_size, tokenizer=tokenizer, wrap=wrap, **facts)
    if table is not None:
        return TableKind(shape, vocab_size, codec=table, sizes=table.sizes, **facts)
    if len(shape) == 3 and shape[2] in (1, 3):
        return ImageKind(shape, vocab_size, **facts)
    plain = Kind(shape, vocab_size, **facts)
    return PointKind(shape, vocab_size, **facts) if plain.positions == 2 else plain


def read_kind(folder: Path, about: Mapping[str, Any], wrap: Wrap | None = None) -> Kind:
    """The kind that a run or an export has in its ``folder``, ``about`` as :meth:`Kind.to_json` has it. The recipe
    says how texts become sequences.
    """
    shape, vocab_size, facts = check_facts(about)
    tokenizer, table = folder / TOKENIZER, folder / TABLE
    return kind_of(
        shape,
        vocab_size,
        tokenizer=load_tokenizer(tokenizer) if tokenizer.exists() else None,
        wrap=wrap,
        table=TableCodec.load(table) if table.is_file() else None,
        **facts,
    )


def check_facts(about: Mapping[str, Any]) -> tuple[tuple[int, ...], int, Facts]:
    """Shape, V and the rest; ValueError and its kin where they are damaged."""
    shape, vocab_size, pad = tuple(map(int, about["shape"])), int(about["vocab_size"]), about.get("pad")
    if not shape or min(shape) < 1 or vocab_size < 2 or type(pad) not in (int, type(None)):
        raise ValueError
    labels = None if about.get("labels") is None else tuple(map(str, about["labels"]))
    shares = None if labels is None or about.get("label_shares") is None else tuple(map(float, about["label_shares"]))
    if shares is not None and labels is not None:
        whole = abs(sum(shares) - 1) < 1e-6 and all(0 <= share <= 1 for share in shares)
        if len(shares) != len(labels) or not whole:
            raise ValueError
    return shape, vocab_size, Facts(pad=pad, labels=labels, unknowns=bool(about.get("unknowns")), label_shares=shares)
