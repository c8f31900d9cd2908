"""Corpora: where documents come from, and which of them are held out.

Corpora of many documents are split by document. A single running text (a book, text8) has no documents to split by: it
is split by position, the last part held out, and either side is cut into whole sequences of its own.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from vadd.data.text.detokenizers import Detokenizer, unchanged
from vadd.data.text.documents import read_running
from vadd.errors import UserError
from vadd.kinds.arrays import Array

Part = Literal["train", "test"]


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


class Corpus(ABC):
    name: str
    running: bool
    """Whether it is one running text, in which no document ends."""
    byte_count: int | None

    @property
    @abstractmethod
    def identity(self) -> dict[str, object]:
        """Changes whenever the text of a part may have changed."""

    @abstractmethod
    def pieces(self, part: Part) -> Iterator[Piece]: ...

    @abstractmethod
    def total(self, part: Part) -> int:
        """What the sizes of the pieces add up to at most."""


class RunningText(Corpus):
    """A file as one text; ``shares`` says between which bytes each part lies, in fractions of the file."""

    running = True

    def __init__(self, name: str, file: Path, shares: Mapping[Part, tuple[float, float]]) -> None:
        self.name, self.file, self.shares = name, file, shares
        try:
            self.size = self.byte_count = file.stat().st_size
        except OSError as error:
            raise UserError(f"cannot read {file}: {error.strerror}") from None
        if self.size == 0:
            raise UserError(f"{file} is empty")

    @property
    def identity(self) -> dict[str, object]:
        place = [str(self.file.resolve()), self.size, self.file.stat().st_mtime_ns]
        return {"running": place, "shares": {part: list(share) for part, share in self.shares.items()}}

    def _range(self, part: Part) -> tuple[int, int]:
        start, stop = (round(share * self.size) for share in self.shares[part])
        return start, stop

    def pieces(self, part: Part) -> Iterator[Piece]:
        for text, size in read_running(self.file, *self._range(part)):
            yield Piece(text, False, size)

    def total(self, part: Part) -> int:
        start, stop = self._range(part)
        return stop - start


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

    number: int

    def choose(self, count: int) -> Array:
        held_out = max(1, min(self.number, count // 10))
        return np.arange(count) >= count - held_out


class SplitDocuments(Corpus):
    """The documents of one source, some of them held out."""

    running = False

    def __init__(
        self, name: str, source: Source, held_out: RandomShare | LastDocuments, detokenize: Detokenizer = unchanged
    ) -> None:
        self.name, self.source, self.held_out, self.detokenize = name, source, held_out, detokenize
        self.byte_count = source.byte_count

    @property
    def identity(self) -> dict[str, object]:
        return {**self.source.identity, "held_out": repr(self.held_out), "detokenizer": self.detokenize.__name__}

    @cached_property
    def _in_test(self) -> Array:
        count = self.source.count()
        if count < 2:
            raise UserError(f"{self.name} holds {count} document(s) with text; at least 2 are needed to train and test")
        return self.held_out.choose(count)

    def pieces(self, part: Part) -> Iterator[Piece]:
        wanted = self._in_test if part == "test" else ~self._in_test
        for document, chosen in zip(self.source, wanted, strict=True):
            if chosen and document.strip():
                yield Piece(self.detokenize(document), True, 1)

    def total(self, part: Part) -> int:
        return int((self._in_test if part == "test" else ~self._in_test).sum())

    def split(self) -> tuple[Array, Array]:
        """The numbers of the documents to train on and of those held out."""
        return np.flatnonzero(~self._in_test), np.flatnonzero(self._in_test)


class DividedDocuments(Corpus):
    """Documents that come divided, or of which only one part is wanted."""

    running = False

    def __init__(self, name: str, sources: Mapping[Part, Source], detokenize: Detokenizer = unchanged) -> None:
        self.name, self.sources, self.detokenize = name, sources, detokenize
        sizes = [source.byte_count for source in sources.values()]
        self.byte_count = None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def identity(self) -> dict[str, object]:
        parts: dict[str, object] = {part: source.identity for part, source in self.sources.items()}
        return {**parts, "detokenizer": self.detokenize.__name__}

    def _source(self, part: Part) -> Source:
        if part not in self.sources:
            raise UserError(f"{self.name} has no {part} part: it is a corpus to judge by, not to learn from")
        return self.sources[part]

    def pieces(self, part: Part) -> Iterator[Piece]:
        for document in self._source(part):
            if document.strip():
                yield Piece(self.detokenize(document), True, 1)

    def total(self, part: Part) -> int:
        return self._source(part).count()


class JoinedDocuments(DividedDocuments):
    """The same as one running text, with a line break after each: for tokenizers that have no EOS."""

    running = True

    @property
    def identity(self) -> dict[str, object]:
        return {**super().identity, "joined": True}

    def pieces(self, part: Part) -> Iterator[Piece]:
        for piece in super().pieces(part):
            yield Piece(piece.text + "\n", False, piece.size)


class PythonTopics:
    """The documentation that every Python carries for ``help()``, one document a topic. It differs by version."""

    @cached_property
    def topics(self) -> list[str]:
        try:
            from pydoc_data.topics import topics
        except ImportError:
            raise UserError("this Python comes without its documentation (pydoc_data.topics)") from None
        return [topics[name] for name in sorted(topics)]

    @property
    def identity(self) -> dict[str, object]:
        digest = hashlib.sha256("\0".join(self.topics).encode()).hexdigest()
        return {"pydocs": digest}

    @property
    def byte_count(self) -> int:
        return sum(map(len, self.topics))

    def count(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)


@dataclass(frozen=True)
class HubRows:
    """A column of a data set on the Hugging Face hub."""

    repository: str
    config: str | None
    split: str
    field: str
    revision: str | None = None
    byte_count = None

    @property
    def identity(self) -> dict[str, object]:
        return {"hub": [self.repository, self.config, self.split, self.field, self.revision]}

    @cached_property
    def _rows(self) -> Any:
        try:
            import datasets
        except ImportError:
            raise UserError(
                f"{self.repository} comes from the hub, which needs the package datasets: pip install 'vadd[text]'; "
                "or name a local copy with data.path"
            ) from None
        try:
            rows = datasets.load_dataset(self.repository, self.config, split=self.split, revision=self.revision)
        except Exception as error:  # no network, no such set, a full disk: the library has an exception for each
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"could not fetch {self.repository} from the hub ({reason}); or name a local copy with data.path"
            ) from None
        if self.field not in rows.column_names:
            raise UserError(f"{self.repository} has no column {self.field!r}; it has {', '.join(rows.column_names)}")
        return rows

    def count(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        for batch in self._rows.select_columns([self.field]).iter(batch_size=1000):
            yield from batch[self.field]
