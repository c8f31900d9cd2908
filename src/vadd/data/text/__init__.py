"""Text as a data set: corpora, tokenizers, and sequences of tokens made once and kept on disk."""

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from vadd.data.dataset import ColumnName, DataSettings, DiscreteDataset, Labels, TestFraction
from vadd.data.download import data_directory
from vadd.data.text.corpora import LABEL_FIELD, ChosenDocuments, Corpus, CorpusName, LastDocuments, Part, RandomShare
from vadd.data.text.documents import ROW_SUFFIXES, Documents, TextFiles, text_files
from vadd.data.text.named_corpora import HubCorpus, PythonTopics, hub_corpora, letters_of_text8, text8_file
from vadd.data.text.store import Request, check_wrapping, needed_specials, sequences
from vadd.errors import UserError
from vadd.kinds import Kind, kind_of
from vadd.kinds.text.subwords import load_tokenizer, published, read_tokenizer_json, train_bpe
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import WORDS, ByteTokenizer, CharacterTokenizer, Special, Tokenizer, WordTokenizer
from vadd.progress import Progress, silent

__all__ = ["TextData"]

BPE_CHARACTERS = 100_000_000
"""A BPE learns from the first so many characters of the training part; more change little."""


class TextData(DataSettings):
    """Text in sequences of ``length`` tokens."""

    kind: Literal["text"] = "text"
    corpus: CorpusName = "files"
    """files: your own text; pydocs: the documentation that every Python carries."""
    path: str | None = None
    """A text file, .jsonl, .csv, or a folder of .txt; for a named corpus a local copy of it, else it is fetched."""
    documents: Documents | None = None
    """What a document is in plain text; by default a file, in local copies of named corpora a line. A single file as
    one document is split by position.
    """
    field: ColumnName | None = None
    """The key in .jsonl or column in .csv that holds the text; by default 'text'."""
    labels: bool = False
    """Whether the model is given the label of each document, to draw from one: with wrap: padded."""
    label_field: ColumnName = LABEL_FIELD
    """The key in .jsonl or column in .csv that holds the label."""
    tokenizer: Literal["characters", "words", "symbols", "bytes", "bpe", "gpt2", "bert", "file"] = "characters"
    """The first three and bpe are learnt from the text; symbols: what stands between blanks, chords or codes; file: any
    tokenizer.json.
    """
    tokenizer_path: str | None = None
    """Where the files of gpt2, bert or file lie; by default gpt2 and bert come from the hub."""
    vocabulary: PositiveInt = 4096
    """Entries of the bpe."""
    length: PositiveInt = 128
    wrap: Wrap = "packed"
    """packed: documents in a row, EOS after each; wrapped: the same, each sequence between BOS and EOS; padded: one
    document a sequence, filled up with pads, which are masked and seen but not scored.
    """
    test_fraction: TestFraction = 0.1
    """Of the documents; the published corpora have splits of their own."""

    @model_validator(mode="after")
    def _one_label_a_sequence(self) -> "TextData":
        if self.labels and self.wrap != "padded":
            raise ValueError("labels need data.wrap=padded: one document a sequence, and so one label")
        return self

    @property
    def _published(self) -> HubCorpus:
        """As the corpus is published; one's own files have no repository."""
        return hub_corpora().get(self.corpus, HubCorpus(""))

    def training_corpus(self, seed: int = 0) -> Corpus:
        """Of local documents ``test_fraction`` is held out, chosen by ``seed``; of a running text its end. The
        published corpora are split as everybody splits them.
        """
        split = RandomShare(self.test_fraction, seed)
        if self.corpus == "text8":
            file = text8_file(None if self.path is None else Path(self.path))
            return Corpus.of_file("text8", file, {"train": (0.0, 0.9), "test": (0.95, 1.0)})
        if self.corpus == "pydocs":
            if self.path is not None:
                raise UserError(f"pydocs is part of Python: read {self.path} with data.corpus=files")
            return Corpus.divided("pydocs", PythonTopics(), split)
        if self.path is None:
            if not self._published.repository:
                raise UserError("data.path is missing: name the text with data.path=FILE")
            return self._published.open(self.corpus)
        source, plain = self._files("line" if self._published.repository else "file")
        name = Path(self.path).resolve().stem
        if plain:
            cut = 1 - self.test_fraction
            return Corpus.of_file(name, source.files[0], {"train": (0.0, cut), "test": (cut, 1.0)})
        if source.byte_count == 0:
            raise UserError(f"{self.path} is empty")
        last = self.corpus == "openwebtext"
        return Corpus.divided(name, source, LastDocuments() if last else split, self._published.steps)

    def evaluation_corpus(self, *, joined: bool = False) -> Corpus:
        """The same, but all of a local copy is the test part: for models that were trained on something else.
        ``joined`` to one running text.
        """
        if self.path is None or self.corpus == "text8":
            return self.training_corpus()
        source, plain = self._files("line")
        name = Path(self.path).resolve().stem
        if plain:
            return Corpus.of_file(name, source.files[0], {"test": (0.0, 1.0)})
        corpus = Corpus(name, {"test": source}, self._published.steps)
        return corpus.continued() if joined else corpus

    def _files(self, default: Documents) -> tuple[TextFiles, bool]:
        """The documents of the local copy, and whether it is one running text: a single plain file of one's own."""
        files, corpus = text_files(Path(str(self.path))), self._published
        field = self.field or (corpus.csv_field if files[0].suffix == ".csv" else corpus.field)
        source = TextFiles(files, self.documents or default, field)
        plain = len(files) == 1 and files[0].suffix not in ROW_SUFFIXES and source.documents == "file"
        return source, plain and not corpus.repository

    def load(self, seed: int = 0, tokenizer: Tokenizer | None = None, progress: Progress = silent) -> DiscreteDataset:
        """With ``tokenizer``, or with the recipe's, which may learn from this text."""
        corpus = self.training_corpus(seed)
        tokenizer = tokenizer or self._make_tokenizer(corpus, progress)
        check_wrapping(tokenizer, self.wrap, self.length, running=corpus.running)
        pad = tokenizer.special_value("pad") if self.wrap == "padded" else None
        about = {"tokenizer": tokenizer, "wrap": self.wrap, "pad": pad, **self._labels(corpus)}
        train = self._sequences(corpus, "train", tokenizer, progress)
        test = self._sequences(corpus, "test", tokenizer, progress)
        return DiscreteDataset(corpus.name, tokenizer.vocab_size, (self.length,), train, test, **about)

    def example_kind(self) -> Kind:
        # For planning only: without the specials that a training may add, and a BPE may come out smaller.
        known = {"gpt2": 50_257, "bert": 30_521, "bytes": 256, "bpe": self.vocabulary}
        if self.corpus == "text8":
            known["characters"] = 27
        if self.tokenizer in known and not self.labels:
            return kind_of((self.length,), known[self.tokenizer])
        return self.load().kind

    def evaluation_text(self, tokenizer: Tokenizer, *, like_text8: bool = False, progress: Progress = silent) -> Tensor:
        """The held-out part of a corpus that a model was not trained on, (n, length), in its own tokens;
        ``like_text8`` in the 27 letters that models of text8 know. A tokenizer without EOS reads one running text.
        """
        corpus = self.evaluation_corpus(joined=tokenizer.specials.eos is None)
        corpus = corpus.continued(letters_of_text8) if like_text8 else corpus
        check_wrapping(tokenizer, self.wrap, self.length, running=corpus.running)
        return self._sequences(corpus, "test", tokenizer, progress)

    def _sequences(self, corpus: Corpus, part: Part, tokenizer: Tokenizer, progress: Progress) -> Tensor:
        request = Request(corpus, part, tokenizer, self.wrap, self.length)
        return torch.from_numpy(sequences(request, progress=progress))

    def _labels(self, corpus: Corpus) -> dict[str, Any]:
        """Of the documents of both parts, in the order of their sequences."""
        if not self.labels:
            return {}
        train = corpus.sources.get("train")
        if not isinstance(train, ChosenDocuments) or not isinstance(train.source, TextFiles):
            raise UserError(f"{corpus.name} has no labels: they are read from .jsonl and .csv, one for each document")
        labels = Labels.of(list(train.source.labels(self.label_field)), corpus.name)
        return labels.parts(train.chosen, ~train.chosen, corpus.name)

    def _make_tokenizer(self, corpus: Corpus, progress: Progress) -> Tokenizer:
        """By name: read from a file or the hub, or learnt from the corpus and kept for the next time."""
        name, specials = self.tokenizer, needed_specials(self.wrap, running=corpus.running)
        path = Path(self.tokenizer_path) if self.tokenizer_path else None
        if name == "bytes":
            return ByteTokenizer(specials)
        if name == "file":
            if path is None:
                raise UserError("data.tokenizer=file needs data.tokenizer_path, a tokenizer.json")
            return read_tokenizer_json(path)
        if name == "gpt2" or name == "bert":
            return published(name, path)
        vocabulary = self.vocabulary if name == "bpe" else None
        settings = {"name": name, "corpus": corpus.identity, "specials": specials, "vocabulary": vocabulary}
        key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        kept = data_directory("tokenizers") / f"{corpus.name}-{name}-{key[:16]}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(kept.with_name(f"{kept.name}.lock")):
            if not kept.exists():
                progress(f"learning a tokenizer from {corpus.name}", 0, None)
                self._learnt_tokenizer(corpus, specials).save(kept)
            return load_tokenizer(kept)

    def _learnt_tokenizer(self, corpus: Corpus, specials: tuple[Special, ...]) -> Tokenizer:
        if self.tokenizer == "bpe":
            return train_bpe(_beginning(corpus, BPE_CHARACTERS), self.vocabulary, specials)
        # Of both parts: a character that only the test part has must be encodable too.
        texts = (piece.text for piece in chain(corpus.pieces("train"), corpus.pieces("test")))
        if self.tokenizer in WORDS:
            return WordTokenizer(self.tokenizer, set().union(*map(WORDS[self.tokenizer].findall, texts)), specials)
        return CharacterTokenizer(set().union(*map(set, texts)), specials)


def _beginning(corpus: Corpus, characters: int) -> Iterator[str]:
    """The first so many characters of the training part, in whole pieces."""
    for piece in corpus.pieces("train"):
        if characters <= 0:
            return
        characters -= len(piece.text)
        yield piece.text
