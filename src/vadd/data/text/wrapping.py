"""From documents to sequences of N tokens.

``packed``   every document followed by EOS, all in a row, cut every N tokens (SEDD's OpenWebText, LM1B in D3PM)
``wrapped``  the same row cut every N - 2 tokens, each cut between BOS and EOS (the paper's OpenWebText)
``padded``   one document a sequence: BOS, its first N - 2 tokens, EOS, then pads that are not scored (the paper's LM1B)

A rest too short for a sequence is left out. A running text has no documents and so no EOS between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vadd.data.text.corpora import Piece
from vadd.errors import UserError
from vadd.kinds.arrays import Array, value_type
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import Special, Tokenizer

ENCODED_AT_ONCE = 64
"""Texts; the library's encodings take a hundred bytes for each token."""


def needed_specials(wrap: Wrap, *, running: bool) -> tuple[Special, ...]:
    """What the sequences are built with, beside the text itself."""
    if wrap == "padded":
        return ("bos", "eos", "pad")
    if wrap == "wrapped":
        return ("bos", "eos")
    return () if running else ("eos",)


def check_wrapping(tokenizer: Tokenizer, wrap: Wrap, length: int, *, running: bool) -> None:
    if wrap == "padded" and running:
        raise UserError("a running text has no documents to pad: choose data.documents or another data.wrap")
    for special in needed_specials(wrap, running=running):
        if getattr(tokenizer.specials, special) is None:
            raise UserError(f"the tokenizer {tokenizer.name} has no {special.upper()}, which data.wrap={wrap} needs")
    if length <= 2 and wrap != "packed":
        raise UserError(f"data.wrap={wrap} needs a data.length above 2, not {length}: BOS and EOS take two")


def encode_pieces(tokenizer: Tokenizer, pieces: Sequence[Piece], wrap: Wrap, length: int) -> Array:
    """The values of these pieces: (n, length) if padded, else in one row with EOS after each document."""
    pad, end = tokenizer.specials.pad, [] if tokenizer.specials.eos is None else [tokenizer.specials.eos]
    lines: list[list[Any]] = []
    for first in range(0, len(pieces), ENCODED_AT_ONCE):
        some = pieces[first : first + ENCODED_AT_ONCE]
        for ids, piece in zip(tokenizer.encode([piece.text for piece in some]), some, strict=True):
            if wrap == "padded":
                framed = tokenizer.framed(ids, length)
                lines.append(framed + [pad] * (length - len(framed)))
            else:
                lines.append(ids + end if piece.ends_document else ids)
    kind = value_type(tokenizer.vocab_size)
    if wrap == "padded":
        return tokenizer.to_values(np.array(lines, np.int64).reshape(-1, length)).astype(kind)
    joined = np.concatenate([np.zeros(0, np.int64), *(np.array(ids, np.int64) for ids in lines)])
    return tokenizer.to_values(joined).astype(kind)


def count_sequences(tokens: int, wrap: Wrap, length: int) -> int:
    """How many sequences so many tokens make; padded ones are counted in whole sequences already."""
    return tokens // (length - 2 if wrap == "wrapped" else length)


def cut_sequences(parts: Iterable[Array], tokenizer: Tokenizer, wrap: Wrap, length: int) -> Iterator[Array]:
    """Blocks of sequences (n, length) from the outputs of :func:`encode_pieces`, in order and across their borders."""
    body = length - 2 if wrap == "wrapped" else length
    rest: Array | None = None
    for part in parts:
        row = part.reshape(-1) if rest is None else np.concatenate([rest, part.reshape(-1)])
        whole = len(row) // body
        block, rest = row[: whole * body].reshape(whole, body), row[whole * body :]
        if wrap == "wrapped":
            ends = (tokenizer.special_value("bos"), tokenizer.special_value("eos"))
            block = np.pad(block, ((0, 0), (1, 1)), constant_values=((0, 0), ends))
        yield block
