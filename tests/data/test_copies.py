"""Noisy copies: the written-down distribution against its own samples and against closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch

from tests.helpers.exact import chi_square_p_value
from vadd.data import CopiesData, copies_distribution
from vadd.evaluation import entropy, histogram, mutual_information

SIZES = [(2, 2, 0.3), (3, 4, 0.1), (6, 4, 0.1), (4, 3, 0.0), (3, 3, 1.0)]
for_some_sizes = pytest.mark.parametrize(("positions", "values", "noise"), SIZES)


@for_some_sizes
def test_the_distribution_sums_to_one(positions: int, values: int, noise: float) -> None:
    p = copies_distribution(positions, values, noise)
    assert p.shape == (values,) * positions
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-12)


@for_some_sizes
def test_the_frequencies_of_samples_match_the_distribution(positions: int, values: int, noise: float) -> None:
    """Chi-square at level 1e-5: with other seeds one of these five fails by chance once in 20,000."""
    drawn = CopiesData(positions=positions, vocab_size=values, noise=noise).sample(50_000, seed=1)
    counts = histogram(drawn, values) * len(drawn)
    assert chi_square_p_value(counts, copies_distribution(positions, values, noise)) > 1e-5


def test_the_comparison_tells_another_noise_apart() -> None:
    drawn = CopiesData(positions=3, vocab_size=4, noise=0.1).sample(50_000, seed=1)
    counts = histogram(drawn, 4) * len(drawn)
    assert chi_square_p_value(counts, copies_distribution(3, 4, 0.12)) < 1e-12


@pytest.mark.parametrize(("positions", "values"), [(2, 2), (3, 4), (5, 3)])
def test_without_noise_all_positions_are_one_symbol(positions: int, values: int) -> None:
    p = copies_distribution(positions, values, 0.0)
    assert entropy(p) == pytest.approx(math.log(values))
    assert all(p[(symbol,) * positions] == pytest.approx(1 / values) for symbol in range(values))
    drawn = CopiesData(positions=positions, vocab_size=values, noise=0.0).sample(100, seed=0)
    assert (drawn == drawn[:, :1]).all()


@pytest.mark.parametrize(("positions", "values"), [(2, 2), (3, 4), (5, 3)])
def test_with_full_noise_positions_are_independent_and_uniform(positions: int, values: int) -> None:
    assert entropy(copies_distribution(positions, values, 1.0)) == pytest.approx(positions * math.log(values))


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.7])
def test_the_order_of_positions_and_the_names_of_values_do_not_matter(noise: float) -> None:
    p = copies_distribution(3, 4, noise)
    for order in itertools.permutations(range(3)):
        np.testing.assert_allclose(p.transpose(order), p, atol=1e-15)
    for renamed in itertools.permutations(range(4)):
        np.testing.assert_allclose(p[np.ix_(renamed, renamed, renamed)], p, atol=1e-15)


def test_every_position_alone_is_uniform_and_two_share_less_the_more_noise_there_is() -> None:
    shared = []
    for noise in (0.0, 0.2, 0.5, 1.0):
        pair = copies_distribution(3, 4, noise).sum(2)
        np.testing.assert_allclose(pair.sum(1), 1 / 4)
        shared.append(mutual_information(pair))
    assert shared[0] == pytest.approx(math.log(4))
    assert shared[-1] == pytest.approx(0, abs=1e-12)
    assert shared == sorted(shared, reverse=True)


def test_leaving_a_position_out_gives_the_distribution_of_fewer() -> None:
    np.testing.assert_allclose(copies_distribution(4, 3, 0.2).sum(3), copies_distribution(3, 3, 0.2), atol=1e-15)


def test_the_data_set_holds_fresh_test_examples_and_its_own_distribution() -> None:
    data = CopiesData(positions=3, vocab_size=4, noise=0.25, train_size=500, test_size=400).load(seed=7)
    assert (data.positions, data.vocab_size, data.shape) == (3, 4, (3,))
    assert data.train.shape == (500, 3)
    assert data.test.shape == (400, 3)
    assert data.train.dtype == data.test.dtype == torch.int64
    assert int(torch.cat([data.train, data.test]).min()) == 0
    assert int(torch.cat([data.train, data.test]).max()) == 3
    assert data.distribution is not None
    np.testing.assert_array_equal(data.distribution(), copies_distribution(3, 4, 0.25))
    assert not data.train[:400].equal(data.test)


def test_the_seed_decides_the_examples() -> None:
    first, again, other = (CopiesData(train_size=50, test_size=50).load(seed=seed) for seed in (0, 0, 1))
    assert first.train.equal(again.train)
    assert first.test.equal(again.test)
    assert not first.train.equal(other.train)
