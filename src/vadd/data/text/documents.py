"""Documents out of files: plain text, ``.jsonl`` and ``.csv``. Text is UTF-8; what is not is named by its offset.

Everything is read as a stream: memory holds one document, or one piece of a running text, at a time.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Literal

from vadd.errors import UserError
from vadd.files import reading, visible_files
from vadd.kinds.text.tokenizers import count_tokens
from vadd.parsing import TOO_DEEP
from vadd.words import check_known, shortened

Documents = Literal["file", "line", "paragraph"]

ROW_SUFFIXES = frozenset({".jsonl", ".csv"})
"""Files whose rows are documents."""
PIECE = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
LARGEST_CSV_FIELD = 1 << 30

# Between these bytes every tokenizer splits anyway, so that pieces give the same tokens as the whole.
_SAFE_CUTS = (re.compile(rb"[!-~]\n(?=[!-~])"), re.compile(rb"[!-~](?= [!-~])"), re.compile(rb"\n"))


@dataclass(frozen=True)
class TextFiles:
    """The documents of local files, in order, blank ones left out."""

    files: tuple[Path, ...]
    documents: Documents
    """What a document is in a file of plain text."""
    field: str
    """The key or the column that holds the text, in files of rows; see :func:`read_csv`."""

    @property
    def identity(self) -> dict[str, object]:
        """Changes whenever the documents may have changed."""
        stats = [(file.resolve(), file.stat()) for file in self.files]
        listed = [[str(file), stat.st_size, stat.st_mtime_ns] for file, stat in stats]
        return {"files": listed, "documents": self.documents, "field": self.field}

    @property
    def byte_count(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def count(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            yield from (document for document in self._read(file) if document.strip())

    def labels(self, field: str) -> Iterator[str]:
        """Of the documents, in the same order: what stands under the key or in the column ``field`` of their rows."""
        for file in self.files:
            if file.suffix not in ROW_SUFFIXES:
                raise UserError(f"{file} has no labels: they are read from .jsonl and .csv, one for each document")
            if file.suffix == ".csv" and _by_number(field) != _by_number(self.field):
                raise UserError(f"{file}: data.field and data.label_field are both names or both numbers")
            read = partial(read_jsonl, spelled=True) if file.suffix == ".jsonl" else read_csv
            for document, label in zip(self._read(file), read(file, field), strict=True):
                if document.strip():
                    if not label.strip():
                        raise UserError(f"{file}: the text {document!r} has an empty {field!r}")
                    yield label.strip()

    def _read(self, file: Path) -> Iterator[str]:
        if file.suffix == ".jsonl":
            return read_jsonl(file, self.field)
        if file.suffix == ".csv":
            return read_csv(file, self.field)
        if self.documents == "line":
            return (line.strip() for line in read_lines(file))
        return read_paragraphs(file) if self.documents == "paragraph" else iter(["".join(read_lines(file))])


def text_files(path: Path) -> tuple[Path, ...]:
    """``path`` itself, or the ``.txt`` files in it and below, sorted; hidden ones are left out."""
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise UserError(f"{path} is not a regular file" if path.exists() else f"there is no file {path}")
    found = visible_files(path, (".txt",))
    if not found:
        raise UserError(f"there are no .txt files in {path}")
    return tuple(found)


def read_lines(file: Path) -> Iterator[str]:
    """The lines with their ends, as one newline each."""
    offset = 0
    with reading(file), file.open("rb") as stream:
        for line in stream:
            yield _decoded(line, file, offset)
            offset += len(line)


LARGEST_LIST = 100_000_000
"""Bytes; what is longer is taken for running text without a look."""
LEAST_ITEMS = 20


def items_in(file: Path, longest: int, tokenizer: str | None = None) -> tuple[int, int] | None:
    """How many lines, and the tokens of the longest, where a plain text has one item a line: names, codes, short
    sentences. None for running text, of which paragraphs have blank lines between them, or lines go on from each other.
    """
    if file.suffix in ROW_SUFFIXES or file.stat().st_size > LARGEST_LIST:
        return None
    count = blank = spaced = going_on = length = characters = 0
    for line in read_lines(file):
        text = line.strip()
        size = count_tokens(text, tokenizer)
        if size > longest:
            return None
        count, blank = count + bool(text), blank + (not text)
        spaced, going_on = spaced + (" " in text), going_on + text[:1].islower()
        length, characters = max(length, size), characters + size
    if count < LEAST_ITEMS or blank > count // 50:
        return None
    wrapped = spaced > count / 2 and going_on > count / 3 and characters / count > 40
    return None if wrapped else (count, length)


def read_paragraphs(file: Path) -> Iterator[str]:
    """What blank lines separate."""
    for blank, lines in groupby(read_lines(file), lambda line: not line.strip()):
        if not blank:
            yield "".join(lines).strip("\n")


def read_jsonl(file: Path, field: str, *, spelled: bool = False) -> Iterator[str]:
    """The texts under the key ``field``, one object a line; with ``spelled`` integers and booleans too, as text."""
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = TOO_DEEP if isinstance(error, RecursionError) else error
            raise UserError(f"{where} is not a JSON object: {reason}") from None
        if not isinstance(row, dict) or field not in row:
            names = f"; it has {shortened(', '.join(map(repr, row)))}" if isinstance(row, dict) else ": it is no object"
            raise UserError(f"{where} has no field {field!r}{names}")
        if not isinstance(row[field], str | int if spelled else str):
            raise UserError(f"{where}: the field {field!r} is not text" + " or an integer" * spelled)
        yield encodable(str(row[field]), where)


def encodable(text: str, where: str) -> str:
    """The text, unless it has half a character in it, as JSON and Python allow."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: {text[error.start]!r} is half a character, which UTF-8 cannot write") from None
    return text


def first_fields(file: Path) -> list[str]:
    """What the first row of a ``.jsonl`` or ``.csv`` calls its fields; none where it cannot be read."""
    try:
        first = next((line for line in read_lines(file) if line.strip()), "")
        row = json.loads(first) if file.suffix == ".jsonl" else next(csv.reader([first]), [])
    except (UserError, ValueError, RecursionError, csv.Error):
        return []
    return list(row) if isinstance(row, dict | list) else []


def read_csv(file: Path, field: str) -> Iterator[str]:
    """The column that the first row calls ``field``. In a file without names it is given by its number, from 1 on;
    "2+3" joins two columns with a space.
    """
    csv.field_size_limit(LARGEST_CSV_FIELD)
    rows = csv.reader(read_lines(file), strict=True)
    try:
        if _by_number(field):
            columns = [int(part) - 1 for part in field.split("+")]
        else:
            header = next(rows, [])
            check_known(f"{file} has no column", [field], header)
            columns = [header.index(field)]
        for row in rows:
            if not row:
                continue
            if not all(0 <= column < len(row) for column in columns):
                raise UserError(f"{file}, line {rows.line_num} has {len(row)} columns; needed is {field}")
            yield " ".join(row[column] for column in columns)
    except csv.Error as error:
        raise UserError(f"{file}, line {rows.line_num} is not CSV: {error}") from None


def _by_number(field: str) -> bool:
    """Whether a column is meant by its number."""
    return all(part.isdigit() for part in field.split("+"))


def read_running(file: Path, start: int, stop: int) -> Iterator[str]:
    """The text between two byte offsets in pieces of about a megabyte. Offsets within a character mean its end."""
    with reading(file), file.open("rb") as stream:
        offset, stop = character_border(stream, start), character_border(stream, stop)
        stream.seek(offset)
        while offset < stop:
            block = stream.read(min(PIECE, stop - offset))
            if not block:
                raise UserError(f"{file} became shorter while it was read")
            block = block if offset + len(block) >= stop else block[: _cut(block)]
            yield _decoded(block, file, offset)
            offset += len(block)
            stream.seek(offset)


def character_border(stream: BinaryIO, offset: int) -> int:
    """``offset``, or the next one at which a character of UTF-8 begins."""
    stream.seek(offset)
    following = stream.read(3)
    return offset + next((n for n, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))


def _cut(block: bytes) -> int:
    """Where to end a piece: as late as possible between words, in any case between characters."""
    for pattern in _SAFE_CUTS:
        tail = max(0, len(block) - (1 << 16))
        ends = [match.end() for match in pattern.finditer(block, tail)]
        if ends:
            return ends[-1]
    end = len(block)
    while end > len(block) - 4 and block[end - 1] & 0xC0 == 0x80:
        end -= 1
    # The last byte begins a character: whole if it is ASCII, else left to the next piece.
    return end if block[end - 1] < 0x80 or end <= 1 else end - 1


def _decoded(content: bytes, file: Path, offset: int) -> str:
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        where = offset + error.start
        raise UserError(f"{file} is not text in UTF-8: byte {where} is 0x{content[error.start]:02x}") from None
    return text.removeprefix(BYTE_ORDER_MARK) if offset == 0 else text
