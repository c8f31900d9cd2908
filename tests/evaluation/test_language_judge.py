"""Generative perplexity against sums done by hand, for any batching, by both conventions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from tests.helpers.judges import BOS, CONTEXT, VALUES, WORDS, nats_by_hand, tiny_network, tiny_tokenizer
from vadd.errors import UserError
from vadd.evaluation.language_models import LanguageJudge, Scores
from vadd.evaluation.text_features import LanguageModel

TEXTS = ["the cat sat on the mat .", "a dog", "", "zebra and <s> log", "cat", "on on on on on on on on on on"]


def judge(bos: bool = True, **settings: Any) -> LanguageJudge:
    return LanguageJudge(LanguageModel("tiny", tiny_network(), tiny_tokenizer(bos)), **settings)


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "data"))


def ids_of(text: str) -> list[int]:
    """The name of the BOS in a text is an unknown word."""
    return [WORDS.index(word) if word in WORDS else 0 for word in text.split()]


def test_after_the_bos_every_token_is_scored() -> None:
    found = judge().score(TEXTS)
    expected = [nats_by_hand(tiny_network(), [BOS, *ids_of(text)]) for text in TEXTS]
    assert found.nats == pytest.approx(expected, abs=1e-4)  # float32 against float64
    assert found.tokens.tolist() == [7, 2, 0, 4, 1, 10]
    assert (found.empty, found.cut) == (1, 0)
    assert judge().about().first_token == "scored, after the judge's BOS <s>"


def test_without_a_bos_the_first_token_is_context_only() -> None:
    found = judge(bos=False).score(TEXTS)
    expected = [nats_by_hand(tiny_network(), ids_of(text)) for text in TEXTS]
    assert found.nats == pytest.approx(expected, abs=1e-4)
    assert found.tokens.tolist() == [6, 1, 0, 3, 0, 9]
    assert found.empty == 2
    assert "context only" in judge(bos=False).about().first_token


def test_both_conventions_are_what_they_say() -> None:
    found = judge().score(TEXTS)
    pairs = [(nats_by_hand(tiny_network(), [BOS, *ids_of(text)]), len(text.split())) for text in TEXTS if text]
    corpus, each = math.exp(sum(n for n, _ in pairs) / sum(t for _, t in pairs)), [math.exp(n / t) for n, t in pairs]
    assert found.perplexity("corpus")[0] == pytest.approx(corpus, rel=1e-5)
    assert found.perplexity("sedd")[0] == pytest.approx(sum(each) / len(each), rel=1e-5)
    assert found.perplexity("sedd")[1] == pytest.approx(np.std(each, ddof=1) / math.sqrt(len(each)), rel=1e-4)


@pytest.mark.parametrize("tokens_at_once", [1, 11, 25, 1000])
def test_how_texts_are_batched_and_padded_does_not_matter(tokens_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = judge(logit_bytes=4 * VALUES * tokens_at_once)
    seen: list[tuple[int, int]] = []
    inner = reader.network.forward

    def watched(input_ids: Any, **rest: Any) -> Any:
        seen.append(tuple(input_ids.shape))
        return inner(input_ids=input_ids, **rest)

    monkeypatch.setattr(reader.network, "forward", watched)
    found = reader.score(TEXTS)
    assert found.nats == pytest.approx([nats_by_hand(tiny_network(), [BOS, *ids_of(text)]) for text in TEXTS], abs=1e-4)
    assert all(rows == 1 or rows * length <= tokens_at_once for rows, length in seen)
    assert sum(rows for rows, _ in seen) == 5, "the empty text is not read"


@properties
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6), st.data()
)
def test_the_order_of_texts_does_not_matter(texts: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    reader = judge(logit_bytes=4 * VALUES * 12)
    first, second = reader.score(texts), reader.score([texts[place] for place in order])
    assert second.nats == pytest.approx(first.nats[list(order)], abs=1e-4)
    assert first.perplexity("corpus")[0] == pytest.approx(second.perplexity("corpus")[0], rel=1e-5)


def test_long_texts_are_cut_and_counted() -> None:
    long = " ".join(["the cat sat on a dog"] * 10)
    within_context = judge().score([long, "the cat"])
    assert within_context.cut == 1
    assert within_context.tokens.tolist() == [CONTEXT - 1, 2], "the BOS is one of the tokens that the judge sees"
    expected = nats_by_hand(tiny_network(), [BOS, *ids_of(long)][:CONTEXT])
    assert within_context.nats[0] == pytest.approx(expected, abs=1e-3)
    shorter = judge(max_length=5)
    assert shorter.about().max_length == 5
    assert shorter.score([long, "the cat"]).tokens.tolist() == [4, 2]


def test_scores_are_kept_and_another_judge_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = judge()
    found = first.score(TEXTS)
    again = judge()
    monkeypatch.setattr(again.network, "forward", lambda **_: pytest.fail("what was read already was read again"))
    assert np.array_equal(again.score(TEXTS).nats, found.nats)
    other = LanguageJudge(LanguageModel("tiny", tiny_network(seed=1), tiny_tokenizer()))
    assert other.identity != first.identity
    assert not np.allclose(other.score(TEXTS).nats, found.nats)


def test_damaged_scores_are_made_again(tmp_path: Path) -> None:
    found = judge().score(TEXTS)
    (kept,) = (tmp_path / "data" / "judges" / "scores").iterdir()
    kept.write_bytes(kept.read_bytes()[:20])
    assert np.array_equal(judge().score(TEXTS).nats, found.nats)


@properties
@given(st.lists(st.tuples(st.floats(0.1, 9), st.integers(1, 30)), min_size=2, max_size=20))
def test_the_conventions_agree_where_they_must(drawn: list[tuple[float, int]]) -> None:
    means, tokens = np.array([mean for mean, _ in drawn]), np.array([count for _, count in drawn])
    equal = Scores(means * 5, np.full(len(drawn), 5), cut=0)
    corpus, sedd = equal.perplexity("corpus")[0], equal.perplexity("sedd")[0]
    assert corpus is not None
    assert sedd is not None
    assert corpus <= sedd * (1 + 1e-9), "Jensen's inequality, for texts of equal length"
    same = Scores(2.0 * tokens, tokens, cut=0)
    for convention in ("corpus", "sedd"):
        value, error = same.perplexity(convention)
        assert value == pytest.approx(math.exp(2))
        assert error == pytest.approx(0, abs=1e-5)


def test_the_standard_error_is_the_spread_over_repetitions() -> None:
    """2,000 sets of 50 texts: the spread of their perplexities is known to 1.6 %, the tolerance is six times that."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(5, 40, (2000, 50))
    nats = tokens * generator.normal(3, 0.3, (2000, 50))
    for convention in ("corpus", "sedd"):
        found = [Scores(n, t, cut=0).perplexity(convention) for n, t in zip(nats, tokens, strict=True)]
        spread = np.std([value for value, _ in found if value is not None])
        assert np.mean([error for _, error in found if error is not None]) == pytest.approx(spread, rel=0.1)


def test_what_cannot_be_a_number_is_none() -> None:
    nothing = Scores(np.zeros(3), np.zeros(3, int), cut=0)
    assert nothing.perplexity("corpus") == nothing.perplexity("sedd") == (None, None)
    beyond = Scores(np.array([5000.0, 1.0]), np.array([2, 1]), cut=0)
    assert beyond.perplexity("corpus") == beyond.perplexity("sedd") == (None, None)
    single = Scores(np.array([6.0]), np.array([3]), cut=0)
    for value, error in (single.perplexity("corpus"), single.perplexity("sedd")):
        assert value == pytest.approx(math.exp(2))
        assert error is None, "one text has no spread"


def test_what_a_number_means_is_told_with_it() -> None:
    about = judge(convention="sedd").about()
    assert about.name == "tiny"
    assert about.convention.startswith("sedd: the mean")


@pytest.mark.parametrize(
    ("settings", "told"), [({"convention": "mean"}, "corpus or sedd"), ({"max_length": 1}, "2 tokens")]
)
def test_impossible_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        judge(**settings)
