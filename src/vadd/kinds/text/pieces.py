"""Which part of a text each token wrote."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np

from vadd.kinds.arrays import Array
from vadd.kinds.text.tokenizers import Tokenizer


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of ``ids`` in as many pieces: joined they are ``tokenizer.decode(ids)``.

    What a token writes may depend on its neighbours (blanks between words, characters of several bytes): it is what
    decoding one token more adds for certain to the text, perhaps nothing.
    """
    whole = tokenizer.decode(ids)
    ends = [0]
    for count in range(1, len(ids)):
        ends.append(max(ends[-1], _common(whole, tokenizer.decode(ids[:count]))))
    ends.append(len(whole))
    return [whole[first:last] for first, last in pairwise(ends)] if len(ids) else []


def _common(first: str, second: str) -> int:
    """How many characters both begin with."""
    different = (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(different, min(len(first), len(second)))


def marked_text(tokenizer: Tokenizer, values: Array, marks: Array) -> list[tuple[str, bool]]:
    """The text of a sequence of values as :meth:`Tokenizer.documents` reads it, blank lines between documents, in parts
    of which each is marked or not.
    """
    spelled = _spelled(tokenizer, np.asarray(values), np.asarray(marks))
    grouped = ((marked, "".join(text for text, _ in part)) for marked, part in groupby(spelled, lambda pair: pair[1]))
    return [(text, marked) for marked, text in grouped if text]


def _spelled(tokenizer: Tokenizer, values: Array, marks: Array) -> Iterator[tuple[str, bool]]:
    """Token by token."""
    ids = tokenizer.to_ids(values)
    bos, eos, pad = (
        -1 if s is None else s for s in (tokenizer.specials.bos, tokenizer.specials.eos, tokenizer.specials.pad)
    )
    written = False
    for part in np.split(np.arange(len(ids)), np.flatnonzero(ids == eos)):
        kept = part[~np.isin(ids[part], (bos, eos, pad))]
        if len(kept):
            if written:
                yield "\n\n", False
            written = True
            yield from zip(pieces(tokenizer, ids[kept].tolist()), marks[kept].tolist(), strict=True)
