"""What each sampler decides: its plan, and the positions it reveals on hand-made predictions."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import LINEAR, SQUARE, TableDenoiser, for_each_schedule, properties, seeded
from tests.helpers.exact import KnownSchedule as Known
from tests.helpers.plans import model_of
from vadd.core import (
    Ancestral,
    EntropyBounded,
    FirstHitting,
    MaskedDiffusion,
    Noise,
    Ordered,
    Parallel,
    PlannedSampler,
    Sampler,
    TokenSampler,
    sample,
    step_grid,
)
from vadd.core.samplers import Order
from vadd.core.sampling import Grid, RevealPlan, on_the_grid
from vadd.errors import UserError
from vadd.recipe import SAMPLERS

PLANNED: list[PlannedSampler] = [Ancestral(), Parallel(), FirstHitting()]
ORDERS: list[Order] = ["confidence", "margin", "entropy"]


def plan_of(
    sampler: PlannedSampler, hidden: Tensor, steps: int, known: Known = LINEAR, grid: Grid = "uniform"
) -> RevealPlan:
    return sampler.plan(hidden, steps, known.schedule, grid, Noise.of(seeded(0), len(hidden)))


@pytest.mark.parametrize("sampler", PLANNED, ids=repr)
@given(rows=st.integers(1, 6), positions=st.integers(1, 6), seed=st.integers(0, 2**32), steps=st.integers(1, 6))
@properties
def test_a_plan_reveals_what_is_hidden_and_its_times_rise(
    sampler: PlannedSampler, rows: int, positions: int, seed: int, steps: int
) -> None:
    steps = {Parallel(): min(steps, positions), FirstHitting(): positions}.get(sampler, steps)
    hidden = torch.rand(rows, positions, generator=seeded(seed)) < 0.7
    plan = plan_of(sampler, hidden, steps, SQUARE)
    assert ((plan.step_of >= 1) & (plan.step_of <= steps)).equal(hidden)
    assert (plan.step_of[~hidden] == 0).all()
    assert plan.times.shape == (rows, steps + 1)
    assert (plan.times.diff(dim=1) >= 0).all()
    assert (plan.times[:, 0] == 0).all()
    # No row starts later than the time whose masked fraction is its own.
    assert (plan.times[:, -1] <= hidden.double().mean(1).sqrt() + 1e-12).all()


@pytest.mark.parametrize(
    ("hidden", "steps", "counts"),
    [(5, 1, [5]), (5, 2, [3, 2]), (5, 3, [2, 2, 1]), (5, 5, [1] * 5), (2, 4, [1, 1, 0, 0]), (0, 2, [0, 0])],
)
def test_parallel_reveals_equal_shares_rounded_up(hidden: int, steps: int, counts: list[int]) -> None:
    start = torch.tensor([[True] * hidden + [False] * (6 - hidden)]).repeat(20, 1)
    step_of = plan_of(Parallel(), start, steps).step_of
    for step, count in zip(range(steps, 0, -1), counts, strict=True):
        assert ((step_of == step).sum(1) == count).all()


@for_each_schedule
def test_the_grid_of_a_row_starts_at_the_time_of_its_masked_fraction_and_shrinks_with_it(known: Known) -> None:
    hidden = torch.tensor([[True, True, True, True], [True, False, False, True], [False, True, False, False]])
    times, left = on_the_grid(hidden, 3, known.schedule, [0.0, 0.3, 0.5, 1.0])
    assert_close(plan_of(Ancestral(), hidden, 3, known, [0.0, 0.3, 0.5, 1.0]).times, times)
    assert_close(times / times[:, -1:], torch.tensor([[0, 0.3, 0.5, 1]], dtype=torch.float64).expand(3, -1))
    for row, fraction in enumerate([1.0, 0.5, 0.25]):
        assert 1 - known.alpha(float(times[row, -1])) == pytest.approx(fraction)
        expected = [(1 - known.alpha(float(t))) / fraction for t in times[row]]
        assert left[row].tolist() == pytest.approx(expected)


class Predictions(nn.Module):
    """The same probabilities (N, V) at every state."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probabilities, dtype=torch.float64).log())
        self.positions, self.vocab_size = self.logits.shape
        self.uses_time = False

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits.expand(len(xt), -1, -1)[where]


def revealed_at(
    probabilities: list[list[float]], steps: int, sampler: Sampler, token_sampler: TokenSampler | None = None
) -> list[list[int]]:
    """The positions revealed at each step."""
    model = MaskedDiffusion(Predictions(probabilities), LINEAR.schedule)
    samples = sample(
        model, 1, steps, seeded(0), sampler=sampler, record=1, token_sampler=token_sampler or TokenSampler()
    )
    assert samples.trajectory is not None
    shown = samples.trajectory[:, 0] < model.vocab_size
    assert shown[-1].all()
    return [(now & ~before).nonzero()[:, 0].tolist() for before, now in itertools.pairwise(shown)]


LIKELIEST = TokenSampler(temperature=0)
TELLING = [[0.5, 0.5, 0.0], [0.6, 0.2, 0.2], [0.58, 0.41, 0.01]]
"""By the likeliest value 1, 2, 0; by its lead (0, 0.4, 0.17) the same; by entropy (0.69, 0.95, 0.73) 0, 2, 1."""
MARGINS = [[0.48, 0.26, 0.26], [0.5, 0.45, 0.05], [0.4, 0.3, 0.3]]
"""By the likeliest value 1, 0, 2; by its lead (0.22, 0.05, 0.1) 0, 2, 1; by entropy 1, 0, 2."""


@pytest.mark.parametrize(
    ("probabilities", "by", "order"),
    [
        (TELLING, "confidence", [1, 2, 0]),
        (TELLING, "margin", [1, 2, 0]),
        (TELLING, "entropy", [0, 2, 1]),
        (MARGINS, "confidence", [1, 0, 2]),
        (MARGINS, "margin", [0, 2, 1]),
        (MARGINS, "entropy", [1, 0, 2]),
    ],
)
def test_the_surest_positions_are_revealed_first(probabilities: list[list[float]], by: Order, order: list[int]) -> None:
    assert revealed_at(probabilities, 3, Ordered(by), LIKELIEST) == [[i] for i in order]
    assert revealed_at(probabilities, 2, Ordered(by), LIKELIEST) == [sorted(order[:2]), order[2:]]
    assert revealed_at(probabilities, 1, Ordered(by), LIKELIEST) == [[0, 1, 2]]
    assert revealed_at(probabilities, 5, Ordered(by), LIKELIEST) == [*([i] for i in order), [], []]


def test_confidence_is_that_of_the_value_drawn_not_of_the_likeliest() -> None:
    logits = torch.tensor([[0.9, 0.1], [0.6, 0.4]]).log()
    assert_close(Ordered("confidence").uncertainty(logits, torch.tensor([1, 0])).float(), torch.tensor([-0.1, -0.6]))


def test_uncertainties_by_hand_are_in_float64() -> None:
    probabilities = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.7, 0.2, 0.1]])
    drawn = torch.zeros(3, dtype=torch.int64)
    entropy = [math.log(2), 0.0, -sum(p * math.log(p) for p in (0.7, 0.2, 0.1))]
    expected = {"confidence": [-0.5, -1.0, -0.7], "margin": [0.0, -1.0, -0.5], "entropy": entropy}
    for by in ORDERS:
        found = Ordered(by).uncertainty(probabilities.log(), drawn)
        assert found.dtype == torch.float64
        assert found.tolist() == pytest.approx(expected[by], abs=1e-6)
    assert EntropyBounded().uncertainty(probabilities.log(), drawn).tolist() == pytest.approx(entropy, abs=1e-6)


@pytest.mark.parametrize("by", ORDERS)
def test_with_one_value_there_is_nothing_to_doubt_and_equals_go_from_the_left(by: Order) -> None:
    assert revealed_at([[1.0]] * 4, 2, Ordered(by)) == [[0, 1], [2, 3]]


def sure_of(entropy: float) -> list[float]:
    """Two values with the given entropy in nats, by bisection."""
    low, high = 0.0, 0.5
    for _ in range(200):
        p = (low + high) / 2
        low, high = (p, high) if -p * math.log(p) - (1 - p) * math.log(1 - p) < entropy else (low, p)
    return [p, 1 - p]


GRADED = [sure_of(0.4), sure_of(0.1), sure_of(0.3), sure_of(0.2)]
"""From the surest: 1, 3, 2, 0; the entropies of all that are surer add up to 0, 0.1, 0.3, 0.6."""


@pytest.mark.parametrize(
    ("budget", "steps", "revealed"),
    [
        (0.0, 4, [[1], [3], [2], [0]]),
        (0.0, 2, [[1], [0, 2, 3]]),
        (0.09, 4, [[1], [3], [2], [0]]),
        (0.11, 4, [[1, 3], [2], [0], []]),
        (0.29, 4, [[1, 3], [2], [0], []]),
        (0.31, 4, [[1, 2, 3], [0], [], []]),
        (0.59, 2, [[1, 2, 3], [0]]),
        (0.61, 4, [[0, 1, 2, 3], [], [], []]),
        (math.inf, 3, [[0, 1, 2, 3], [], []]),
        (0.0, 1, [[0, 1, 2, 3]]),
    ],
)
def test_as_many_are_revealed_as_the_budget_of_entropy_allows(
    budget: float, steps: int, revealed: list[list[int]]
) -> None:
    assert revealed_at(GRADED, steps, EntropyBounded(budget)) == revealed


def test_predictions_without_doubt_cost_no_budget() -> None:
    assert revealed_at([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.4, 0.6]], 4, EntropyBounded(0.0)) == [
        [0, 2, 3],
        [1],
        [],
        [],
    ]


def test_each_row_has_its_own_budget_and_its_own_share() -> None:
    """(n, N) with different numbers hidden; the uncertainties of the M hidden positions come in row-major order."""
    where = torch.tensor([[True, True, True, True], [False, True, False, True], [False, False, False, False]])
    uncertainty = torch.tensor([0.4, 0.1, 0.3, 0.2, 0.05, 0.01], dtype=torch.float64)
    half = Ordered("entropy").revealed(2, where, uncertainty)
    assert half.int().tolist() == [[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    bounded = EntropyBounded(0.11).revealed(2, where, uncertainty)
    assert bounded.int().tolist() == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_every_sampler_ends_fully_revealed(name: str, steps: int) -> None:
    steps = {"parallel": min(steps, 5), "left-to-right": min(steps, 5), "first-hitting": 5}.get(name, steps)
    model = model_of(TableDenoiser(5, 2, latent=True, timed=True), SQUARE)
    assert (sample(model, 200, steps, seeded(0), sampler=SAMPLERS[name]).tokens < 2).all()


def test_listed_times_are_the_grid() -> None:
    assert step_grid(3, [0, 0.2, 0.7, 1]).tolist() == [0, 0.2, 0.7, 1]
    assert step_grid(1, (0.0, 1.0)).dtype == torch.float64


@pytest.mark.parametrize(
    ("steps", "times"),
    [(2, [0, 1]), (2, [0.1, 0.5, 1]), (2, [0, 0.5, 0.9]), (3, [0, 0.5, 0.5, 1]), (2, [0, math.nan, 1]), (1, [])],
)
def test_listed_times_that_do_not_rise_from_zero_to_one_are_refused(steps: int, times: list[float]) -> None:
    with pytest.raises(UserError, match=f"a grid of {steps} steps is {steps + 1} times that rise from 0 to 1"):
        step_grid(steps, times)


def test_numbers_of_steps_that_make_no_sense_are_refused() -> None:
    model = model_of(TableDenoiser(3, 2), LINEAR)
    for name, sampler in SAMPLERS.items():
        with pytest.raises(UserError, match=r"not 0$"):
            sample(model, 2, 0, seeded(0), sampler=sampler)
        assert name == "first-hitting" or sample(model, 2, 1, seeded(0), sampler=sampler).evaluations == 1
    with pytest.raises(UserError, match="at most 3 steps, not 4"):
        sample(model, 2, 4, seeded(0), sampler=Parallel())
    for steps in (2, 4):
        with pytest.raises(UserError, match=f"for each position: 3 steps, not {steps}"):
            sample(model, 2, steps, seeded(0), sampler=FirstHitting())


@pytest.mark.parametrize("budget", [-0.1, math.nan])
def test_a_budget_below_zero_is_refused(budget: float) -> None:
    with pytest.raises(UserError, match=f"budget must be at least 0, not {budget}"):
        EntropyBounded(budget)


def test_an_unknown_order_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'luck'.*confidence, margin, entropy"):
        Ordered("luck")  # type: ignore[arg-type]


def test_the_samplers_that_bounds_speak_about_are_known_by_name() -> None:
    exact = {name for name, sampler in SAMPLERS.items() if sampler.exact}
    assert exact == {"ancestral", "parallel", "first-hitting", "left-to-right"}
