"""The energy distance against its definition and the false-alarm rate of its test; MAUVE against the numbers that the
package mauve-text 0.4.0 gives for the same histograms and features.

The rate of p <= 0.05 over 400 pairs of samples of one distribution is binomial: outside of 0.014 to 0.10 by chance with
probability below 1e-4.
"""

import numpy as np
import pytest

from vadd.errors import UserError
from vadd.evaluation.two_samples import energy_test, mauve, mauve_of


def test_the_distance_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(6, 2)) + 0.3

    def mean(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean([np.linalg.norm(one - other) for one in a for other in b]))

    assert energy_test(x, y).distance == pytest.approx(2 * mean(x, y) - mean(x, x) - mean(y, y))


def one_distribution(rng: np.random.Generator, seed: int) -> float:
    first, second = rng.normal(size=(2, 12, 2))
    return energy_test(first, second, permutations=99, seed=seed).p_value


def test_of_one_distribution_p_is_uniform_and_of_two_small() -> None:
    rng = np.random.default_rng(2)
    found = [one_distribution(rng, i) for i in range(400)]
    assert 0.014 < np.mean(np.array(found) <= 0.05) < 0.10
    assert 0.4 < np.mean(found) < 0.6
    shifted = rng.normal(size=(2, 40, 2)) + np.array([[[0.0, 0.0]], [[1.0, 0.0]]])
    assert energy_test(*shifted).p_value == 0.001
    same = rng.normal(size=(20, 2))
    assert energy_test(same, same).p_value == 1


RECORDED = [
    ([0.5, 0.5], [0.9, 0.1], 0.6710958126),
    ([0.2, 0.3, 0.5], [0.3, 0.3, 0.4], 0.9961500329),
    ([0.7, 0.3, 0.0], [0.2, 0.3, 0.5], 0.2193553360),
    ([1.0, 0.0], [0.0, 1.0], 0.0040720963),
]
"""Histograms, and what the package gives."""


def test_the_area_is_that_of_the_package() -> None:
    for p, q, area in RECORDED:
        assert mauve_of(np.array(p), np.array(q)) == pytest.approx(area, abs=1e-9)


FEATURES_RECORDED = {0.0: (0.942, 0.979), 0.7: (0.791, 0.913), 2.0: (0.179, 0.293)}
"""By the shift of the second sample: the least and the largest of ten seeds of the package."""


@pytest.mark.parametrize("shift", FEATURES_RECORDED)
def test_of_features_it_is_within_what_the_package_gives(shift: float) -> None:
    """Clusters are found from a random start; the mean over ten lies within the range of the package's ten."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 300, 8))
    y[:, 0] += shift
    low, high = FEATURES_RECORDED[shift]
    assert low < np.mean([mauve(x, y, seed=seed) for seed in range(10)]) < high


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (np.zeros((3, 2)), np.zeros((3, 4)), "equal length"),
        (np.zeros((1, 2)), np.zeros((3, 2)), "at least two vectors"),
        (np.full((3, 2), np.nan), np.zeros((3, 2)), "no numbers"),
    ],
)
def test_what_are_no_two_samples_is_refused(first: np.ndarray, second: np.ndarray, told: str) -> None:
    for compare in (energy_test, mauve):
        with pytest.raises(UserError, match=told):
            compare(first, second)
    with pytest.raises(UserError, match="different vectors"):
        mauve(np.ones((30, 2)), np.ones((30, 2)))
