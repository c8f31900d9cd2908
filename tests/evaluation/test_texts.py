"""Entropies and distinct n-grams against sums by hand, and what must hold for any texts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from vadd.evaluation.reports import TextMetrics
from vadd.evaluation.zero_shot import distinct_n, sample_entropies, text_metrics

ROWS = st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 4), min_size=n, max_size=n), min_size=1))
TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=6).map(" ".join), max_size=6)


def test_the_entropy_is_that_of_each_sample() -> None:
    rows = [np.array(row) for row in ([0, 0, 0, 0], [0, 1, 2, 3], [5, 5, 7, 7], [1, 1, 1, 2])]
    mixed = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert sample_entropies(rows) == pytest.approx([0, math.log(4), math.log(2), mixed], abs=1e-12)


@properties
@given(ROWS, st.data())
def test_the_entropy_lies_between_none_and_all_different_and_knows_no_order(
    rows: list[list[int]], data: st.DataObject
) -> None:
    found = sample_entropies([np.array(row) for row in rows])
    assert found.min() >= -1e-12
    assert found.max() <= math.log(len(rows[0])) + 1e-12
    shuffled = [data.draw(st.permutations(row)) for row in rows]
    assert sample_entropies([np.array(row) for row in shuffled]) == pytest.approx(found, abs=1e-12)


def test_distinct_n_grams_are_counted_over_all_texts_and_not_across_them() -> None:
    texts = ["a b a b", "b a\nb", ""]
    assert distinct_n(texts, 1) == 2 / 7
    assert distinct_n(texts, 2) == 2 / 5  # ab ba ab, ba ab; "b b" would go over an end
    assert distinct_n(texts, 3) == 2 / 3  # aba bab, bab
    assert distinct_n(texts, 4) == 1.0
    assert distinct_n(texts, 5) is None
    assert distinct_n([], 1) is None


@properties
@given(TEXTS, st.integers(1, 3))
def test_the_share_of_distinct_n_grams_falls_when_the_same_texts_come_again(texts: list[str], n: int) -> None:
    once, twice = distinct_n(texts, n), distinct_n(texts + texts, n)
    if once is None:
        assert twice is None
    else:
        assert 0 < once <= 1
        assert twice == pytest.approx(once / 2)


def test_the_statistics_have_a_name_each() -> None:
    found = text_metrics([np.array([0, 1])], ["a b"])
    assert found == TextMetrics(sample_entropy=math.log(2), distinct_1=1.0, distinct_2=1.0, distinct_3=None)
