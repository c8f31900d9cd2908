"""Pairs of positions: what a factorised sampler gets wrong although every single position is right."""

import math

import numpy as np
import pytest

from vadd.evaluation.divergence import pair_jsd, position_pairs
from vadd.kinds.arrays import Array


@pytest.fixture
def rows() -> Array:
    """1,000 examples of four positions, each a copy of the first, 0 or 1 equally often."""
    first = np.arange(1000) % 2
    return np.repeat(first[:, None], 4, axis=1)


def test_all_pairs_are_listed_once_with_the_smaller_position_first() -> None:
    assert position_pairs(4).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]


def test_of_too_many_pairs_some_are_chosen_without_repetition_always_the_same() -> None:
    chosen = position_pairs(100, most=50)
    assert chosen.shape == (50, 2)
    assert (chosen[:, 0] < chosen[:, 1]).all()
    assert len({tuple(pair) for pair in chosen.tolist()}) == 50
    assert np.array_equal(chosen, position_pairs(100, most=50))


def test_identical_examples_are_at_distance_zero_in_any_order(rows: Array) -> None:
    pairs = position_pairs(4)
    assert pair_jsd(rows, rows, 2, pairs) == 0
    assert pair_jsd(rows, rows[::-1], 2, pairs) == 0


def test_shuffled_columns_keep_every_position_and_lose_every_pair(rows: Array) -> None:
    """Independent fair bits against equal ones: half of four bins against all, 3/4 ln(4/3).

    The counts of 1,000 shuffled pairs deviate by 1.6% of a bin; 0.03 is more than five such deviations.
    """
    rng = np.random.default_rng(0)
    shuffled = np.stack([rng.permutation(column) for column in rows.T], axis=1)
    assert np.array_equal(shuffled.mean(axis=0), rows.mean(axis=0))
    found = pair_jsd(shuffled, rows, 2, position_pairs(4))
    assert found == pytest.approx(0.75 * math.log(4 / 3), abs=0.03)


def test_the_mean_is_over_the_pairs_asked_for(rows: Array) -> None:
    broken = rows.copy()
    broken[:, 3] = 1 - broken[:, 3]  # the opposite of the others: disjoint pairs
    assert pair_jsd(broken, rows, 2, np.array([[0, 1]])) == 0
    assert pair_jsd(broken, rows, 2, np.array([[0, 3]])) == pytest.approx(math.log(2))
    assert pair_jsd(broken, rows, 2, position_pairs(4)) == pytest.approx(math.log(2) / 2)
