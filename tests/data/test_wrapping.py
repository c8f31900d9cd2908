"""Sequences to the letter, on texts small enough to do by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.tokenizers import small_tokenizer
from vadd.data.text.corpora import Piece
from vadd.data.text.store import (
    check_wrapping,
    count_sequences,
    cut_sequences,
    encode_pieces,
    needed_specials,
)
from vadd.errors import UserError
from vadd.kinds.arrays import value_type
from vadd.kinds.text.templates import Wrap
from vadd.kinds.text.tokenizers import CharacterTokenizer, Tokenizer

LETTERS = "abcdefgh"


def letters(wrap: Wrap, *, running: bool = False) -> CharacterTokenizer:
    return CharacterTokenizer(LETTERS, needed_specials(wrap, running=running))


def documents(*texts: str) -> list[Piece]:
    return [Piece(text, True, 1) for text in texts]


def wrapped(tokenizer: Tokenizer, pieces: list[Piece], wrap: Wrap, length: int, parts: int = 1) -> list[str]:
    """The sequences written out, made of the pieces in so many parts."""
    bounds = np.linspace(0, len(pieces), parts + 1).astype(int)
    encoded = [encode_pieces(tokenizer, pieces[first:last], wrap, length) for first, last in pairwise(bounds)]
    blocks = list(cut_sequences(encoded, tokenizer, wrap, length))
    assert sum(map(len, blocks)) == count_sequences(sum(part.size for part in encoded), wrap, length)
    return [tokenizer.decode(tokenizer.to_ids(row).tolist()) for block in blocks for row in block]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_packed_is_documents_in_a_row_with_eos_after_each(parts: int) -> None:
    found = wrapped(letters("packed"), documents("abc", "d", "efgh"), "packed", 4, parts)
    # a b c <eos> | d <eos> e f | g h <eos>, too short
    assert found == ["abc<eos>", "d<eos>ef"]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_wrapped_is_the_same_row_between_bos_and_eos(parts: int) -> None:
    found = wrapped(letters("wrapped"), documents("abc", "d", "efgh"), "wrapped", 4, parts)
    # a b | c <eos> | d <eos> | e f | g h | <eos>, too short
    assert found == [f"<bos>{body}<eos>" for body in ("ab", "c<eos>", "d<eos>", "ef", "gh")]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_padded_is_a_document_a_sequence_cut_or_filled_up(parts: int) -> None:
    found = wrapped(letters("padded"), documents("abc", "d", "efgha"), "padded", 5, parts)
    assert found == ["<bos>abc<eos>", "<bos>d<eos><pad><pad>", "<bos>efg<eos>"]


def test_a_running_text_has_no_eos_inside() -> None:
    pieces = [Piece("abcd", False, 1), Piece("efg", False, 1)]
    assert wrapped(letters("packed", running=True), pieces, "packed", 3) == ["abc", "def"]
    assert wrapped(letters("wrapped", running=True), pieces, "wrapped", 5) == ["<bos>abc<eos>", "<bos>def<eos>"]


@given(
    texts=st.lists(st.text(st.sampled_from(LETTERS), max_size=9), max_size=12),
    length=st.integers(3, 8),
    parts=st.integers(1, 4),
)
@properties
def test_nothing_is_lost_but_the_last_rest(texts: list[str], length: int, parts: int) -> None:
    row = "".join(f"{text}." for text in texts)
    for wrap, body in (("packed", length), ("wrapped", length - 2)):
        kind: Wrap = "packed" if wrap == "packed" else "wrapped"
        found = wrapped(letters(kind), documents(*texts), kind, length, parts)
        if kind == "wrapped":
            assert all(text.startswith("<bos>") and text.endswith("<eos>") for text in found)
            found = [text.removeprefix("<bos>").removesuffix("<eos>") for text in found]
        joined = "".join(found).replace("<eos>", ".")
        assert joined == row[: len(row) // body * body]
    padded = wrapped(letters("padded"), documents(*texts), "padded", length, parts)
    assert [text.split("<eos>")[0] for text in padded] == [f"<bos>{text[: length - 2]}" for text in texts]


def test_bert_pads_sentences_as_the_field_does() -> None:
    bert = small_tokenizer("bert")
    hello, world = bert.encode(["Hello world"])[0]
    values = encode_pieces(bert, documents("Hello world", "Hello " * 9), "padded", 6)
    assert values.dtype == np.int16
    assert bert.to_ids(values).tolist() == [[101, hello, world, 102, 0, 0], [101, *[hello] * 4, 102]]
    assert values[0].tolist() == [101, hello - 1, world - 1, 102, 0, 0]  # 103 is the mask: ids above it move down


def test_gpt2_wraps_documents_as_the_field_does() -> None:
    gpt2 = small_tokenizer("gpt2")
    (ends, (both,)), end = gpt2.encode(["the end", "if"]), 1000
    encoded = encode_pieces(gpt2, documents("the end", "if"), "wrapped", len(ends) + 4)
    assert encoded.dtype == np.int16
    assert encoded.tolist() == [*ends, end, both, end]
    (row,) = next(cut_sequences([encoded], gpt2, "wrapped", len(ends) + 4)).tolist()
    assert row == [end, *ends, end, both, end]
    with pytest.raises(UserError, match=r"the tokenizer gpt2 has no PAD, which data.wrap=padded needs"):
        check_wrapping(gpt2, "padded", 6, running=False)


@pytest.mark.parametrize(("values", "kind"), [(27, "u1"), (256, "u1"), (257, "i2"), (32768, "i2"), (50257, "i4")])
def test_tokens_take_the_least_room(values: int, kind: str) -> None:
    found = value_type(values)
    assert found == np.dtype(kind)
    assert np.iinfo(found.name).max >= values - 1


@pytest.mark.parametrize(
    ("wrap", "length", "running", "told"),
    [
        ("padded", 8, True, "a running text has no documents to pad"),
        ("packed", 8, False, "has no EOS, which data.wrap=packed needs"),
        ("wrapped", 8, True, "has no BOS, which data.wrap=wrapped needs"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(wrap: Wrap, length: int, running: bool, told: str) -> None:
    with pytest.raises(UserError, match=told):
        check_wrapping(CharacterTokenizer(LETTERS), wrap, length, running=running)
    with pytest.raises(UserError, match=r"needs a data.length above 2, not 2"):
        check_wrapping(letters("wrapped"), "wrapped", 2, running=False)
