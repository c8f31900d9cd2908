"""The three mask draws estimate one integral over t.

The identity behind the exact count (the event "k of N masked" weighs 1/k, and given it the masked fraction follows
Beta(k, N - k + 1)) is checked by quadrature on both sides, without any sampling; then the draws themselves are compared
with the integral.
"""

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from tests.helpers.exact import (
    KnownSchedule,
    RandomFunction,
    exact_count_weights,
    for_each_schedule,
    mask_integral,
    nonempty_masks,
    seeded,
    sigmas,
)
from vadd.core import ExactCount, IidTimes, MaskDraw, StratifiedTimes

EPSILON = 0.02


def exact_count_sum(known: KnownSchedule, function: RandomFunction) -> float:
    """The sum over k of 1/k times the mean over k-subsets and over t, at which Beta(k, N - k + 1) is masked."""
    masks = nonempty_masks(function.positions)
    total = 0.0
    for mask, weight in zip(masks, exact_count_weights(masks), strict=True):
        k = int(mask.sum())
        beta = stats.beta(k, function.positions - k + 1)

        def integrand(u: float, mask: Tensor = mask, density: stats.rv_continuous = beta) -> float:
            t = known.schedule.time_at(torch.tensor([u], dtype=torch.float64))
            return float(function(mask[None], t)) * float(density.pdf(u))

        total += float(weight) * integrate.quad(integrand, 0, 1, epsabs=1e-9, epsrel=1e-9, limit=200)[0]
    return total


@for_each_schedule
@pytest.mark.parametrize("positions", [1, 2, 3])
def test_each_count_carries_weight_one_over_k_under_every_schedule(known: KnownSchedule, positions: int) -> None:
    for k in range(1, positions + 1):
        weight = mask_integral(known, positions, lambda masked, t, k=k: (masked.sum(1) == k).double())  # type: ignore[misc]
        assert weight == pytest.approx(1 / k, abs=1e-7)


@for_each_schedule
@pytest.mark.parametrize("positions", [1, 2, 3])
def test_the_exact_count_sum_equals_the_time_integral(known: KnownSchedule, positions: int) -> None:
    function = RandomFunction(positions, timed=False)
    masks = nonempty_masks(positions)
    total = float((exact_count_weights(masks) * function(masks, torch.zeros(len(masks)))).sum())
    assert mask_integral(known, positions, function) == pytest.approx(total, abs=1e-7)


@for_each_schedule
@pytest.mark.parametrize("positions", [2, 3])
def test_the_exact_count_sum_equals_the_time_integral_of_a_function_of_time(
    known: KnownSchedule, positions: int
) -> None:
    function = RandomFunction(positions, timed=True)
    assert mask_integral(known, positions, function) == pytest.approx(exact_count_sum(known, function), abs=1e-6)


@for_each_schedule
@pytest.mark.parametrize("timed", [False, True], ids=["timeless", "timed"])
@pytest.mark.parametrize(
    ("draw", "start"),
    [(IidTimes(EPSILON), EPSILON), (StratifiedTimes(EPSILON), EPSILON), (ExactCount(), 0.0)],
    ids=["iid", "stratified", "exact"],
)
def test_the_weighted_mean_of_a_draw_estimates_the_integral(
    known: KnownSchedule, timed: bool, draw: MaskDraw, start: float
) -> None:
    """400 independent batches, 5 standard errors: false alarm about 6e-7 each. Draws of t leave out [0, epsilon]."""
    function, generator = RandomFunction(3, timed), seeded(11)
    means = []
    for _ in range(400):
        masking = draw(32, 3, known.schedule, generator)
        means.append((masking.weight * function(masking.masked, masking.t)).mean())
    assert sigmas(torch.stack(means), mask_integral(known, 3, function, start)) < 5


@for_each_schedule
def test_what_epsilon_cuts_off_is_small(known: KnownSchedule) -> None:
    function = RandomFunction(3, timed=True)
    largest = 2 * float(function(nonempty_masks(3), torch.zeros(7)).abs().max())
    cut = mask_integral(known, 3, function) - mask_integral(known, 3, function, start=1e-3)
    # w(t) P(something is masked) is at most -N alpha'(t): the integral up to epsilon is at most N (1 - alpha(epsilon)).
    assert abs(cut) <= 3 * (1 - known.alpha(1e-3)) * largest
