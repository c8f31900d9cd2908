"""Tokenise once: sequences on disk, memory-mapped, made in parallel and in parts that survive an interruption.

tokens/book-train-0123456789abcdef/
    parts/00000.npy ...  while it is being made: the tokens of about 4 MB of text each, complete or not there
    tokens.npy           all sequences
    index.json           written last: what they were made of, and their checksum

The directory is named after everything the sequences depend on: the text, the split, the tokenizer and the wrapping.
The borders of the parts depend on the text alone, so that neither the number of processes nor an interruption changes
a single token.

From documents to sequences of N tokens:

``packed``   every document followed by EOS, all in a row, cut every N tokens (SEDD's OpenWebText, LM1B in D3PM)
``wrapped``  the same row cut every N - 2 tokens, each cut between BOS and EOS (the paper's OpenWebText)
``padded``   one document a sequence: BOS, its first N - 2 tokens, EOS, then pads that are not scored (the paper's LM1B)

A rest too short for a sequence is left out. A running text has no documents and so no EOS between them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from vadd.data.download import data_directory
from vadd.data.text.corpora import Corpus, Part, Piece
from vadd.errors import UserError
from vadd.files import checksum, whole_file, write_whole
from vadd.kinds.arrays import Array, value_type
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import Special, Tokenizer
from vadd.progress import Progress, silent

FORMAT = 1
"""Goes up when the same text would give other tokens."""
PART_CHARACTERS = 4 << 20
WORTH_PROCESSES = 64 << 20
"""Bytes of text; with less, starting processes takes longer than the work."""


@dataclass(frozen=True)
class Request:
    """Which sequences are wanted."""

    corpus: Corpus
    part: Part
    tokenizer: Tokenizer
    wrap: Wrap
    length: int

    @property
    def identity(self) -> dict[str, Any]:
        content = {
            "format": FORMAT,
            "corpus": self.corpus.identity,
            "part": self.part,
            "tokenizer": self.tokenizer.fingerprint,
            "wrap": self.wrap,
            "length": self.length,
        }
        return dict(json.loads(json.dumps(content)))

    @property
    def directory(self) -> Path:
        key = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()
        return data_directory("tokens") / f"{self.corpus.name}-{self.part}-{key[:16]}"


def sequences(request: Request, *, workers: int | None = None, progress: Progress = silent) -> Array:
    """(n, length) values on disk, mapped into memory; made first if they are not there.

    ``workers`` processes tokenise; by default one for each core where there is enough text, else none beside this one.
    """
    directory = request.directory
    directory.mkdir(parents=True, exist_ok=True)
    # Processes that train together all ask for the same sequences: one makes them, the others wait.
    with FileLock(directory / "lock"):
        made = _open(request, progress)
        if made is None:
            size = request.corpus.byte_count
            enough = 1 if size is not None and size < WORTH_PROCESSES else os.cpu_count() or 1
            _make_parts(request, enough if workers is None else workers, progress)
            _assemble(request, progress)
            made = _open(request, progress)
    assert made is not None
    return made


def _open(request: Request, progress: Progress) -> Array | None:
    """The finished sequences, unless they are missing, incomplete or damaged."""
    directory = request.directory
    try:
        index = json.loads((directory / "index.json").read_text())
        progress("checking the tokens", 0, None)
        if index["identity"] != request.identity or index["sha256"] != checksum(directory / "tokens.npy"):
            return None
        # Mapped copy-on-write: torch wants arrays it may write to, and the file stays as it is.
        mapped: Array = np.load(directory / "tokens.npy", mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return mapped


def batches(pieces: Iterable[Piece], characters: int) -> Iterator[list[Piece]]:
    """Pieces in groups of so many characters or a little more."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += len(piece.text)
        if size >= characters:
            yield group
            group, size = [], 0
    if group:
        yield group


def _make_parts(request: Request, workers: int, progress: Progress) -> None:
    from joblib import Parallel, delayed  # heavy, and no sampling needs it

    what, total, done = f"tokenising {request.corpus.name}, {request.part}", request.corpus.total(request.part), 0
    progress(what, done, total)
    parts = enumerate(batches(request.corpus.pieces(request.part), PART_CHARACTERS))
    # Only a few parts are taken at a time: the text in waiting is in memory.
    sizes = Parallel(workers, return_as="generator", pre_dispatch="2*n_jobs")(
        delayed(_make_part)(
            request.directory / "parts" / f"{number:05d}.npy", pieces, request.tokenizer, request.wrap, request.length
        )
        for number, pieces in parts
    )
    try:
        for size in sizes:
            done += size
            progress(what, done, total)
    except BrokenProcessPool:
        raise UserError("a tokenising process ended, perhaps for lack of memory; run the same command again") from None


def _make_part(target: Path, pieces: list[Piece], tokenizer: Tokenizer, wrap: Wrap, length: int) -> int:
    """Unless it is there; the size of the part."""
    if not target.exists():
        tokens = encode_pieces(tokenizer, pieces, wrap, length)
        with whole_file(target) as file:
            np.save(file, tokens, allow_pickle=False)
    return sum(piece.size for piece in pieces)


def _assemble(request: Request, progress: Progress) -> None:
    """One file from all parts, then the index; then the parts can go."""
    directory = request.directory
    files = sorted((directory / "parts").glob("[0-9]*.npy"))
    parts = [np.load(file, mmap_mode="r", allow_pickle=False) for file in files]
    tokens = sum(part.size for part in parts)
    count = count_sequences(tokens, request.wrap, request.length)
    if count == 0:
        few = f"the {request.part} part of {request.corpus.name} has {tokens} tokens"
        raise UserError(f"{few}, too few for one sequence of {request.length}; choose a smaller data.length")
    kind = value_type(request.tokenizer.vocab_size)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (count, request.length)}
    what = f"writing {request.corpus.name}, {request.part}"
    written = 0
    with whole_file(directory / "tokens.npy") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in cut_sequences(parts, request.tokenizer, request.wrap, request.length):
            file.write(block.tobytes())
            written += len(block)
            progress(what, written, count)
    index = {"identity": request.identity, "sequences": count, "sha256": checksum(directory / "tokens.npy")}
    write_whole(directory / "index.json", json.dumps(index, indent=2))
    shutil.rmtree(directory / "parts")


ENCODED_AT_ONCE = 64
"""Texts; the library's encodings take a hundred bytes for each token."""


def needed_specials(wrap: Wrap, *, running: bool) -> tuple[Special, ...]:
    """What the sequences are built with, beside the text itself."""
    needed: dict[Wrap, tuple[Special, ...]] = {"padded": ("bos", "eos", "pad"), "wrapped": ("bos", "eos")}
    return needed.get(wrap, () if running else ("eos",))


def check_wrapping(tokenizer: Tokenizer, wrap: Wrap, length: int, *, running: bool) -> None:
    if wrap == "padded" and running:
        raise UserError("a running text has no documents to pad: choose data.documents or another data.wrap")
    for special in needed_specials(wrap, running=running):
        if getattr(tokenizer.specials, special) is None:
            raise UserError(f"the tokenizer {tokenizer.name} has no {special.upper()}, which data.wrap={wrap} needs")
    if length <= 2 and wrap != "packed":
        raise UserError(f"data.wrap={wrap} needs a data.length above 2, not {length}: BOS and EOS take two")


def encode_pieces(tokenizer: Tokenizer, pieces: Sequence[Piece], wrap: Wrap, length: int) -> Array:
    """The values of these pieces: (n, length) if padded, else in one row with EOS after each document."""
    bos, eos, pad = tokenizer.specials.bos, tokenizer.specials.eos, tokenizer.specials.pad
    lines: list[list[Any]] = []
    for first in range(0, len(pieces), ENCODED_AT_ONCE):
        some = pieces[first : first + ENCODED_AT_ONCE]
        for ids, piece in zip(tokenizer.encode([piece.text for piece in some]), some, strict=True):
            if wrap == "padded":
                framed = [bos, *ids[: length - 2], eos]
                lines.append(framed + [pad] * (length - len(framed)))
            else:
                lines.append([*ids, eos] if piece.ends_document else ids)
    kind = value_type(tokenizer.vocab_size)
    if wrap == "padded":
        return tokenizer.to_values(np.array(lines, np.int64).reshape(-1, length)).astype(kind)
    joined = np.concatenate([np.zeros(0, np.int64), *(np.array(ids, np.int64) for ids in lines)])
    return tokenizer.to_values(joined).astype(kind)


def count_sequences(tokens: int, wrap: Wrap, length: int) -> int:
    """How many sequences so many tokens make; padded ones are counted in whole sequences already."""
    return tokens // (length - 2 if wrap == "wrapped" else length)


def cut_sequences(parts: Iterable[Array], tokenizer: Tokenizer, wrap: Wrap, length: int) -> Iterator[Array]:
    """Blocks of sequences (n, length) from the outputs of :func:`encode_pieces`, in order and across their borders."""
    body = length - 2 if wrap == "wrapped" else length
    rest: Array | None = None
    for part in parts:
        row = part.reshape(-1) if rest is None else np.concatenate([rest, part.reshape(-1)])
        whole = len(row) // body
        block, rest = row[: whole * body].reshape(whole, body), row[whole * body :]
        if wrap == "wrapped":
            ends = (tokenizer.special_value("bos"), tokenizer.special_value("eos"))
            block = np.pad(block, ((0, 0), (1, 1)), constant_values=((0, 0), ends))
        yield block
