"""Tokenizers: text to integers and back. A run carries its own and refuses another.

A tokenizer uses *ids*, the numbers it was published with. A model uses *values*: 0..V-1, and V is the mask. For most
tokenizers they are the same, and the mask of the diffusion is one entry more: GPT-2 has 50,257 values, 50,258 with the
mask. Where a tokenizer has a mask of its own, as BERT has [MASK] = 103, the diffusion uses that one: its id becomes V,
the ids above it move down by one, and no entry is added: 30,521 values, 30,522 with the mask.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vadd.errors import UserError
from vadd.files import whole_path
from vadd.kinds.arrays import Array

Special = Literal["bos", "eos", "pad"]
ABOUT, CONTENT = "about.json", "content.json"


@dataclass(frozen=True)
class Specials:
    """The ids with a meaning of their own, where there are any."""

    bos: int | None = None
    """Begins a sequence."""
    eos: int | None = None
    """Ends a document."""
    pad: int | None = None
    """Fills a sequence up."""
    mask: int | None = None
    """The tokenizer's own mask; it never comes out of a text."""


class Tokenizer(ABC):
    name: str
    size: int
    """How many ids there are, the tokenizer's own mask included."""
    specials: Specials

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without specials: their names in a text are ordinary text."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; specials appear by their names."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Everything that decides what the tokenizer does, for JSON."""

    @property
    def vocab_size(self) -> int:
        """V, the number of values a model of this tokenizer's text has beside the mask."""
        return self.size if self.specials.mask is None else self.size - 1

    def special_value(self, special: Special) -> int:
        number = getattr(self.specials, special)
        assert number is not None  # the training needed it for its wrapping
        return int(self.to_values(np.array([number]))[0])

    def to_values(self, ids: Array) -> Array:
        return ids if self.specials.mask is None else _mask_last(self.size, self.specials.mask)[ids]

    def to_ids(self, values: Array) -> Array:
        return values if self.specials.mask is None else np.argsort(_mask_last(self.size, self.specials.mask))[values]

    def documents(self, values: Array) -> list[str]:
        """The texts in one sequence of a model's values, cut at EOS, without BOS and pads; empty ones are left out."""
        ids = self.to_ids(np.asarray(values))
        return [self.decode(ids[places].tolist()) for places in self.document_places(ids)]

    def document_places(self, ids: Array) -> list[Array]:
        """Where the tokens of each document stand, of those that have any."""
        bos, eos, pad = self._bos_eos_pad
        between = np.split(np.arange(len(ids)), np.flatnonzero(ids == eos))
        places = [part[~np.isin(ids[part], (bos, eos, pad))] for part in between]
        return [part for part in places if len(part)]

    def text(self, values: Array, *, padded: bool = False) -> str:
        """One sequence of a model's values as text: its documents, parted by blank lines. If it is one ``padded``
        document, the text up to the first EOS: what a model draws behind it means nothing.
        """
        if padded:
            bos, eos, _ = self._bos_eos_pad
            ids = self.padded_document(values)
            return self.decode(ids[~np.isin(ids, (bos, eos))].tolist())
        return "\n\n".join(self.documents(values))

    def padded_document(self, values: Array) -> Array:
        """The ids of the document in one padded sequence of a model's values: from BOS to the first EOS, no pads."""
        bos, eos, pad = self._bos_eos_pad
        ids = self.to_ids(np.asarray(values))
        begin = int(ids[0] == bos)  # where one token is both BOS and EOS, the first ends nothing
        ends = begin + np.flatnonzero(ids[begin:] == eos)
        end = ends[0] + 1 if len(ends) else len(ids)
        document: Array = ids[:end][ids[:end] != pad]
        return document

    @property
    def _bos_eos_pad(self) -> tuple[int, int, int]:
        """The ids of these specials; -1, which is not an id, stands for one that does not exist."""
        bos, eos, pad = (-1 if s is None else s for s in (self.specials.bos, self.specials.eos, self.specials.pad))
        return bos, eos, pad

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 of the content: equal for tokenizers that do the same."""
        described = {"name": self.name, "specials": asdict(self.specials), **self.content()}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def save(self, directory: Path) -> None:
        """Write it into a new ``directory``: whole, or not there at all."""
        about = {"name": self.name, "specials": asdict(self.specials), "sha256": self.fingerprint}
        with whole_path(directory) as partial:
            partial.mkdir()
            (partial / ABOUT).write_text(json.dumps(about, indent=2))
            self._write(partial)

    def _write(self, directory: Path) -> None:
        (directory / CONTENT).write_text(json.dumps(self.content()))


def _mask_last(size: int, mask: int) -> Array:
    """The value of each id: the mask's is the last, the ids above it move down by one."""
    ids = np.arange(size)
    values: Array = np.where(ids == mask, size - 1, ids - (ids > mask))
    return values


class _WithNamedSpecials(Tokenizer):
    """Ordinary ids first, then the specials that the use of the tokenizer asks for."""

    def __init__(self, ordinary: int, specials: Sequence[Special]) -> None:
        self.ordinary = ordinary
        self.specials = Specials(**{special: ordinary + place for place, special in enumerate(specials)})
        self._written = [f"<{special}>" for special in specials]
        self.size = ordinary + len(specials)

    @abstractmethod
    def _decode_ordinary(self, ids: Sequence[int]) -> str: ...

    def decode(self, ids: Sequence[int]) -> str:
        parts: list[str] = []
        first = 0
        for place, number in enumerate(ids):
            if number >= self.ordinary:
                parts += [self._decode_ordinary(ids[first:place]), self._written[number - self.ordinary]]
                first = place + 1
        return "".join([*parts, self._decode_ordinary(ids[first:])])


WORDS = {"words": re.compile(r" ?\w+| ?[^\w\s]|\s"), "symbols": re.compile(r"\S+")}
"""What is a token: a word or a mark with the blank before it, and any other white space; or what stands between blanks.
"""
MOST_WORDS = 1 << 16


def count_tokens(text: str, tokenizer: str | None) -> int:
    """How many tokens a text has, of words or symbols; else its characters."""
    return len(WORDS[tokenizer].findall(text)) if tokenizer in WORDS else len(text)


class WordTokenizer(_WithNamedSpecials):
    """One id for each word of a vocabulary, in the order of their code points; ``name`` is a key of :data:`WORDS`."""

    def __init__(self, name: str, vocabulary: Iterable[str], specials: Sequence[Special] = ()) -> None:
        self.name, self.vocabulary = name, sorted(set(vocabulary))
        if len(self.vocabulary) > MOST_WORDS:
            raise UserError(f"the text has more than {MOST_WORDS:,} different {name}: take data.tokenizer=bpe")
        super().__init__(len(self.vocabulary), specials)
        self._ids = {word: number for number, word in enumerate(self.vocabulary)}

    def words(self, text: str) -> Iterable[str]:
        found: list[str] = WORDS[self.name].findall(text)
        return found

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            return [[self._ids[word] for word in self.words(text)] for text in texts]
        except KeyError as unknown:
            what = f"the {self.name.removesuffix('s')} {unknown.args[0]!r}"
            raise UserError(f"{what} is not among the {len(self._ids):,} {self.name} of this tokenizer") from None

    def _decode_ordinary(self, ids: Sequence[int]) -> str:
        return (" " if self.name == "symbols" else "").join(self.vocabulary[number] for number in ids)

    def content(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary}


class CharacterTokenizer(WordTokenizer):
    """One id for each character of an alphabet."""

    name = "characters"

    def __init__(self, alphabet: Iterable[str], specials: Sequence[Special] = ()) -> None:
        super().__init__(self.name, alphabet, specials)

    def words(self, text: str) -> Iterable[str]:
        return text

    def content(self) -> dict[str, Any]:
        return {"alphabet": "".join(self.vocabulary)}


class ByteTokenizer(_WithNamedSpecials):
    """The bytes of UTF-8."""

    name = "bytes"

    def __init__(self, specials: Sequence[Special] = ()) -> None:
        super().__init__(256, specials)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode()) for text in texts]

    def _decode_ordinary(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode(errors="replace")

    def content(self) -> dict[str, Any]:
        return {}


def own_tokenizer(name: str, content: Mapping[str, Any], specials: Sequence[Special]) -> Tokenizer:
    """Of the classes above, by what its :meth:`Tokenizer.content` was."""
    if name == CharacterTokenizer.name:
        return CharacterTokenizer(content["alphabet"], specials)
    return WordTokenizer(name, content["vocabulary"], specials) if name in WORDS else ByteTokenizer(specials)


def refuse_other(kept: Tokenizer, found: Tokenizer, where: str) -> None:
    """An error unless both tokenizers do the same."""
    if kept.fingerprint != found.fingerprint:
        first, second = (f"{t.name}, {t.size:,} entries, sha256 {t.fingerprint[:12]}" for t in (kept, found))
        raise UserError(f"{where} was trained with another tokenizer ({first}) than that of the data ({second})")
