"""text8: 100 MB of Wikipedia in 27 characters, a to z and the space. The first 90 % to train on, the last 5 % to test;
the 5 % in between are the usual validation set and left alone.

A shorter file in the same alphabet is split in the same proportions.
"""

import re
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vadd.data.download import data_directory, fetch_archive
from vadd.errors import UserError
from vadd.files import whole_file
from vadd.progress import Progress, silent

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
    """As text8 was made itself: lower case, digits as words, blanks for everything else."""
    words = re.sub("[0-9]", lambda digit: f" {DIGITS[int(digit[0])]} ", text.lower())
    return re.sub("[^a-z]+", " ", words)


def fetch_text8(
    directory: Path | None = None, *, progress: Progress = silent, mirrors: Sequence[str] | None = None
) -> Path:
    """The file, downloaded and unpacked unless it is there."""
    target = (data_directory(NAME) if directory is None else directory) / NAME
    if target.is_file():
        return target
    urls = [mirror + ARCHIVE for mirror in mirrors or MIRRORS]
    fetch_archive(urls, target.with_name(ARCHIVE), partial(unpack_text8, target=target), progress=progress)
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
