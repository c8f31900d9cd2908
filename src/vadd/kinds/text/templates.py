"""Texts with gaps, as sequences in which a model fills what is missing.

A sequence has exactly N positions and begins as the sequences of the training do (:mod:`vadd.data.text.store`): with
nothing where they are packed, with BOS where they are wrapped or padded. A text stands at the beginning. What follows
it to the end of the sequence is the model's to write where texts go on (packed, wrapped) and is cut off again; where a
sequence is one document (padded), a text is the whole of it, and EOS and pads follow.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

import numpy as np

from vadd.errors import UserError
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.text.tokenizers import ByteTokenizer, CharacterTokenizer, Tokenizer
from vadd.settings import represented

Wrap = Literal["packed", "wrapped", "padded"]
"""See :mod:`vadd.data.text.store`."""
SUBWORDS_IN_A_GAP = 3
GAP = re.compile(r"(?<!\\)(?:_{2,})")


@dataclass(frozen=True)
class Template:
    prompt: str
    """As it was written."""
    values: Array
    """(N,) a model's values, -1 where it is to write."""
    extent: slice
    """The part that was asked for; what lies beyond frames it or gives it a context."""


@dataclass(frozen=True)
class Templates:
    """Makes templates for the sequences of one model."""

    tokenizer: Tokenizer
    wrap: Wrap
    positions: int

    def from_text(self, text: str, gap: int | None = None) -> Template:
        r"""Two or more underscores are a gap, of ``gap`` tokens; by default one for each underscore where tokens are
        characters or bytes, else 3. ``\_`` is an ordinary underscore.
        """
        if gap is not None and not 1 <= gap <= self._room:
            raise UserError(f"a gap takes 1 to {self._room} tokens, not {represented(gap)}")
        gaps = [len(found[0]) if self._letter_by_letter else SUBWORDS_IN_A_GAP for found in GAP.finditer(text)]
        if not gaps:
            raise UserError(f"there is no gap in {text!r}; mark one by two or more underscores")
        pieces = [piece.replace(r"\_", "_") for piece in GAP.split(text)]
        values: list[int] = []
        for piece, size in zip(pieces[:-1], gaps, strict=True):
            values += [*self._encode(self._before_gap(piece)), *[TO_FILL] * (gap or size)]
        return self._framed(text, values + self._encode(pieces[-1]), ends=self.wrap == "padded")

    def from_ends(self, prefix: str = "", suffix: str = "", length: int | None = None) -> Template:
        """``prefix``, a gap and ``suffix``, together ``length`` tokens, by default as many as a sequence holds. Without
        a suffix and a length the model also decides where a document ends.
        """
        if length is not None and length > self._room:
            raise UserError(f"a length of {length} tokens is too much" + self._limit(length))
        before = self._encode(self._before_gap(prefix))
        after = self._encode(suffix)
        total = self._room if length is None else length
        between = total - len(before) - len(after)
        if between < 1:
            taken = f"prefix and suffix take {len(before) + len(after)} tokens"
            raise UserError(f"{taken}, which leaves nothing to fill of {total}" + self._limit(length))
        values = [*before, *[TO_FILL] * between, *after]
        ends = self.wrap == "padded" and (bool(suffix) or length is not None)
        return self._framed(f"{prefix}____{suffix}", values, ends=ends)

    def whole(self, text: str) -> Template:
        """Without a gap."""
        return self._framed(text, self._encode(text), ends=self.wrap == "padded")

    @property
    def _letter_by_letter(self) -> bool:
        return isinstance(self.tokenizer, CharacterTokenizer | ByteTokenizer)

    def _before_gap(self, text: str) -> str:
        """Subwords carry the blank before them: it is for the gap to write."""
        return text if self._letter_by_letter else text.removesuffix(" ")

    def _encode(self, text: str) -> list[int]:
        ids = np.array(self.tokenizer.encode([text])[0], np.int64)
        listed: list[int] = self.tokenizer.to_values(ids).tolist()
        return listed

    @property
    def _room(self) -> int:
        """For the text itself."""
        return self.positions if self.wrap == "packed" else self.positions - 2

    def _limit(self, length: int | None) -> str:
        return "" if length is not None and length <= self._room else f": this model's texts have {self._room} tokens"

    def _framed(self, prompt: str, values: list[int], *, ends: bool) -> Template:
        if len(values) > self._room:
            raise UserError(f"{prompt!r} takes {len(values)} tokens, too long" + self._limit(None))
        sequence = np.full(self.positions, TO_FILL, np.int64)
        first = 0 if self.wrap == "packed" else 1
        last = first + len(values)
        sequence[first:last] = values
        if self.wrap != "packed":
            sequence[0] = self.tokenizer.special_value("bos")
        if self.wrap == "wrapped":
            sequence[-1] = self.tokenizer.special_value("eos")
        if ends:
            sequence[last] = self.tokenizer.special_value("eos")
            sequence[last + 1 :] = self.tokenizer.special_value("pad")
        return Template(prompt, sequence, slice(first, last))


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


def marked_text(tokenizer: Tokenizer, values: Array, marks: Array, *, padded: bool = False) -> list[tuple[str, bool]]:
    """The text of a sequence of values as :meth:`Tokenizer.text` reads it, blank lines between documents, in parts of
    which each is marked or not.
    """
    ids, marks = tokenizer.to_ids(np.asarray(values)), np.asarray(marks)
    if padded:
        ids = ids[: np.argmax([*(ids == tokenizer.specials.eos), True])]
    spelled: list[tuple[str, bool]] = []
    for places in tokenizer.document_places(ids):
        spelled += [("\n\n", False)] * bool(spelled)
        spelled += zip(pieces(tokenizer, ids[places].tolist()), marks[places].tolist(), strict=True)
    grouped = ((marked, "".join(text for text, _ in part)) for marked, part in groupby(spelled, lambda pair: pair[1]))
    return [(text, marked) for marked, text in grouped if text]
