"""Corpora: where documents come from, which of them are held out, and what is done to their text.

Corpora of many documents are split by document. A single running text (a book, text8) has no documents to split by: it
is split by position, the last part held out, and either side is cut into whole sequences of its own.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np

from vadd.data.text.documents import read_running
from vadd.errors import UserError
from vadd.files import reading
from vadd.kinds.arrays import Array

Part = Literal["train", "test"]
CorpusName = Literal[
    "files", "pydocs", "text8", "lm1b", "openwebtext", "lambada", "wikitext", "ag_news", "pubmed", "arxiv"
]
TEXT_FIELD, LABEL_FIELD = "text", "label"
Detokenizer = Callable[[str], str]


def with_line_break(text: str) -> str:
    return f"{text}\n"


class Piece(NamedTuple):
    """A document, or a piece of a running text."""

    text: str
    ends_document: bool
    size: int
    """Of the corpus's ``total``, for progress."""


class Source(Protocol):
    """Documents in a fixed order; iterating again gives the same."""

    @property
    def identity(self) -> dict[str, object]: ...

    @property
    def byte_count(self) -> int | None:
        """About how much text it is, where that is known beforehand."""

    def count(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class FilePart:
    """What lies between two bytes of a file, in pieces of one running text."""

    file: Path
    start: int
    stop: int

    @property
    def identity(self) -> dict[str, object]:
        stat = self.file.stat()
        return {"running": [str(self.file.resolve()), stat.st_size, stat.st_mtime_ns, self.start, self.stop]}

    @property
    def byte_count(self) -> int:
        return self.stop - self.start

    def count(self) -> int:
        return self.byte_count

    def __iter__(self) -> Iterator[str]:
        return read_running(self.file, self.start, self.stop)


@dataclass(frozen=True)
class RandomShare:
    """Hold out a share of the documents, at least one, chosen by ``seed``."""

    share: float
    seed: int

    def choose(self, count: int) -> Array:
        """(count,) bool."""
        chosen = np.zeros(count, bool)
        held_out = max(1, math.floor(self.share * count))
        chosen[np.random.default_rng(self.seed).choice(count, held_out, replace=False)] = True
        return chosen


@dataclass(frozen=True)
class LastDocuments:
    """Hold out the last documents: so many, or a tenth of a corpus with fewer than ten times as many."""

    number: int = 100_000

    def choose(self, count: int) -> Array:
        held_out = max(1, min(self.number, count // 10))
        return np.arange(count) >= count - held_out


@dataclass(frozen=True)
class ChosenDocuments:
    """Those documents of a source that are held out, or those that are not."""

    name: str
    source: Source
    split: RandomShare | LastDocuments
    held_out: bool

    @property
    def identity(self) -> dict[str, object]:
        return {**self.source.identity, "split": repr(self.split), "held_out": self.held_out}

    @property
    def byte_count(self) -> int | None:
        return self.source.byte_count

    @cached_property
    def chosen(self) -> Array:
        """(count of the source,) bool."""
        count = self.source.count()
        if count < 2:
            raise UserError(f"{self.name} holds {count} document(s) with text; at least 2 are needed to train and test")
        held_out = self.split.choose(count)
        return held_out if self.held_out else ~held_out

    def count(self) -> int:
        return int(self.chosen.sum())

    def __iter__(self) -> Iterator[str]:
        return (document for document, chosen in zip(self.source, self.chosen, strict=True) if chosen)


@dataclass(frozen=True)
class Corpus:
    """The text of one or both parts, and what is done to each document in turn."""

    name: str
    sources: Mapping[Part, Source]
    steps: tuple[Detokenizer, ...] = ()
    running: bool = False
    """Whether it is one running text, in which no document ends."""

    @property
    def byte_count(self) -> int | None:
        sizes = [source.byte_count for source in self.sources.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def identity(self) -> dict[str, object]:
        """Changes whenever the text of a part may have changed."""
        steps = "+".join(step.__name__ for step in self.steps) or "unchanged"
        return {**{part: source.identity for part, source in self.sources.items()}, "detokenizer": steps}

    def _source(self, part: Part) -> Source:
        if part not in self.sources:
            raise UserError(f"{self.name} has no {part} part: it is for evaluation, not for training")
        return self.sources[part]

    def pieces(self, part: Part) -> Iterator[Piece]:
        source = self._source(part)
        cut = isinstance(source, FilePart)
        for text in source:
            if cut or text.strip():
                size = len(text.encode()) if cut else 1
                yield Piece(reduce(lambda done, step: step(done), self.steps, text), not self.running, size)

    def total(self, part: Part) -> int:
        """What the sizes of the pieces add up to at most."""
        return self._source(part).count()

    def continued(self, step: Detokenizer = with_line_break) -> "Corpus":
        """As one running text, with one step more: for tokenizers that have no EOS."""
        return replace(self, steps=(*self.steps, step), running=True)

    @classmethod
    def of_file(cls, name: str, file: Path, shares: Mapping[Part, tuple[float, float]]) -> "Corpus":
        """A file as one running text; ``shares`` says between which bytes each part lies, in fractions of the file."""
        with reading(file):
            size = file.stat().st_size
        if size == 0:
            raise UserError(f"{file} is empty")
        ends = {part: (round(start * size), round(stop * size)) for part, (start, stop) in shares.items()}
        return cls(name, {part: FilePart(file, start, stop) for part, (start, stop) in ends.items()}, running=True)

    @classmethod
    def divided(
        cls, name: str, source: Source, split: RandomShare | LastDocuments, steps: tuple[Detokenizer, ...] = ()
    ) -> "Corpus":
        """The documents of one source, some of them held out."""
        train, test = (ChosenDocuments(name, source, split, held_out) for held_out in (False, True))
        return cls(name, {"train": train, "test": test}, steps)
