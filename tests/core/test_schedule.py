"""Schedules against formulas written down independently, finite differences and autograd."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.helpers.exact import KnownSchedule, for_each_schedule, properties
from vadd.core import LinearSchedule, PolynomialSchedule
from vadd.errors import UserError

INSIDE = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@for_each_schedule
def test_alpha_falls_from_one_to_zero(known: KnownSchedule) -> None:
    times = torch.linspace(0, 1, 1001, dtype=torch.float64)
    alpha = known.schedule.alpha(times)
    assert alpha[0] == 1
    assert alpha[-1] == 0
    assert (alpha.diff() < 0).all()
    assert_close(alpha + known.schedule.masked_fraction(times), torch.ones_like(times))


@for_each_schedule
def test_alpha_and_its_derivative_are_the_stated_formulas(known: KnownSchedule) -> None:
    assert_close(
        known.schedule.alpha(INSIDE), torch.tensor([known.alpha(t) for t in INSIDE.tolist()], dtype=torch.float64)
    )
    slopes = torch.tensor([known.slope(t) for t in INSIDE.tolist()], dtype=torch.float64)
    assert_close(known.schedule.alpha_prime(INSIDE), slopes)


@for_each_schedule
def test_alpha_prime_is_the_derivative_of_alpha(known: KnownSchedule) -> None:
    times = INSIDE.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(known.schedule.alpha(times).sum(), times)
    assert_close(known.schedule.alpha_prime(INSIDE), gradient)
    step = 1e-5
    difference = (known.schedule.alpha(INSIDE + step) - known.schedule.alpha(INSIDE - step)) / (2 * step)
    assert_close(known.schedule.alpha_prime(INSIDE), difference, rtol=1e-6, atol=1e-8)


@for_each_schedule
def test_the_weight_is_minus_alpha_prime_over_the_masked_fraction(known: KnownSchedule) -> None:
    expected = [-known.slope(t) / (1 - known.alpha(t)) for t in INSIDE.tolist()]
    assert_close(known.schedule.weight(INSIDE), torch.tensor(expected, dtype=torch.float64))


@for_each_schedule
def test_the_weight_stays_accurate_near_zero(known: KnownSchedule) -> None:
    """Every schedule here starts like a power c t^p, so t w(t) -> p; cancellation in 1 - alpha would ruin it."""
    power = known.schedule.power if isinstance(known.schedule, PolynomialSchedule) else 1.0
    times = torch.logspace(-12, -6, 7, dtype=torch.float64)
    assert_close(times * known.schedule.weight(times), torch.full_like(times, power), rtol=1e-10, atol=0)


@for_each_schedule
@given(t=st.floats(1e-6, 1))
@properties
def test_time_at_inverts_the_masked_fraction(known: KnownSchedule, t: float) -> None:
    # The cosine is flat at t = 1, where the inverse can only be as good as the square root of the rounding error.
    assert_close(known.schedule.time_at(known.schedule.masked_fraction(scalar(t))), scalar(t), rtol=1e-7, atol=0)
    assert_close(known.schedule.masked_fraction(known.schedule.time_at(scalar(t))), scalar(t), rtol=1e-12, atol=0)


@for_each_schedule
def test_time_at_maps_the_ends_to_the_ends(known: KnownSchedule) -> None:
    assert_close(known.schedule.time_at(scalar(0.0)), scalar(0.0))
    assert_close(known.schedule.time_at(scalar(1.0)), scalar(1.0))


@for_each_schedule
@given(times=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 1)).map(sorted))
@properties
def test_the_reveal_probability_is_its_formula_and_composes(known: KnownSchedule, times: list[float]) -> None:
    r, s, t = times
    reveal = known.schedule.reveal_probability
    assert_close(float(reveal(scalar(t), scalar(s))), known.reveal(t, s), rtol=1e-9, atol=1e-9)
    assert 0 <= reveal(scalar(t), scalar(s)) <= 1
    assert reveal(scalar(t), scalar(t)) == 0
    assert reveal(scalar(t), scalar(0.0)) == 1
    if s > 0.001:
        stays = (1 - reveal(scalar(t), scalar(s))) * (1 - reveal(scalar(s), scalar(r)))
        assert_close(1 - reveal(scalar(t), scalar(r)), stays, rtol=1e-9, atol=1e-12)


def test_the_linear_schedule_is_the_papers() -> None:
    assert_close(LinearSchedule().alpha(INSIDE), 1 - INSIDE)
    assert_close(LinearSchedule().weight(INSIDE), 1 / INSIDE)
    assert_close(LinearSchedule().reveal_probability(scalar(0.8), scalar(0.2)), scalar(0.6 / 0.8))
    assert LinearSchedule() == LinearSchedule(power=1.0)


@pytest.mark.parametrize("power", [0.0, -1.0, -math.inf])
def test_a_power_that_is_not_positive_is_refused(power: float) -> None:
    with pytest.raises(UserError, match=f"power must be above 0, not {power}"):
        PolynomialSchedule(power)
