"""Draws of values: exact in distribution, to the tails and to the last digit of the uniform number behind them, and
what temperature, top-k, top-p and float32 make of them.

Chi-square tests are at level 1e-6, with fixed seeds; there are fewer than 20.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.helpers.exact import chi_square_p_value, properties, seeded
from vadd.core import TokenSampler, sampling
from vadd.core.sampling import DrawPrecision
from vadd.errors import UserError

NEVER = -math.inf
LEVEL = 1e-6
DRAWS = 20_000
PRECISIONS: list[DrawPrecision] = ["float64", "float32"]
for_each_precision = pytest.mark.parametrize("precision", PRECISIONS)


def softmax(logits: list[float], temperature: float = 1.0) -> Tensor:
    """Written down by hand."""
    weights = [math.exp((logit - max(logits)) / temperature) for logit in logits]
    return torch.tensor([weight / sum(weights) for weight in weights], dtype=torch.float64)


def uniforms_for(draw: TokenSampler, logits: Tensor, seed: int = 0) -> Tensor:
    shape = logits.shape if draw.precision == "float32" else logits.shape[:1]
    return torch.rand(shape, generator=seeded(seed), dtype=torch.float64)


def counts_of(draw: TokenSampler, logits: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    rows = torch.tensor(logits, dtype=dtype).repeat(DRAWS, 1)
    return draw(rows, uniforms_for(draw, rows)).bincount(minlength=len(logits))


def p_value(draw: TokenSampler, logits: list[float], probabilities: Tensor) -> float:
    return chi_square_p_value(counts_of(draw, logits).numpy(), probabilities.numpy())


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
@for_each_precision
def test_draws_follow_the_softmax(logits: list[float], precision: DrawPrecision) -> None:
    """A value of probability zero fails at once. In float32 only the tails are wrong, and here there are none."""
    assert p_value(TokenSampler(precision=precision), logits, softmax(logits)) > LEVEL


@for_each_precision
def test_each_row_is_drawn_from_its_own_distribution(precision: DrawPrecision) -> None:
    draw, logits = TokenSampler(precision=precision), torch.full((6, 6), NEVER).fill_diagonal_(0.0)
    assert draw(logits, uniforms_for(draw, logits)).tolist() == list(range(6))


def draw_at(uniform: float, logits: list[float], dtype: torch.dtype = torch.float64) -> int:
    drawn = TokenSampler()(torch.tensor([logits], dtype=dtype), torch.tensor([uniform], dtype=torch.float64))
    assert drawn.shape == (1,)
    assert drawn.dtype == torch.int64
    return int(drawn)


some_logits = st.lists(st.one_of(st.just(NEVER), st.floats(-40, 40)), min_size=1, max_size=30)
uniform_numbers = st.one_of(st.sampled_from([0.0, math.nextafter(1.0, 0.0)]), st.floats(0, 1, exclude_max=True))


@given(logits=some_logits.filter(lambda row: max(row) > NEVER), uniform=uniform_numbers)
@properties
def test_no_uniform_number_ever_draws_a_value_of_probability_zero(logits: list[float], uniform: float) -> None:
    drawn = draw_at(uniform, logits)
    assert 0 <= drawn < len(logits)
    assert logits[drawn] > NEVER


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tail_out_of_reach_of_float32_is_still_drawn(dtype: torch.dtype) -> None:
    """The second value, of probability 2^-35, owns the end of the unit interval; in float32 that end is 1 - 2^-24."""
    logits = [0.0, -24.25]
    assert draw_at(1 - 2**-36, logits, dtype) == 1
    assert draw_at(1 - 2**-34, logits, dtype) == 0


def test_the_float32_draw_never_reaches_that_tail() -> None:
    """Uniform numbers in single precision end at 1 - 2^-24, their Gumbel numbers at 16.64 and -3.14: what lies 20 nats
    below the first is not drawn. No number near 1 is taken for infinite.
    """
    draw, last = TokenSampler(precision="float32"), [1 - 2**-24, math.nextafter(1.0, 0.0)]
    for uniform in last:
        extremes = torch.tensor([[0.0, uniform]], dtype=torch.float64)
        assert draw(torch.tensor([[0.0, -20.0]]), extremes).tolist() == [0]
        assert draw(torch.tensor([[0.0, -19.5]]), extremes).tolist() == [1]


@for_each_precision
@pytest.mark.parametrize("shape", [(0, 5), (0, 1)])
def test_nothing_to_draw_gives_nothing(shape: tuple[int, int], precision: DrawPrecision) -> None:
    draw, logits = TokenSampler(precision=precision), torch.zeros(shape)
    drawn = draw(logits, uniforms_for(draw, logits))
    assert drawn.shape == (0,)
    assert drawn.dtype == torch.int64


FIVE = [1.0, -2.0, 0.5, 3.0, -1.0]
"""From the likeliest to the least: 3, 0, 2, 4, 1."""


@for_each_precision
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_a_temperature_divides_the_logits(temperature: float, precision: DrawPrecision) -> None:
    draw = TokenSampler(temperature=temperature, precision=precision)
    assert p_value(draw, FIVE, softmax(FIVE, temperature)) > LEVEL
    assert p_value(draw, FIVE, softmax(FIVE)) < 1e-12


@for_each_precision
@pytest.mark.parametrize("temperature", [0.0, 1e-320, 1e-100, 1e-37, 1e-6])
def test_towards_temperature_zero_only_the_likeliest_is_drawn(temperature: float, precision: DrawPrecision) -> None:
    logits = 5 * torch.randn(2000, 7, generator=seeded(1))
    draw = TokenSampler(temperature=temperature, precision=precision, top_k=3, top_p=0.9)
    sure = logits.topk(2).values.diff().abs()[:, 0] > 1e-3  # others may still differ at 1e-6
    assert draw(logits, uniforms_for(draw, logits))[sure].equal(logits.argmax(1)[sure])


def restricted_to(kept: list[int]) -> Tensor:
    probabilities = softmax(FIVE)
    only = torch.zeros_like(probabilities)
    only[kept] = probabilities[kept]
    return only / only.sum()


@for_each_precision
@pytest.mark.parametrize(("top_k", "kept"), [(1, [3]), (2, [3, 0]), (4, [3, 0, 2, 4]), (5, range(5)), (99, range(5))])
def test_top_k_keeps_the_k_likeliest(top_k: int, kept: list[int], precision: DrawPrecision) -> None:
    counts = counts_of(TokenSampler(top_k=top_k, precision=precision), FIVE)
    assert counts.nonzero()[:, 0].tolist() == sorted(kept)
    if len(kept) > 1:
        assert chi_square_p_value(counts.numpy(), restricted_to(list(kept)).numpy()) > LEVEL


@for_each_precision
@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1e-9, [3]),
        (0.80, [3]),
        (0.81, [3, 0]),
        (0.91, [3, 0]),
        (0.95, [3, 0, 2]),
        (0.99, [3, 0, 2, 4]),
        (1.0, range(5)),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(top_p: float, kept: list[int], precision: DrawPrecision) -> None:
    """From the largest, the probabilities add up to 0.805, 0.914, 0.980, 0.995 and 1."""
    counts = counts_of(TokenSampler(top_p=top_p, precision=precision), FIVE)
    assert counts.nonzero()[:, 0].tolist() == sorted(kept)
    if len(kept) > 1:
        assert chi_square_p_value(counts.numpy(), restricted_to(list(kept)).numpy()) > LEVEL


def test_probabilities_that_reach_p_exactly_are_enough() -> None:
    quarters = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64).log().repeat(DRAWS, 1)
    drawn = TokenSampler(top_p=0.5)(quarters, uniforms_for(TokenSampler(), quarters))
    assert set(drawn.tolist()) == {1}


def test_top_p_looks_at_what_temperature_and_top_k_leave() -> None:
    """At temperature 3 the two likeliest hold 0.66 and 0.34 of each other, and both are needed for 0.7."""
    draw = TokenSampler(temperature=3.0, top_k=2, top_p=0.7)
    expected = softmax(FIVE, 3.0) * torch.tensor([1, 0, 0, 1, 0])
    assert p_value(draw, FIVE, expected / expected.sum()) > LEVEL
    assert counts_of(TokenSampler(temperature=3.0, top_k=2, top_p=0.6), FIVE).nonzero().tolist() == [[3]]


@for_each_precision
@given(rows=st.integers(1, 12), size=st.integers(1, 6), elements=st.integers(1, 40))
@properties
def test_drawing_part_by_part_changes_nothing(precision: DrawPrecision, rows: int, size: int, elements: int) -> None:
    draw = TokenSampler(temperature=0.8, top_p=0.95, precision=precision)
    logits = torch.randn(rows, size, generator=seeded(rows))
    uniforms = uniforms_for(draw, logits)
    whole = draw(logits, uniforms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "ELEMENTS_AT_ONCE", elements)
        assert draw(logits, uniforms).equal(whole)


def test_the_logits_are_left_as_they_were() -> None:
    logits = torch.randn(50, 4, generator=seeded(0), dtype=torch.float64)
    before = logits.clone()
    for draw in (TokenSampler(), TokenSampler(top_k=2, top_p=0.5, temperature=0.3), TokenSampler(precision="float32")):
        draw(logits, uniforms_for(draw, logits))
        assert logits.equal(before)


@pytest.mark.parametrize(
    ("draw", "exact"),
    [
        (TokenSampler(), True),
        (TokenSampler(top_p=1.0), True),
        (TokenSampler(temperature=0.9), False),
        (TokenSampler(top_k=50), False),
        (TokenSampler(top_p=0.9), False),
        (TokenSampler(precision="float32"), False),
    ],
    ids=repr,
)
def test_only_the_denoisers_own_distribution_is_exact(draw: TokenSampler, exact: bool) -> None:
    assert draw.exact is exact


@pytest.mark.parametrize("temperature", [-0.1, math.inf, math.nan])
def test_a_temperature_that_is_negative_or_no_number_is_refused(temperature: float) -> None:
    with pytest.raises(UserError, match=rf"temperature (must be at least 0|takes a finite number), not {temperature}"):
        TokenSampler(temperature=temperature)


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_top_k_that_keeps_nothing_is_refused(top_k: int) -> None:
    with pytest.raises(UserError, match=f"top_k must be at least 1, not {top_k}"):
        TokenSampler(top_k=top_k)


@pytest.mark.parametrize("top_p", [0.0, -0.5, 1.01, math.nan])
def test_a_top_p_that_is_no_share_is_refused(top_p: float) -> None:
    with pytest.raises(UserError, match=rf"top_p must be (above 0|at most 1), not {top_p}"):
        TokenSampler(top_p=top_p)


def test_an_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'float16'.*float64, float32"):
        TokenSampler(precision="float16")  # type: ignore[arg-type]
