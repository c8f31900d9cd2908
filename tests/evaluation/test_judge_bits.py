"""The judge's bits per character."""

import math

import numpy as np
import pytest

from vadd.evaluation.language_models import Scores


def test_nats_are_spread_over_the_characters_of_the_texts_that_were_scored() -> None:
    scores = Scores(np.array([6.0, 0.0, 3.0]), np.array([2, 0, 1]), cut=0)
    assert scores.bits_per_character(["abcd", "", "efgh"]) == pytest.approx(9.0 / (8 * math.log(2)))


def test_how_a_text_falls_into_tokens_does_not_matter() -> None:
    few, many = (Scores(np.array([8.0]), np.array([count]), cut=0) for count in (2, 8))
    assert few.bits_per_character(["abcdefgh"]) == many.bits_per_character(["abcdefgh"])
    assert few.perplexity("corpus")[0] != many.perplexity("corpus")[0]


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        (Scores(np.array([8.0]), np.array([2]), cut=1), ["abc"]),
        (Scores(np.array([0.0]), np.array([0]), cut=0), [""]),
    ],
)
def test_there_is_none_for_texts_that_were_cut_or_empty(scores: Scores, texts: list[str]) -> None:
    assert scores.bits_per_character(texts) is None
