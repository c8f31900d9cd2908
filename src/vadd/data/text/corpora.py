"""Corpora: where documents come from, which of them are held out, and what is done to their text.

Corpora of many documents are split by document. A single running text (a book, text8) has no documents to split by: it
is split by position, the last part held out, and either side is cut into whole sequences of its own.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from vadd.data.text import detokenizers
from vadd.data.text.detokenizers import Detokenizer, unchanged
from vadd.data.text.documents import read_running
from vadd.data.text.text8 import letters_of_text8
from vadd.errors import UserError
from vadd.kinds.arrays import Array

Part = Literal["train", "test"]
CorpusName = Literal[
    "files", "pydocs", "text8", "lm1b", "openwebtext", "lambada", "wikitext", "ag_news", "pubmed", "arxiv"
]
TEXT_FIELD, LABEL_FIELD = "text", "label"


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


class DocumentCorpus(Corpus):
    """Documents of one or both parts. ``joined`` they are one running text, with a line break after each: for
    tokenizers that have no EOS.
    """

    def __init__(
        self, name: str, sources: Mapping[Part, Source], detokenize: Detokenizer = unchanged, joined: bool = False
    ) -> None:
        self.name, self.sources, self.detokenize, self.running = name, sources, detokenize, joined
        sizes = [source.byte_count for source in sources.values()]
        self.byte_count = None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def identity(self) -> dict[str, object]:
        parts: dict[str, object] = {part: source.identity for part, source in self.sources.items()}
        return {**parts, "detokenizer": self.detokenize.__name__} | ({"joined": True} if self.running else {})

    def _source(self, part: Part) -> Source:
        if part not in self.sources:
            raise UserError(f"{self.name} has no {part} part: it is for evaluation, not for training")
        return self.sources[part]

    def pieces(self, part: Part) -> Iterator[Piece]:
        end = "\n" if self.running else ""
        for document in self._source(part):
            if document.strip():
                yield Piece(self.detokenize(document) + end, not self.running, 1)

    def total(self, part: Part) -> int:
        return self._source(part).count()


class SpelledCorpus(Corpus):
    """Another corpus in the letters of text8, as one running text."""

    running = True

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.name, self.byte_count = corpus, corpus.name, corpus.byte_count

    @property
    def identity(self) -> dict[str, object]:
        return {**self.corpus.identity, "spelled": "text8"}

    def pieces(self, part: Part) -> Iterator[Piece]:
        for piece in self.corpus.pieces(part):
            yield Piece(f"{letters_of_text8(piece.text).strip()} ", False, piece.size)

    def total(self, part: Part) -> int:
        return self.corpus.total(part)


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


def split_corpus(
    name: str, source: Source, split: RandomShare | LastDocuments, detokenize: Detokenizer = unchanged
) -> DocumentCorpus:
    """The documents of one source, some of them held out."""
    train, test = (ChosenDocuments(name, source, split, held_out) for held_out in (False, True))
    return DocumentCorpus(name, {"train": train, "test": test}, detokenize)


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
        return {"pydocs": hashlib.sha256("\0".join(self.topics).encode()).hexdigest()}

    @property
    def byte_count(self) -> int:
        return sum(map(len, self.topics))

    def count(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)


@dataclass(frozen=True)
class HubCorpus:
    """Where a corpus lies on the Hugging Face hub and what is done to its text. A local copy has a document a line, or
    rows.
    """

    repository: str
    detokenize: Detokenizer = unchanged
    config: str | None = None
    train: str | None = "train"
    test: str | None = "test"
    """The hub's splits; without a test split the last documents of the training split are held out."""
    field: str = TEXT_FIELD
    csv_field: str = TEXT_FIELD
    """In the ``.csv`` file that the corpus is distributed as."""
    revision: str | None = None

    def open(self, name: str) -> Corpus:
        splits: dict[Part, str | None] = {"train": self.train, "test": self.test}
        sources: dict[Part, Source] = {
            part: HubRows(self, split) for part, split in splits.items() if split is not None
        }
        if "test" not in sources:
            return split_corpus(name, sources["train"], LastDocuments(), self.detokenize)
        return DocumentCorpus(name, sources, self.detokenize)


@dataclass(frozen=True)
class HubRows:
    """One of its splits."""

    corpus: HubCorpus
    split: str
    byte_count = None

    @property
    def identity(self) -> dict[str, object]:
        corpus = self.corpus
        return {"hub": [corpus.repository, corpus.config, self.split, corpus.field, corpus.revision]}

    @cached_property
    def _rows(self) -> Any:
        corpus, name = self.corpus, self.corpus.repository
        otherwise = "or name a local copy with data.path"
        try:
            import datasets
        except ImportError:
            needed = "comes from the hub, which needs the package datasets: pip install 'vadd[text]'"
            raise UserError(f"{name} {needed}; {otherwise}") from None
        try:
            rows = datasets.load_dataset(name, corpus.config, split=self.split, revision=corpus.revision)
        except Exception as error:  # no network, no such set, a full disk: the library has an exception for each
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"could not fetch {name} from the hub ({reason}); {otherwise}") from None
        if corpus.field not in rows.column_names:
            raise UserError(f"{name} has no column {corpus.field!r}; it has {', '.join(rows.column_names)}")
        return rows

    def count(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        field = self.corpus.field
        for batch in self._rows.select_columns([field]).iter(batch_size=1000):
            yield from batch[field]


_PUBMED = HubCorpus(
    "armanc/scientific_papers",
    detokenizers.scientific_papers,
    "pubmed",
    test="validation",
    field="article",
    revision="refs/convert/parquet",  # the main branch is a program, the hub's conversion is data
)
HUB_CORPORA = {
    "lm1b": HubCorpus("dvruette/lm1b", detokenizers.lm1b),
    "openwebtext": HubCorpus("Skylion007/openwebtext", test=None),
    "lambada": HubCorpus("EleutherAI/lambada_openai", detokenizers.lambada, train=None),
    "wikitext": HubCorpus("Salesforce/wikitext", detokenizers.wikitext, "wikitext-103-raw-v1", test="validation"),
    "ag_news": HubCorpus("fancyzhx/ag_news", csv_field="2+3"),
    "pubmed": _PUBMED,
    "arxiv": replace(_PUBMED, config="arxiv"),
}
