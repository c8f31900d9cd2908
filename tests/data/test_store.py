"""Tokenise once: the same tokens whatever the number of processes and wherever the work was interrupted."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.files import write
from tests.helpers.progress import Told
from tests.helpers.texts import training_corpus
from vadd.data.text import store
from vadd.data.text.corpora import Part, Piece
from vadd.data.text.store import Request, batches, sequences
from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import ByteTokenizer, CharacterTokenizer

LINES = [f"{number} " + "abcdefghij" * (number % 7) for number in range(60)]


class PowerCutError(Exception):
    pass


class FailingTokenizer(ByteTokenizer):
    """Stops at the given call, as a power cut would."""

    calls_left = 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise PowerCutError
        return super().encode(texts)


@pytest.fixture(autouse=True)
def _own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(store, "PART_CHARACTERS", 150)


def request_for(path: Path, wrap: Wrap = "packed", part: Part = "train") -> Request:
    file = write(path / "lines.txt", "\n".join(LINES)) if not (path / "lines.txt").exists() else path / "lines.txt"
    corpus = training_corpus("files", file, documents="line", test_fraction=0.2)
    return Request(corpus, part, ByteTokenizer(("bos", "eos", "pad")), wrap, 16)


def files(request: Request) -> list[str]:
    found = (file.relative_to(request.directory) for file in request.directory.rglob("*") if file.is_file())
    return sorted(str(file) for file in found if file.name != "lock")


def by_hand(request: Request) -> Array:
    """Packed, without parts."""
    row = [value for piece in request.corpus.pieces(request.part) for value in (*piece.text.encode(), 257)]
    return np.array(row[: len(row) // 16 * 16]).reshape(-1, 16)


def test_sequences_are_made_once_and_mapped_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_for(tmp_path)
    told = Told()
    first = sequences(request, progress=told)
    assert np.array_equal(first, by_hand(request))
    assert isinstance(first, np.memmap)
    assert files(request) == ["index.json", "tokens.npy"]
    progress = [(done, total) for what, done, total in told if what.startswith("tokenising")]
    assert progress[0] == (0, 48)
    assert progress[-1] == (48, 48)
    assert len(progress) > 4

    def never(*arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(store, "_make_parts", never)
    assert np.array_equal(sequences(request), first)
    first[:] = 0  # a mapped copy: the file is left alone
    assert np.array_equal(sequences(request), by_hand(request))


@pytest.mark.parametrize("wrap", ["packed", "wrapped", "padded"])
@pytest.mark.parametrize("calls", [0, 1, 3, 6])
def test_an_interruption_changes_nothing(tmp_path: Path, wrap: Wrap, calls: int) -> None:
    whole = sequences(request_for(tmp_path, wrap)).copy()
    path = request_for(tmp_path, wrap).directory
    for file in path.iterdir():
        file.unlink()
    failing = FailingTokenizer(("bos", "eos", "pad"))
    failing.calls_left = calls
    request = replace(request_for(tmp_path, wrap), tokenizer=failing)
    assert request.directory == path
    with pytest.raises(PowerCutError):
        sequences(request)
    assert files(request) == [f"parts/{number:05d}.npy" for number in range(calls)]
    failing.calls_left = parts = len(list(batches(request.corpus.pieces("train"), 150)))
    assert parts > calls
    assert np.array_equal(sequences(request), whole)
    assert failing.calls_left == calls  # what was finished is not made again
    assert np.array_equal(sequences(request_for(tmp_path, wrap)), whole)


def test_an_interruption_while_assembling_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for(tmp_path)

    def stop(*arguments: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array_header_1_0", stop)
        with pytest.raises(PowerCutError):
            sequences(request)
    assert all(name.startswith("parts/") for name in files(request))
    assert np.array_equal(sequences(request), by_hand(request))


@pytest.mark.parametrize("damage", ["index", "tokens", "cut", "identity"])
def test_damaged_tokens_are_made_again(tmp_path: Path, damage: str) -> None:
    request = request_for(tmp_path)
    sequences(request)
    tokens, index = request.directory / "tokens.npy", request.directory / "index.json"
    if damage == "index":
        index.write_text("{")
    elif damage == "identity":
        index.write_text(json.dumps({**json.loads(index.read_text()), "identity": {}}))
    elif damage == "cut":
        tokens.write_bytes(tokens.read_bytes()[:-5])
    else:
        content = bytearray(tokens.read_bytes())
        content[-1] ^= 1
        tokens.write_bytes(content)
    assert np.array_equal(sequences(request), by_hand(request))


def test_processes_make_the_same_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_for(tmp_path)
    alone = sequences(request).copy()
    index = (request.directory / "index.json").read_bytes()
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "elsewhere"))
    assert np.array_equal(sequences(request, workers=2), alone)
    assert (request.directory / "index.json").read_bytes() == index


def test_what_the_sequences_depend_on_names_their_place(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    others = [
        replace(request, part="test"),
        replace(request, wrap="padded"),
        replace(request, length=8),
        replace(request, tokenizer=ByteTokenizer(("eos",))),
        replace(request, corpus=training_corpus("files", tmp_path / "lines.txt", documents="line", seed=5)),
    ]
    assert len({request.directory, *(other.directory for other in others)}) == 6
    before = request.directory
    write(tmp_path / "lines.txt", "another text\nof two lines\n")
    assert request.directory != before


def test_too_little_text_is_told_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "short.txt", "abc")
    request = Request(training_corpus("files", path), "train", CharacterTokenizer("abc"), "packed", 16)
    with pytest.raises(UserError) as caught:
        sequences(request)
    assert str(caught.value) == (
        "the train part of short has 3 tokens, too few for one sequence of 16; choose a smaller data.length"
    )


@given(sizes=st.lists(st.integers(0, 30), max_size=30), characters=st.integers(1, 50))
@properties
def test_batches_hold_every_piece_once_and_no_more_than_needed(sizes: list[int], characters: int) -> None:
    pieces = [Piece("x" * size, True, 1) for size in sizes]
    groups = list(batches(pieces, characters))
    assert [piece for group in groups for piece in group] == pieces
    assert all(sum(len(piece.text) for piece in group[:-1]) < characters for group in groups)
    assert all(sum(len(piece.text) for piece in group) >= characters for group in groups[:-1])
