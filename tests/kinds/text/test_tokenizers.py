"""Tokenizers: published ids, round trips, the mask's place, and what a run refuses."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.texts import LINES
from tests.helpers.tokenizers import official_tokenizer, small_tokenizer
from vadd.errors import UserError
from vadd.files import from_hub
from vadd.kinds.text.subwords import SubwordTokenizer, load_tokenizer, published, read_tokenizer_json, train_bpe
from vadd.kinds.text.tokenizers import (
    WORDS,
    ByteTokenizer,
    CharacterTokenizer,
    Specials,
    Tokenizer,
    WordTokenizer,
    count_tokens,
    refuse_other,
)


@pytest.fixture(scope="module")
def gpt2() -> SubwordTokenizer:
    return small_tokenizer("gpt2")


@pytest.fixture(scope="module")
def bert() -> SubwordTokenizer:
    return small_tokenizer("bert")


@pytest.fixture(scope="module")
def bpe() -> SubwordTokenizer:
    pytest.importorskip("tokenizers")
    return train_bpe(LINES * 5, 280, ("eos", "pad"))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_gpt2_has_its_published_ids() -> None:
    gpt2 = official_tokenizer("gpt2")
    assert gpt2.encode(["Hello world", ""]) == [[15496, 995], []]
    assert gpt2.decode([15496, 995]) == "Hello world"
    assert (gpt2.size, gpt2.vocab_size) == (50_257, 50_257)
    assert gpt2.specials == Specials(bos=50256, eos=50256)
    assert gpt2.decode([50256]) == "<|endoftext|>"


def test_bert_has_its_published_ids() -> None:
    bert = official_tokenizer("bert")
    ids = bert.encode(["Hello world"])[0]
    assert ids == [7592, 2088]
    assert bert.decode(ids) == "hello world"
    assert (bert.size, bert.vocab_size) == (30_522, 30_521)
    assert bert.specials == Specials(bos=101, eos=102, pad=0, mask=103)


def test_files_of_the_published_layout_are_read(gpt2: SubwordTokenizer, bert: SubwordTokenizer) -> None:
    """The end of a text is GPT-2's last entry; BERT's specials are where they are published."""
    assert (gpt2.size, gpt2.vocab_size, gpt2.specials) == (1001, 1001, Specials(bos=1000, eos=1000))
    assert gpt2.decode([1000]) == "<|endoftext|>"
    assert bert.specials == Specials(bos=101, eos=102, pad=0, mask=103)
    assert bert.vocab_size == bert.size - 1
    ids = bert.encode(["Hello world"])[0]
    assert bert.decode(ids) == "hello world"


def test_the_names_of_specials_in_a_text_are_text(
    gpt2: SubwordTokenizer, bert: SubwordTokenizer, bpe: SubwordTokenizer
) -> None:
    """A corpus that mentions [MASK] must not put masks into x0, nor <|endoftext|> end a document."""
    for tokenizer, text in [(gpt2, "a<|endoftext|>b"), (bert, "a [MASK] [SEP] [PAD] b"), (bpe, "a<eos><pad>b")]:
        again: Tokenizer = pickle.loads(pickle.dumps(tokenizer))
        ids = tokenizer.encode([text])[0]
        specials = {value for value in vars(tokenizer.specials).values() if value is not None}
        assert not specials & set(ids)
        assert again.encode([text])[0] == ids


@given(text=st.text(max_size=60))
@properties
def test_bytes_come_back(text: str) -> None:
    tokenizer = ByteTokenizer(("eos",))
    ids = tokenizer.encode([text])[0]
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([*ids, 256]) == text + "<eos>"


@given(text=st.text(max_size=60))
@properties
def test_bpe_and_gpt2_lose_nothing(gpt2: SubwordTokenizer, bpe: SubwordTokenizer, text: str) -> None:
    for tokenizer in (gpt2, bpe):
        ids = tokenizer.encode([text])[0]
        assert tokenizer.decode(ids) == text
        assert all(0 <= number < tokenizer.vocab_size for number in ids)


@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=4))
@properties
def test_characters_come_back(texts: list[str]) -> None:
    tokenizer = CharacterTokenizer("".join(texts), ("bos", "eos"))
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(texts)] == texts
    assert tokenizer.size == len(set("".join(texts))) + 2
    assert all(0 <= number < tokenizer.size - 2 for ids in tokenizer.encode(texts) for number in ids)


def test_characters_are_numbered_by_code_point_and_specials_follow() -> None:
    tokenizer = CharacterTokenizer("cab a", ("bos", "eos", "pad"))
    assert tokenizer.encode(["abc "]) == [[1, 2, 3, 0]]
    assert tokenizer.specials == Specials(bos=4, eos=5, pad=6)
    assert tokenizer.decode([4, 3, 1, 2, 5, 6, 6]) == "<bos>cab<eos><pad><pad>"


@pytest.mark.parametrize("unknown", ["x", "\0", "é", "\U0010ffff"])
def test_a_character_outside_the_alphabet_is_named(unknown: str) -> None:
    told = refusal(lambda: CharacterTokenizer("abcdefy").encode(["ab" + unknown]))
    assert f"the character {unknown!r} is not among the 7 characters" in told


def test_a_bpe_has_the_size_asked_for_and_learns_the_same_again(bpe: SubwordTokenizer) -> None:
    for again in (train_bpe(LINES * 5, 280, ("eos", "pad")), pickle.loads(pickle.dumps(bpe))):
        assert again.fingerprint == bpe.fingerprint
    assert bpe.size == 280
    assert bpe.specials == Specials(eos=278, pad=279)
    assert len(bpe.encode(["the cat sat on the mat"])[0]) < len("the cat sat on the mat")
    assert train_bpe(["ab"], 4096).size == 257  # there is only one pair to merge
    assert "at least 258 entries, not 100" in refusal(lambda: train_bpe(LINES, 100, ("eos", "pad")))


def test_berts_mask_becomes_the_last_value_and_nothing_else_is_lost(bert: SubwordTokenizer) -> None:
    ids = np.arange(bert.size)
    values = bert.to_values(ids)
    assert sorted(values) == list(ids)
    assert values[103] == bert.vocab_size == bert.size - 1
    assert np.array_equal(values[:103], ids[:103])
    assert np.array_equal(values[104:], ids[103:-1])
    assert np.array_equal(bert.to_ids(values), ids)
    framed = np.array([101, *bert.encode(["Hello world"])[0], 102, 0, 0])
    assert bert.documents(bert.to_values(framed)) == ["hello world"]


def test_without_a_mask_of_its_own_ids_are_values(gpt2: SubwordTokenizer) -> None:
    ids = np.arange(gpt2.size)
    assert np.array_equal(gpt2.to_values(ids), ids)
    assert np.array_equal(gpt2.to_ids(ids), ids)


def test_samples_are_cut_into_documents() -> None:
    tokenizer = CharacterTokenizer("ab", ("bos", "eos", "pad"))
    bos, eos, pad = 2, 3, 4
    assert tokenizer.documents(np.array([bos, 0, 1, eos, eos, 1, 1, bos, eos, 0, pad])) == ["ab", "bb", "a"]
    assert CharacterTokenizer("ab").documents(np.array([1, 0])) == ["ba"]
    zero_is_eos = CharacterTokenizer("", ("eos",))
    assert zero_is_eos.documents(np.array([0, 0])) == []


def made(name: str) -> Tokenizer:
    if name == "bytes":
        return ByteTokenizer(("eos",))
    if name == "characters":
        return CharacterTokenizer("aé ☃", ("bos", "eos", "pad"))
    pytest.importorskip("tokenizers")
    return train_bpe(LINES, 270, ("eos",))


@pytest.mark.parametrize("name", ["characters", "bytes", "bpe"])
def test_a_saved_tokenizer_comes_back_and_a_damaged_one_is_refused(tmp_path: Path, name: str) -> None:
    tokenizer = made(name)
    tokenizer.save(tmp_path / "kept")
    again = load_tokenizer(tmp_path / "kept")
    assert (again.name, again.size, again.specials) == (tokenizer.name, tokenizer.size, tokenizer.specials)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode(["a é ☃"]) == tokenizer.encode(["a é ☃"])
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    about = json.loads((tmp_path / "kept" / "about.json").read_text())
    (tmp_path / "kept" / "about.json").write_text(json.dumps({**about, "sha256": "0" * 64}))
    assert "does not fit its checksum" in refusal(lambda: load_tokenizer(tmp_path / "kept"))
    (tmp_path / "kept" / "about.json").write_text("{")
    assert "is damaged" in refusal(lambda: load_tokenizer(tmp_path / "kept"))


def test_bert_survives_saving_and_serves_as_a_tokenizer_json(tmp_path: Path, bert: SubwordTokenizer) -> None:
    bert.save(tmp_path / "bert")
    assert load_tokenizer(tmp_path / "bert").fingerprint == bert.fingerprint
    for other in (published("bert", tmp_path / "bert"), published("bert", tmp_path / "bert" / "tokenizer.json")):
        assert other.fingerprint == bert.fingerprint
    unnamed = read_tokenizer_json(tmp_path / "bert" / "tokenizer.json")
    assert (unnamed.specials, unnamed.vocab_size) == (bert.specials, bert.vocab_size)
    assert unnamed.encode(["Hello [MASK]"]) == bert.encode(["Hello [MASK]"])


def test_another_tokenizer_is_told_from_the_same() -> None:
    first = CharacterTokenizer("abc", ("eos",))
    refuse_other(first, CharacterTokenizer("cab", ("eos",)), "runs/x")
    for other in (CharacterTokenizer("abd", ("eos",)), CharacterTokenizer("abc"), ByteTokenizer(("eos",))):
        told = refusal(lambda other=other: refuse_other(first, other, "runs/x"))  # type: ignore[misc]
        assert told.startswith("runs/x was trained with another tokenizer (characters, 4 entries")


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_folder_without_the_files_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    assert "cannot read the tokenizer" in refusal(lambda: published(name, tmp_path))  # type: ignore[arg-type]
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "is not a tokenizer" in refusal(lambda: published(name, tmp_path))  # type: ignore[arg-type]
    assert "cannot read the tokenizer" in refusal(lambda: read_tokenizer_json(tmp_path / "none.json"))
    (tmp_path / "encoder.json").write_text("[]")
    (tmp_path / "vocab.bpe").write_text("")
    assert "does not hold the tokenizer gpt2" in refusal(lambda: published("gpt2", tmp_path))


def test_without_the_package_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "pip install 'vadd[text]'" in refusal(lambda: train_bpe(LINES, 300))
    assert "pip install 'vadd[text]'" in refusal(lambda: published("gpt2", Path("x")))


def test_offline_the_hub_is_named_and_local_files_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    import huggingface_hub

    def unreachable(*arguments: object) -> str:
        raise OSError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    monkeypatch.setattr("vadd.files.hub_answers", lambda: True)
    told = refusal(lambda: published("gpt2"))
    assert "openai-community/gpt2" in told
    assert "no route to host" in told
    assert "data.tokenizer_path" in told


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client would try six times, in half a minute, before it looks at what it has kept."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked = []

    def kept(repository: str, file: str, **options: object) -> str:
        asked.append(options)
        if repository != "kept/here":
            raise OSError("Cannot find the requested files in the disk cache")
        return f"cache/{file}"

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", kept)
    assert "gpt2 from the hub (it does not answer)" in refusal(lambda: published("gpt2"))
    assert from_hub("kept/here", "config.json") == Path("cache/config.json")
    assert asked == 2 * [{"local_files_only": True}]


@given(text=st.text(st.sampled_from("ab é.,!\n\t'0_"), max_size=60))
@properties
def test_words_come_back_as_they_were_and_symbols_with_single_blanks(text: str) -> None:
    for name, expected in (("words", text), ("symbols", " ".join(text.split()))):
        tokenizer = WordTokenizer(name, WORDS[name].findall(text), ["bos", "eos"])
        ids = tokenizer.encode([text])[0]
        assert tokenizer.decode(ids) == expected
        assert count_tokens(text, name) == len(ids)


def test_a_tokenizer_of_words_is_kept_and_names_what_it_does_not_know(tmp_path: Path) -> None:
    tokenizer = WordTokenizer("symbols", ["C", "Am", "F"], ["eos"])
    tokenizer.save(tmp_path / "kept")
    kept = load_tokenizer(tmp_path / "kept")
    assert kept.encode(["F  C Am"]) == tokenizer.encode(["F C Am"]) == [[2, 1, 0]]
    with pytest.raises(UserError, match="'G7' is not among the 3 symbols of this tokenizer"):
        kept.encode(["F G7"])


def test_more_words_than_a_model_can_write_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadd.kinds.text.tokenizers.MOST_WORDS", 2)
    with pytest.raises(UserError, match="more than 2 different words"):
        WordTokenizer("words", ["a", "b", "c"])
