"""Texts for tests: real English, which every Python carries as its own documentation, and a few lines."""

import re
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from vadd.data import TextData
from vadd.data.text.corpora import Corpus

TOPICS = [topics[name] for name in sorted(topics)]
"""Half a megabyte in a hundred documents, with code, tables and punctuation."""

LINES = ["the cat sat on the mat", "the dog sat on the log", "ünïcödé ☃ and the rest", "the end"]


def letters_only(text: str) -> str:
    """As text8 is: a to z and single blanks."""
    return re.sub(r"[^a-z]+", " ", text.lower())


def training_corpus(name: Any, path: Path | None = None, *, seed: int = 0, **settings: Any) -> Corpus:
    return TextData(corpus=name, path=None if path is None else str(path), **settings).training_corpus(seed)


def evaluation_corpus(name: Any, path: Path | None = None, *, documents: Any = None, joined: bool = False) -> Corpus:
    data = TextData(corpus=name, path=None if path is None else str(path), documents=documents)
    return data.evaluation_corpus(joined=joined)
