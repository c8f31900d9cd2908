"""The two-dimensional distributions: exact probabilities against samples, entropies, and the data sets made of them."""

import math
from typing import get_args

import numpy as np
import pytest
import torch

from tests.helpers.exact import chi_square_p_value
from vadd.data import ToyData, toy_distribution, toy_sample
from vadd.data.synthetic import Toy, toy_points

NAMES: tuple[Toy, ...] = get_args(Toy)
for_each_toy = pytest.mark.parametrize("name", NAMES)


def entropy(probabilities: np.ndarray) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def histogram(points: np.ndarray, values: int) -> np.ndarray:
    return np.bincount(points[:, 0] * values + points[:, 1], minlength=values**2).reshape(values, values)


@for_each_toy
@pytest.mark.parametrize("values", [2, 10, 30, 100])
def test_the_probabilities_sum_to_one(name: Toy, values: int) -> None:
    probabilities = toy_distribution(name, values)
    assert probabilities.shape == (values, values)
    assert (probabilities >= 0).all()
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)


@for_each_toy
@pytest.mark.parametrize(("values", "count"), [(100, 1_000_000), (30, 200_000), (10, 200_000)])
def test_samples_follow_the_exact_probabilities(name: Toy, values: int, count: int) -> None:
    """Chi-square over the bins that expect 5 or more, the rest pooled, at level 1e-6.

    The angles of scikit-learn's circles are evenly spaced rather than drawn, so their counts vary less than a
    multinomial: the test is conservative there.
    """
    counts = histogram(toy_sample(name, count, seed=0, vocab_size=values), values)
    assert chi_square_p_value(counts, toy_distribution(name, values)) > 1e-6


@for_each_toy
def test_the_comparison_is_sharp_enough_to_notice_swapped_axes_and_a_shift_by_one_bin(name: Toy) -> None:
    counts = histogram(toy_sample(name, 200_000, seed=0), 100)
    smoothed = 0.99 * toy_distribution(name) + 0.01 / 100**2  # no bin is impossible after the shift
    assert chi_square_p_value(np.roll(counts, 1, axis=0), smoothed) < 1e-12
    if name == "swissroll":  # the other two are symmetric
        assert chi_square_p_value(counts.T, smoothed) < 1e-12


@pytest.mark.parametrize(
    ("name", "nats", "tolerance"),
    [("checkerboard", math.log(5000), 1e-12), ("swissroll", 7.081, 0.02), ("circles", 7.405, 0.02)],
)
def test_the_entropy_is_the_known_one(name: Toy, nats: float, tolerance: float) -> None:
    assert entropy(toy_distribution(name)) == pytest.approx(nats, abs=tolerance)


def test_the_checkerboard_is_uniform_on_half_of_sixteen_cells() -> None:
    cells = toy_distribution("checkerboard").reshape(4, 25, 4, 25)
    for row in range(4):
        for column in range(4):
            assert cells[row, :, column] == pytest.approx(1 / 5000 if (row + column) % 2 == 0 else 0.0, abs=1e-15)


@pytest.mark.parametrize("coarse", [10, 20, 50])
@pytest.mark.parametrize("name", NAMES)
def test_coarse_bins_are_sums_of_fine_ones(name: Toy, coarse: int) -> None:
    factor = 100 // coarse
    summed = toy_distribution(name).reshape(coarse, factor, coarse, factor).sum((1, 3))
    assert toy_distribution(name, coarse) == pytest.approx(summed, abs=1e-12)


@for_each_toy
def test_only_points_beyond_four_deviations_fall_outside_the_grid(name: Toy) -> None:
    """The outermost bins hold everything beyond them too: next to nothing for the noisy curves."""
    probabilities = toy_distribution(name)
    border = probabilities[[0, -1]].sum() + probabilities[:, [0, -1]].sum()
    assert border == pytest.approx(0.04, abs=1e-3) if name == "checkerboard" else border < 1e-3
    assert np.isfinite(toy_points(name, 1000, seed=0)).all()


@for_each_toy
@pytest.mark.parametrize("values", [10, 30, 100])
def test_a_data_set_holds_integers_of_the_right_range_and_its_distribution(name: Toy, values: int) -> None:
    data = ToyData(name=name, vocab_size=values, train_size=500, test_size=100).load()
    assert (data.name, data.vocab_size, data.shape, data.positions) == (name, values, (2,), 2)
    assert data.train.shape == (500, 2)
    assert data.test.shape == (100, 2)
    for part in (data.train, data.test):
        assert part.dtype == torch.int64
        assert part.min() >= 0
        assert part.max() < values
    assert data.distribution is not None
    assert data.distribution() is toy_distribution(name, values)


@for_each_toy
def test_the_seed_decides_the_data(name: Toy) -> None:
    first, again, other = (ToyData(name=name, train_size=300, test_size=300).load(seed=seed) for seed in (4, 4, 5))
    assert first.train.equal(again.train)
    assert first.test.equal(again.test)
    assert not first.train.equal(other.train)
    assert not first.test.equal(other.test)


@for_each_toy
def test_train_and_test_are_different_draws(name: Toy) -> None:
    data = ToyData(name=name, train_size=300, test_size=300).load()
    assert not data.train.equal(data.test)
    assert {tuple(row) for row in data.train.tolist()} != {tuple(row) for row in data.test.tolist()}
