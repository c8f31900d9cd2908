"""The corpora that have a name, with the conventions that go with it, and the user's own files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vadd.data.text import detokenizers
from vadd.data.text.corpora import (
    Corpus,
    DividedDocuments,
    HubRows,
    JoinedDocuments,
    LastDocuments,
    PythonTopics,
    RandomShare,
    RunningText,
    SplitDocuments,
)
from vadd.data.text.documents import ROW_SUFFIXES, Documents, TextFiles, text_files
from vadd.data.text.text8 import text8_corpus
from vadd.errors import UserError

CorpusName = Literal[
    "files", "pydocs", "text8", "lm1b", "openwebtext", "lambada", "wikitext", "ag_news", "pubmed", "arxiv"
]

DEFAULT_FIELD, LABEL_FIELD = "text", "label"
HELD_OUT_OPENWEBTEXT = 100_000


@dataclass(frozen=True)
class HubCorpus:
    """Where a corpus lies on the hub and what is done to its text. A local copy has a document a line, or rows."""

    repository: str
    detokenize: Callable[[str], str]
    config: str | None = None
    train: str | None = "train"
    test: str | None = "test"
    """The splits; without a test split the last documents of the training split are held out."""
    field: str = DEFAULT_FIELD
    csv_field: str = DEFAULT_FIELD
    """In the ``.csv`` file that the corpus is distributed as."""
    revision: str | None = None

    def source(self, split: str) -> HubRows:
        return HubRows(self.repository, self.config, split, self.field, self.revision)


def _papers(config: str) -> HubCorpus:
    # Its own branch is a program; the hub's conversion is data.
    return HubCorpus(
        "armanc/scientific_papers",
        detokenizers.scientific_papers,
        config,
        test="validation",
        field="article",
        revision="refs/convert/parquet",
    )


HUB_CORPORA = {
    "lm1b": HubCorpus("dvruette/lm1b", detokenizers.lm1b),
    "openwebtext": HubCorpus("Skylion007/openwebtext", detokenizers.unchanged, test=None),
    "lambada": HubCorpus("EleutherAI/lambada_openai", detokenizers.lambada, train=None),
    "wikitext": HubCorpus("Salesforce/wikitext", detokenizers.wikitext, "wikitext-103-raw-v1", test="validation"),
    "ag_news": HubCorpus("fancyzhx/ag_news", detokenizers.unchanged, csv_field="2+3"),
    "pubmed": _papers("pubmed"),
    "arxiv": _papers("arxiv"),
}


def open_corpus(
    name: CorpusName,
    path: Path | None = None,
    *,
    documents: Documents | None = None,
    field: str | None = None,
    test_fraction: float = 0.1,
    seed: int = 0,
) -> Corpus:
    """The corpus of this name, from ``path`` if that is given.

    Of local documents ``test_fraction`` is held out, chosen by ``seed``; of a running text its end. The published
    corpora are split as everybody splits them.
    """
    if name == "text8":
        return text8_corpus(path)
    if name == "pydocs":
        if path is not None:
            raise UserError(f"pydocs is part of Python: read {path} with data.corpus=files")
        return SplitDocuments("pydocs", PythonTopics(), RandomShare(test_fraction, seed))
    if path is None:
        if name == "files":
            raise UserError("data.path is missing: which text is it?")
        return _from_hub(name)
    files = text_files(path)
    known = HUB_CORPORA.get(name)
    held_out = LastDocuments(HELD_OUT_OPENWEBTEXT) if name == "openwebtext" else RandomShare(test_fraction, seed)
    source = _local_source(files, known, documents, field)
    label = path.resolve().stem
    if known is None and _is_plain(files) and source.documents == "file":
        return RunningText(label, files[0], {"train": (0.0, 1 - test_fraction), "test": (1 - test_fraction, 1.0)})
    if source.byte_count == 0:
        raise UserError(f"{path} is empty")
    return SplitDocuments(label, source, held_out, known.detokenize if known else detokenizers.unchanged)


def open_for_judging(
    name: CorpusName,
    path: Path | None = None,
    *,
    documents: Documents | None = None,
    field: str | None = None,
    running: bool = False,
) -> Corpus:
    """The same, but all of a local copy is the test part: for judging models that learnt from something else.

    With ``running`` the documents are joined to one running text.
    """
    if path is None or name == "text8":
        return open_corpus(name, path)
    files, known, label = text_files(path), HUB_CORPORA.get(name), path.resolve().stem
    if known is None and documents == "file" and _is_plain(files):
        return RunningText(label, files[0], {"test": (0.0, 1.0)})
    source = _local_source(files, known, documents or "line", field)
    kind = JoinedDocuments if running else DividedDocuments
    return kind(label, {"test": source}, known.detokenize if known else detokenizers.unchanged)


def _is_plain(files: tuple[Path, ...]) -> bool:
    """One file of plain text."""
    return len(files) == 1 and files[0].suffix not in ROW_SUFFIXES


def _from_hub(name: str) -> Corpus:
    known = HUB_CORPORA[name]
    if known.train is None:
        assert known.test is not None
        return DividedDocuments(name, {"test": known.source(known.test)}, known.detokenize)
    train = known.source(known.train)
    if known.test is None:
        return SplitDocuments(name, train, LastDocuments(HELD_OUT_OPENWEBTEXT), known.detokenize)
    return DividedDocuments(name, {"train": train, "test": known.source(known.test)}, known.detokenize)


def _local_source(
    files: tuple[Path, ...], known: HubCorpus | None, documents: Documents | None, field: str | None
) -> TextFiles:
    default: Documents = "file" if known is None else "line"
    rows_in = DEFAULT_FIELD if known is None else known.csv_field if files[0].suffix == ".csv" else known.field
    return TextFiles(files, documents or default, field or rows_in)
