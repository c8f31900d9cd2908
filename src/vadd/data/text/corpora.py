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
from vadd.data.text.documents import ROW_SUFFIXES, Documents, TextFiles, read_running, text_files
from vadd.data.text.text8 import letters_of_text8, text8_file
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
            columns = ", ".join(rows.column_names)
            raise UserError(f"{self.repository} has no column {self.field!r}; it has {columns}")
        return rows

    def count(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        for batch in self._rows.select_columns([self.field]).iter(batch_size=1000):
            yield from batch[self.field]


@dataclass(frozen=True)
class HubCorpus:
    """Where a corpus lies on the hub and what is done to its text. A local copy has a document a line, or rows."""

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
            part: HubRows(self.repository, self.config, split, self.field, self.revision)
            for part, split in splits.items()
            if split is not None
        }
        if "test" not in sources:
            return split_corpus(name, sources["train"], LastDocuments(), self.detokenize)
        return DocumentCorpus(name, sources, self.detokenize)


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


@dataclass(frozen=True)
class Place:
    """Which corpus, from which local copy if any, and what a document is there; see :class:`vadd.data.TextData`."""

    name: CorpusName = "files"
    path: Path | None = None
    documents: Documents | None = None
    field: str | None = None

    @property
    def hub(self) -> HubCorpus | None:
        return HUB_CORPORA.get(self.name)

    @property
    def label(self) -> str:
        return self.name if self.path is None else self.path.resolve().stem

    def training(self, test_fraction: float = 0.1, seed: int = 0) -> Corpus:
        """Of local documents ``test_fraction`` is held out, chosen by ``seed``; of a running text its end. The
        published corpora are split as everybody splits them.
        """
        if self.path is None or self.name in ("text8", "pydocs"):
            return self._published(test_fraction, seed)
        source, plain = self._files("file" if self.hub is None else "line")
        if plain:
            cut = 1 - test_fraction
            return RunningText(self.label, source.files[0], {"train": (0.0, cut), "test": (cut, 1.0)})
        if source.byte_count == 0:
            raise UserError(f"{self.path} is empty")
        split = LastDocuments() if self.name == "openwebtext" else RandomShare(test_fraction, seed)
        return split_corpus(self.label, source, split, self._detokenize)

    def evaluation(self, *, joined: bool = False) -> Corpus:
        """The same, but all of a local copy is the test part: for models that were trained on something else.
        ``joined`` to one running text.
        """
        if self.path is None or self.name == "text8":
            return self.training()
        source, plain = self._files("line")
        if plain:
            return RunningText(self.label, source.files[0], {"test": (0.0, 1.0)})
        return DocumentCorpus(self.label, {"test": source}, self._detokenize, joined)

    @property
    def _detokenize(self) -> Detokenizer:
        return unchanged if self.hub is None else self.hub.detokenize

    def _published(self, test_fraction: float, seed: int) -> Corpus:
        if self.name == "text8":
            return RunningText("text8", text8_file(self.path), {"train": (0.0, 0.9), "test": (0.95, 1.0)})
        if self.name == "pydocs":
            if self.path is not None:
                raise UserError(f"pydocs is part of Python: read {self.path} with data.corpus=files")
            return split_corpus("pydocs", PythonTopics(), RandomShare(test_fraction, seed))
        if self.hub is None:
            raise UserError("data.path is missing: which text is it?")
        return self.hub.open(self.name)

    def _files(self, default: Documents) -> tuple[TextFiles, bool]:
        """The documents of the local copy, and whether it is one running text: a single plain file of one's own."""
        assert self.path is not None
        files = text_files(self.path)
        field = TEXT_FIELD if self.hub is None else self.hub.field
        if self.hub is not None and files[0].suffix == ".csv":
            field = self.hub.csv_field
        source = TextFiles(files, self.documents or default, self.field or field)
        plain = len(files) == 1 and files[0].suffix not in ROW_SUFFIXES and source.documents == "file"
        return source, plain and self.hub is None
