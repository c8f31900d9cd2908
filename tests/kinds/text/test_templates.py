"""Texts with gaps: what is known where, for every kind of sequence, and which token wrote which part of a text."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.texts import LINES
from tests.helpers.tokenizers import small_tokenizer
from vadd.errors import UserError
from vadd.kinds.text.subwords import SubwordTokenizer, train_bpe
from vadd.kinds.text.templates import Template, Templates, Wrap, marked_text, pieces
from vadd.kinds.text.tokenizers import ByteTokenizer, CharacterTokenizer, Tokenizer

LETTERS = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz _.", ("bos", "eos", "pad"))
BOS, EOS, PAD = "<bos>", "<eos>", "<pad>"


@cache
def bpe() -> SubwordTokenizer:
    pytest.importorskip("tokenizers")
    return train_bpe(LINES * 5, 280, ("eos", "pad"))


def spelled(tokenizer: Tokenizer, template: Template) -> list[str]:
    """Token by token, ? where there is something to fill."""
    return ["?" if v < 0 else tokenizer.decode(tokenizer.to_ids(np.array([v])).tolist()) for v in template.values]


def letters(text: str, wrap: Wrap = "packed", positions: int = 16, gap: int | None = None) -> list[str]:
    return spelled(LETTERS, Templates(LETTERS, wrap, positions).from_text(text, gap))


def refusal(templates: Templates, text: str) -> str:
    with pytest.raises(UserError) as caught:
        templates.from_text(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_underscores_are_gaps_of_so_many_characters_and_the_rest_is_open() -> None:
    template = Templates(LETTERS, "packed", 16).from_text("a ____ of __.")
    assert "".join(spelled(LETTERS, template)) == "a ???? of ??.???"
    assert template.extent == slice(0, 13)
    assert template.prompt == "a ____ of __."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("____", "????"),
        ("__a", "??a"),
        ("a_b__", "a_b??"),
        (r"\_\_init\_\___", "__init__??"),
        (r"\____", "_???"),
    ],
)
def test_one_underscore_and_those_after_a_backslash_are_ordinary(text: str, expected: str) -> None:
    assert "".join(letters(text)) == expected.ljust(16, "?")


def test_gaps_may_be_given_a_size() -> None:
    assert "".join(letters("a____b____", gap=1)) == "a?b?".ljust(16, "?")


def test_wrapped_sequences_stand_between_bos_and_eos() -> None:
    assert letters("ab__", "wrapped", 8) == [BOS, *"ab????", EOS]


def test_a_text_is_the_whole_of_a_padded_document() -> None:
    assert letters("ab__", "padded", 8) == [BOS, "a", "b", "?", "?", EOS, PAD, PAD]
    assert letters("abcd__", "padded", 8) == [BOS, *"abcd??", EOS]


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        ("packed", [*"ab", *"???????"]),
        ("wrapped", [BOS, *"ab", *"?????", EOS]),
        ("padded", [BOS, *"ab", *"??????"]),
    ],
)
def test_a_prefix_is_gone_on_with_to_the_end(wrap: Wrap, expected: list[str]) -> None:
    assert spelled(LETTERS, Templates(LETTERS, wrap, 9).from_ends("ab")) == expected


@pytest.mark.parametrize(
    ("wrap", "length", "expected"),
    [
        ("packed", None, "ab?????cd"),
        ("packed", 6, "ab??cd???"),
        ("wrapped", None, [BOS, *"ab???cd", EOS]),
        ("wrapped", 6, [BOS, *"ab??cd", "?", EOS]),
        ("padded", None, [BOS, *"ab???cd", EOS]),
        ("padded", 5, [BOS, *"ab?cd", EOS, PAD, PAD]),
    ],
)
def test_a_suffix_is_led_to(wrap: Wrap, length: int | None, expected: Sequence[str]) -> None:
    template = Templates(LETTERS, wrap, 9).from_ends("ab", "cd", length)
    assert spelled(LETTERS, template) == list(expected)
    cut = spelled(LETTERS, template)[template.extent]
    assert (cut[:2], cut[-2:]) == (["a", "b"], ["c", "d"])


def test_subwords_have_gaps_of_three_and_the_blank_before_belongs_to_the_gap() -> None:
    tokenizer = bpe()
    template = Templates(tokenizer, "packed", 20).from_text("the ____ on the mat")
    after = [tokenizer.decode([number]) for number in tokenizer.encode([" on the mat"])[0]]
    before = [tokenizer.decode([number]) for number in tokenizer.encode(["the"])[0]]
    assert spelled(tokenizer, template) == [*before, "?", "?", "?", *after, *["?"] * (17 - len(before + after))]
    assert Templates(tokenizer, "packed", 20).from_text("the __", gap=5).extent == slice(0, len(before) + 5)


def test_bert_sees_its_own_values_and_its_frame() -> None:
    bert = small_tokenizer("bert")
    template = Templates(bert, "padded", 10).from_text("Hello ____ world")
    assert spelled(bert, template) == ["[CLS]", "hello", "?", "?", "?", "world", "[SEP]", "[PAD]", "[PAD]", "[PAD]"]
    ids = bert.to_ids(template.values[template.values >= 0])
    assert ids.tolist() == [101, *bert.encode(["hello world"])[0], 102, 0, 0, 0]


def test_a_whole_text_has_no_gap() -> None:
    template = Templates(LETTERS, "padded", 8).whole("ab__")
    assert spelled(LETTERS, template) == [BOS, *"ab__", EOS, PAD, PAD]
    assert "".join(spelled(LETTERS, Templates(LETTERS, "packed", 6).whole("ab"))) == "ab????"


def test_what_does_not_fit_is_told() -> None:
    packed = Templates(LETTERS, "packed", 8)
    assert "there is no gap in 'abc'" in refusal(packed, "abc")
    assert "'abcdef____' takes 10 tokens, too long: this model's texts have 8 tokens" in refusal(packed, "abcdef____")
    assert "texts have 6 tokens" in refusal(Templates(LETTERS, "wrapped", 8), "abcde__")
    assert "the character 'T' is not among the 29 characters" in refusal(packed, "The __")
    with pytest.raises(UserError, match="tokens, not 0"):
        packed.from_text("a__", 0)
    with pytest.raises(UserError, match="take 8 tokens, which leaves nothing to fill of 8: this model's texts have 8"):
        packed.from_ends("abcd", "efgh")
    with pytest.raises(UserError, match=r"take 4 tokens, which leaves nothing to fill of 4$"):
        packed.from_ends("ab", "cd", 4)
    with pytest.raises(UserError, match="a length of 9 tokens is too much: this model's texts have 8"):
        packed.from_ends("ab", length=9)


@given(text=st.text(max_size=40))
@properties
def test_pieces_are_as_many_as_tokens_and_joined_the_text(text: str) -> None:
    tokenizers: list[Tokenizer] = [ByteTokenizer(("eos",)), bpe(), CharacterTokenizer(text or "a")]
    for tokenizer in tokenizers:
        ids = tokenizer.encode([text])[0]
        found = pieces(tokenizer, ids)
        assert len(found) == len(ids)
        assert "".join(found) == tokenizer.decode(ids) == text


@given(ids=st.lists(st.integers(0, 279), max_size=30))
@properties
def test_pieces_of_tokens_that_make_no_sense_are_still_the_text(ids: list[int]) -> None:
    assert "".join(pieces(bpe(), ids)) == bpe().decode(ids)


def test_the_pieces_of_words_have_their_blanks_and_a_character_comes_when_it_is_whole() -> None:
    bert = small_tokenizer("bert")
    ids = bert.encode(["unbelievable, isn't it"])[0]
    assert "".join(pieces(bert, ids)) == bert.decode(ids)
    assert pieces(ByteTokenizer(), list("é!".encode())) == ["", "é", "!"]


@given(values=st.lists(st.integers(0, 31), max_size=20), seed=st.integers(0, 99))
@properties
def test_marked_parts_alternate_and_joined_are_the_documents(values: list[int], seed: int) -> None:
    marks = np.random.default_rng(seed).random(len(values)) < 0.5
    parts = marked_text(LETTERS, np.array(values, int), marks)
    assert "".join(text for text, _ in parts) == "\n\n".join(LETTERS.documents(np.array(values, int)))
    assert all(text for text, _ in parts)
    assert all(first != second for (_, first), (_, second) in pairwise(parts))


def test_what_was_filled_is_marked() -> None:
    ids = np.array(LETTERS.encode(["the cat"])[0])
    marks = np.array([0, 0, 0, 0, 1, 1, 1], bool)
    assert marked_text(LETTERS, ids, marks) == [("the ", False), ("cat", True)]
    ids[5] = LETTERS.specials.eos
    assert marked_text(LETTERS, ids, marks, padded=True) == [("the ", False), ("c", True)]
    assert marked_text(LETTERS, ids[5:], marks[5:], padded=True) == []
