"""Text as a data set: corpora, tokenizers, and sequences of tokens made once and kept on disk."""

import hashlib
import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.data.labels import Labels
from vadd.data.places import data_directory
from vadd.data.text.corpora import Corpus, SplitDocuments
from vadd.data.text.documents import Documents, TextFiles
from vadd.data.text.known import LABEL_FIELD, CorpusName, open_corpus, open_for_judging
from vadd.data.text.store import Request, sequences
from vadd.data.text.text8 import Spelled
from vadd.data.text.wrapping import check_wrapping, needed_specials
from vadd.errors import UserError
from vadd.kinds.text import load_tokenizer
from vadd.kinds.text.subwords import published, read_tokenizer_json, train_bpe
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import ByteTokenizer, CharacterTokenizer, Special, Tokenizer
from vadd.progress import Progress, silent

__all__ = ["Tokenizer", "TokenizerName", "judging_text", "load_text", "load_tokenizer", "make_tokenizer", "pad_value"]

TokenizerName = Literal["characters", "bytes", "bpe", "gpt2", "bert", "file"]

BPE_CHARACTERS = 100_000_000
"""A BPE learns from the first so many characters of the training part; more change little."""


def load_text(
    corpus: CorpusName = "files",
    path: Path | None = None,
    *,
    documents: Documents | None = None,
    field: str | None = None,
    tokenizer: TokenizerName | Tokenizer = "characters",
    tokenizer_path: Path | None = None,
    vocabulary: int = 4096,
    length: int = 128,
    wrap: Wrap = "packed",
    labels: bool = False,
    label_field: str = LABEL_FIELD,
    test_fraction: float = 0.1,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
) -> DiscreteDataset:
    """Sequences of ``length`` tokens; with the name of a tokenizer that learns, it learns from this text.

    See :mod:`vadd.data.text.known` for the corpora, :mod:`vadd.data.text.wrapping` for how documents become sequences.
    With ``labels`` each document has one, under ``label_field`` of its row.
    """
    opened = open_corpus(corpus, path, documents=documents, field=field, test_fraction=test_fraction, seed=seed)
    if not isinstance(tokenizer, Tokenizer):
        specials = needed_specials(wrap, running=opened.running)
        tokenizer = make_tokenizer(tokenizer, opened, specials, vocabulary, tokenizer_path, progress)
    check_wrapping(tokenizer, wrap, length, running=opened.running)
    found = document_labels(opened, label_field, wrap) if labels else None
    train, test = (
        torch.from_numpy(sequences(Request(opened, part, tokenizer, wrap, length), workers=workers, progress=progress))
        for part in ("train", "test")
    )
    return DiscreteDataset(
        name=opened.name,
        vocab_size=tokenizer.vocab_size,
        shape=(length,),
        train=train,
        test=test,
        tokenizer=tokenizer,
        wrap=wrap,
        pad=pad_value(tokenizer) if wrap == "padded" else None,
        train_labels=None if found is None else found.train,
        test_labels=None if found is None else found.test,
        label_names=None if found is None else found.names,
    )


class DocumentLabels(NamedTuple):
    names: tuple[str, ...]
    train: Tensor
    test: Tensor


def document_labels(corpus: Corpus, field: str, wrap: Wrap) -> DocumentLabels:
    """The labels of the documents of both parts, in the order of their sequences."""
    if wrap != "padded":
        raise UserError("data.labels goes with data.wrap=padded: one document a sequence, and so one label")
    if not isinstance(corpus, SplitDocuments) or not isinstance(corpus.source, TextFiles):
        raise UserError(f"{corpus.name} has no labels: they are read from .jsonl and .csv files, one for each document")
    found = Labels.of(list(corpus.source.labels(field)), corpus.name)
    return DocumentLabels(found.names, *found.parts(*corpus.split(), corpus.name))


def judging_text(
    corpus: CorpusName,
    tokenizer: Tokenizer,
    path: Path | None = None,
    *,
    documents: Documents | None = None,
    field: str | None = None,
    length: int,
    wrap: Wrap,
    like_text8: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
) -> Tensor:
    """The held-out part of a corpus that a model has not learnt from, (n, length), as its own tokenizer reads it;
    ``like_text8`` in the 27 letters that models of text8 know.

    A tokenizer without EOS reads everything as one running text.
    """
    running = tokenizer.specials.eos is None
    opened = open_for_judging(corpus, path, documents=documents, field=field, running=running)
    opened = Spelled(opened) if like_text8 else opened
    check_wrapping(tokenizer, wrap, length, running=opened.running)
    return torch.from_numpy(
        sequences(Request(opened, "test", tokenizer, wrap, length), workers=workers, progress=progress)
    )


def pad_value(tokenizer: Tokenizer) -> int:
    assert tokenizer.specials.pad is not None
    return int(tokenizer.to_values(torch.tensor([tokenizer.specials.pad]).numpy())[0])


def make_tokenizer(
    name: TokenizerName,
    corpus: Corpus,
    specials: tuple[Special, ...],
    vocabulary: int = 4096,
    path: Path | None = None,
    progress: Progress = silent,
) -> Tokenizer:
    """A tokenizer by name: read from ``path`` or the hub, or learnt from the corpus and kept for the next time."""
    if name == "bytes":
        return ByteTokenizer(specials)
    if name == "file":
        if path is None:
            raise UserError("data.tokenizer=file needs data.tokenizer_path, a tokenizer.json")
        return read_tokenizer_json(path)
    if name == "gpt2" or name == "bert":
        return published(name, path)
    settings = {
        "name": name,
        "corpus": corpus.identity,
        "specials": specials,
        "vocabulary": vocabulary if name == "bpe" else None,
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    kept = data_directory("tokenizers") / f"{corpus.name}-{name}-{key[:16]}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        if not kept.exists():
            progress(f"learning a tokenizer from {corpus.name}", 0, None)
            if name == "bpe":
                learnt: Tokenizer = train_bpe(_beginning(corpus, BPE_CHARACTERS), vocabulary, specials)
            else:
                # Of both parts: a character that only the test part has must be encodable too.
                characters = (set(piece.text) for part in ("train", "test") for piece in corpus.pieces(part))
                learnt = CharacterTokenizer(set().union(*characters), specials)
            learnt.save(kept)
        return load_tokenizer(kept)


def _beginning(corpus: Corpus, characters: int) -> Iterator[str]:
    """The first so many characters of the training part, in whole pieces."""
    seen = 0

    def more(text: str) -> bool:
        nonlocal seen
        enough = seen >= characters
        seen += len(text)
        return not enough

    return takewhile(more, (piece.text for piece in corpus.pieces("train")))
