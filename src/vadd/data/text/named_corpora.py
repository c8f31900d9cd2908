"""The named corpora: text8, those of the Hugging Face hub, and what is done to their text.

text8 is 100 MB of Wikipedia in 27 characters, a to z and the space. The first 90 % to train on, the last 5 % to test;
the 5 % in between are the usual validation set and left alone. A shorter file in the same alphabet is split in the same
proportions.

Corpora that were cut into words for the language models of their time are put back into ordinary writing. Perplexities
compare only between models that read the same text, so this does to each corpus what the papers on masked diffusion do
to it before they tokenise it anew. AG News they take as it is.
"""

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from vadd.data.download import data_directory, fetch
from vadd.data.text.corpora import TEXT_FIELD, Corpus, Detokenizer, LastDocuments, Part, Source
from vadd.errors import UserError, optional
from vadd.files import whole_file
from vadd.progress import Progress, silent
from vadd.words import check_known

NAME = "text8"
ARCHIVE = "text8.zip"
MIRRORS = ("http://mattmahoney.net/dc/",)
SIZE = 100_000_000
ALPHABET = b" abcdefghijklmnopqrstuvwxyz"
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def text8_file(path: Path | None = None) -> Path:
    """``path`` itself or the file in it; by default where ``vadd data text8`` puts it."""
    if path is not None:
        return path / NAME if path.is_dir() else path
    file = data_directory(NAME) / NAME
    if not file.is_file():
        raise UserError(f"text8 is not in {file.parent}; fetch it with: vadd data text8")
    return file


def letters_of_text8(text: str) -> str:
    """As text8 was made itself: lower case, digits as words, blanks for everything else, and one behind it."""
    words = re.sub("[0-9]", lambda digit: f" {DIGITS[int(digit[0])]} ", text.lower())
    return f"{re.sub('[^a-z]+', ' ', words).strip()} "


def fetch_text8(directory: Path | None = None, *, progress: Progress = silent) -> Path:
    """The file, downloaded and unpacked unless it is there."""
    target = (data_directory(NAME) if directory is None else directory) / NAME
    if not target.is_file():
        fetch(target.with_name(ARCHIVE), MIRRORS, None, progress, partial(unpack_text8, target=target))
    return target


def unpack_text8(archive: Path, target: Path) -> None:
    """Write the one file of the archive; zip's own checksum, the size and the alphabet show whether it is right."""
    try:
        with zipfile.ZipFile(archive) as opened:
            if (size := opened.getinfo(NAME).file_size) != SIZE:
                raise UserError(f"{archive} is not text8: it holds {size:,} characters, not {SIZE:,}")
            content = opened.read(NAME)
    except KeyError:
        raise UserError(f"{archive} is not text8: it holds no file {NAME}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{archive} is not a readable archive: {error}") from None
    if content.translate(None, ALPHABET):
        raise UserError(f"{archive} is not text8: it holds other characters than a to z and the space")
    with whole_file(target) as file:
        file.write(content)


def wikitext(text: str) -> str:
    """``guest @-@ starring`` -> ``guest-starring``, ``film , television`` -> ``film, television``, ``= = A = =`` ->
    ``== A ==`` and its kin.
    """
    return _in_turn("wikitext", text)


def lm1b(text: str) -> str:
    """``we 're , " he said .`` -> ``we're, " he said.`` and its kin."""
    return _in_turn("lm1b", text)


def lambada(text: str) -> str:
    """Straight quotes, and every passage begins on a new line."""
    return "\n" + re.sub("[“”]|``|''", '"', text).strip()


def scientific_papers(text: str) -> str:
    """PubMed and arXiv."""
    return lm1b(wikitext(text))


def _in_turn(name: str, text: str) -> str:
    for pattern, new in _written()["patterns"][name]:
        text = re.sub(pattern, new, text)
    return text


@cache
def _written() -> Any:
    return yaml.safe_load(resources.files("vadd").joinpath("data", "text", "corpora.yaml").read_text("utf-8"))


_STEPS: dict[str, Detokenizer] = {step.__name__: step for step in (wikitext, lm1b, lambada, scientific_papers)}


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
    steps: tuple[Detokenizer, ...] = ()
    """What puts its text back into ordinary writing."""
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
        sources: dict[Part, Source] = {part: HubRows(self, split) for part, split in splits.items() if split}
        if "test" not in sources:
            return Corpus.divided(name, sources["train"], LastDocuments(), self.steps)
        return Corpus(name, sources, self.steps)


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
        otherwise = "name a local copy with data.path"
        needed = f"{name} comes from the hub, which needs the package datasets; {otherwise}, or"
        hub = optional("datasets", needed, "text")
        try:
            rows = hub.load_dataset(name, corpus.config, split=self.split, revision=corpus.revision)
        except Exception as error:  # no network, no such set, a full disk: the library has an exception for each
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"could not fetch {name} from the hub ({reason}); or {otherwise}") from None
        check_known(f"{name} has no column", [corpus.field], rows.column_names)
        return rows

    def count(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        field = self.corpus.field
        for batch in self._rows.select_columns([field]).iter(batch_size=1000):
            yield from batch[field]


@cache
def hub_corpora() -> dict[str, HubCorpus]:
    """By name; read when they are asked for, since PyYAML takes a tenth of the time in which a model is loaded."""
    return {
        name: HubCorpus(**{**entry, "steps": tuple(_STEPS[step] for step in entry.get("steps", ()))})
        for name, entry in _written()["hub"].items()
    }
