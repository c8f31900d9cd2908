"""Categorical draws: exact in distribution, to the tails and to the last digit of the uniform number behind them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.exact import chi_square_p_value, properties, seeded
from vadd.core.sampler import draw_categorical

NEVER = -math.inf


@pytest.mark.parametrize(
    "logits",
    [
        [0.0, 0.0, 0.0],
        [1.0, -2.0, 0.5, 3.0, -1.0],
        [NEVER, 1.0, NEVER, 0.0, NEVER],
        [700.0, 701.0, 699.0],
        [-700.0, -701.0, -699.0],
    ],
    ids=str,
)
def test_draws_follow_the_softmax(logits: list[float]) -> None:
    """Chi-square at level 1e-6; a value of probability zero fails at once."""
    drawn = draw_categorical(torch.tensor(logits).repeat(20_000, 1), seeded(0))
    largest = max(logits)
    weights = torch.tensor([math.exp(logit - largest) for logit in logits], dtype=torch.float64)
    counts = drawn.bincount(minlength=len(logits))
    assert chi_square_p_value(counts.numpy(), (weights / weights.sum()).numpy()) > 1e-6


def test_each_row_is_drawn_from_its_own_distribution() -> None:
    values = 6
    drawn = draw_categorical(torch.full((values, values), NEVER).fill_diagonal_(0.0), seeded(0))
    assert drawn.tolist() == list(range(values))


def draw_at(uniform: float, logits: list[float], dtype: torch.dtype) -> int:
    """What is drawn when the uniform number behind it is the given one, in the precision asked of ``torch.rand``."""

    def rand(*size: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full(size, uniform, dtype=torch.float64).to(dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", rand)
        drawn = draw_categorical(torch.tensor([logits], dtype=dtype), seeded(0))
    assert drawn.shape == (1,)
    return int(drawn)


some_logits = st.lists(st.one_of(st.just(NEVER), st.floats(-40, 40)), min_size=1, max_size=30)
uniform_numbers = st.one_of(st.sampled_from([0.0, math.nextafter(1.0, 0.0)]), st.floats(0, 1, exclude_max=True))


@given(logits=some_logits.filter(lambda row: max(row) > NEVER), uniform=uniform_numbers)
@properties
def test_no_uniform_number_ever_draws_a_value_of_probability_zero(logits: list[float], uniform: float) -> None:
    drawn = draw_at(uniform, logits, torch.float64)
    assert 0 <= drawn < len(logits)
    assert logits[drawn] > NEVER


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tail_out_of_reach_of_float32_is_still_drawn(dtype: torch.dtype) -> None:
    """The second value, of probability 2^-35, owns the end of the unit interval; in float32 that end is 1 - 2^-24."""
    logits = [0.0, -24.25]
    assert draw_at(1 - 2**-36, logits, dtype) == 1
    assert draw_at(1 - 2**-34, logits, dtype) == 0


def test_nothing_to_draw_gives_nothing() -> None:
    assert draw_categorical(torch.zeros(0, 5), seeded(0)).shape == (0,)
