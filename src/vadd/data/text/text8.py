"""text8: 100 MB of Wikipedia in 27 characters, a to z and the space. The first 90 % to train on, the last 5 % to test;
the 5 % in between are everybody's validation set and left alone.

A shorter file in the same alphabet is split in the same proportions.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from vadd.data.download import download
from vadd.data.places import data_directory
from vadd.data.text.corpora import Corpus, Part, Piece, RunningText
from vadd.errors import UserError
from vadd.files import whole_file
from vadd.progress import Progress, silent

NAME = "text8"
ARCHIVE = "text8.zip"
MIRRORS = ("http://mattmahoney.net/dc/",)
SIZE = 100_000_000
ALPHABET = b" abcdefghijklmnopqrstuvwxyz"
CHUNK = 1 << 20
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def text8_corpus(path: Path | None = None) -> RunningText:
    """From the file ``path``, or the file ``text8`` in it; by default where ``vadd data text8`` puts it."""
    file = text8_file() if path is None else path / NAME if path.is_dir() else path
    if path is None and not file.is_file():
        raise UserError(f"text8 is not in {file.parent}; fetch it with: vadd data text8")
    return RunningText(NAME, file, {"train": (0.0, 0.9), "test": (0.95, 1.0)})


def spelled(text: str) -> str:
    """In the letters of text8, as it was made itself: lower case, digits as words, blanks for everything else."""
    words = re.sub("[0-9]", lambda digit: f" {DIGITS[int(digit[0])]} ", text.lower())
    return re.sub("[^a-z]+", " ", words)


class Spelled(Corpus):
    """Another corpus for models of text8, as one running text."""

    running = True

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.name, self.byte_count = corpus, corpus.name, corpus.byte_count

    @property
    def identity(self) -> dict[str, object]:
        return {**self.corpus.identity, "spelled": NAME}

    def pieces(self, part: Part) -> Iterator[Piece]:
        for piece in self.corpus.pieces(part):
            yield Piece(f"{spelled(piece.text).strip()} ", False, piece.size)

    def total(self, part: Part) -> int:
        return self.corpus.total(part)


def text8_file(directory: Path | None = None) -> Path:
    return (data_directory(NAME) if directory is None else directory) / NAME


def fetch_text8(
    directory: Path | None = None, *, progress: Progress = silent, mirrors: Sequence[str] | None = None
) -> Path:
    """The file, downloaded and unpacked unless it is there."""
    target = text8_file(directory)
    if target.is_file():
        return target
    archive = target.with_name(ARCHIVE)
    was_there = archive.exists()
    download([mirror + ARCHIVE for mirror in mirrors or MIRRORS], archive, progress=progress)
    try:
        unpack_text8(archive, target, progress)
    finally:
        if not was_there:
            archive.unlink()
    return target


def unpack_text8(archive: Path, target: Path, progress: Progress = silent) -> None:
    """Write the one file of the archive; zip's own checksum, the size and the alphabet tell whether it is right."""
    done = 0
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(NAME) as source, whole_file(target) as file:
            while chunk := source.read(CHUNK):
                if chunk.translate(None, ALPHABET):
                    raise UserError(f"{archive} is not text8: it holds other characters than a to z and the space")
                file.write(chunk)
                done += len(chunk)
                progress(f"unpacking {NAME}", done, SIZE)
            if done != SIZE:
                raise UserError(f"{archive} is not text8: it holds {done:,} characters, not {SIZE:,}")
    except KeyError:
        raise UserError(f"{archive} is not text8: it holds no file {NAME}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{archive} is not a readable archive: {error}") from None
