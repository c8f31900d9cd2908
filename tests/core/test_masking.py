"""The three mask draws: what every single draw must satisfy, and the laws they follow."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.testing import assert_close

from tests.helpers.exact import (
    LINEAR,
    KnownSchedule,
    chi_square_p_value,
    for_each_schedule,
    nonempty_masks,
    properties,
    seeded,
)
from vadd.core import EvenWeights, ExactCount, IidTimes, LinearSchedule, MaskDraw, MaskedBatch, StratifiedTimes
from vadd.core.masking import BatchPart
from vadd.errors import UserError

batches, positions, seeds = st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32)
DRAWS: list[MaskDraw] = [IidTimes(), StratifiedTimes(), ExactCount()]
for_each_draw = pytest.mark.parametrize("draw", DRAWS, ids=["iid", "stratified", "exact"])


@for_each_draw
@for_each_schedule
@given(batch=batches, n=positions, seed=seeds)
@properties
def test_a_draw_has_the_right_shapes_and_bounds_and_repeats(
    draw: MaskDraw, known: KnownSchedule, batch: int, n: int, seed: int
) -> None:
    masking = draw(batch, n, known.schedule, seeded(seed))
    assert masking.masked.shape == (batch, n)
    assert masking.masked.dtype == torch.bool
    assert masking.t.shape == masking.weight.shape == (batch,)
    assert ((masking.t > 0) & (masking.t <= 1)).all()
    assert (masking.weight >= 0).all()
    assert masking.weight.isfinite().all()
    again = draw(batch, n, known.schedule, seeded(seed))
    assert masking.masked.equal(again.masked)
    assert masking.t.equal(again.t)
    assert masking.weight.equal(again.weight)


@for_each_schedule
@given(batch=batches, n=positions, seed=seeds)
@properties
def test_exact_count_masks_k_positions_and_weighs_them_n_over_k(
    known: KnownSchedule, batch: int, n: int, seed: int
) -> None:
    masking = ExactCount()(batch, n, known.schedule, seeded(seed))
    count = masking.masked.sum(1)
    assert ((count >= 1) & (count <= n)).all()
    assert_close(masking.weight, n / count.float())
    assert (masking.weight <= n).all()


@given(rounds=st.integers(1, 5), n=positions, seed=seeds)
@properties
def test_exact_count_uses_every_count_equally_often_in_a_batch_of_a_multiple_of_n(
    rounds: int, n: int, seed: int
) -> None:
    count = ExactCount()(rounds * n, n, LINEAR.schedule, seeded(seed)).masked.sum(1)
    assert count.bincount(minlength=n + 1).tolist() == [0] + n * [rounds]


@given(batch=batches, n=positions, seed=seeds)
@properties
def test_exact_count_has_no_variance_when_every_masked_position_costs_the_same(batch: int, n: int, seed: int) -> None:
    masking = ExactCount()(batch, n, LINEAR.schedule, seeded(seed))
    assert_close(masking.weight * masking.masked.sum(1), torch.full((batch,), float(n)))


@pytest.mark.parametrize("draw", [StratifiedTimes(epsilon=0.0), ExactCount()], ids=["stratified", "exact"])
def test_the_largest_uniform_number_stays_inside_the_last_stratum(
    draw: MaskDraw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shift of the strata can be 1 - 2^-53, and 255 plus that rounds to 256, where t = 0 or k = N + 1."""
    largest = math.nextafter(1.0, 0.0)
    monkeypatch.setattr(torch, "rand", lambda *size, **options: torch.full(size, largest, dtype=torch.float64))
    masking = draw(256, 5, LINEAR.schedule, seeded(0))
    assert (masking.t > 0).all()
    assert masking.weight.isfinite().all()
    assert masking.weight.min() >= 1


@for_each_schedule
@given(epsilon=st.sampled_from([0.0, 1e-3, 0.3]), batch=batches, seed=seeds)
@properties
def test_stratified_times_visit_every_stratum_once(known: KnownSchedule, epsilon: float, batch: int, seed: int) -> None:
    t = StratifiedTimes(epsilon)(batch, 3, known.schedule, seeded(seed)).t.double()
    # Rounding to float32 may carry a time over a border: measure from the middle of its stratum.
    offset = (1 - t.sort(descending=True).values) / (1 - epsilon) * batch - torch.arange(batch) - 0.5
    assert (offset.abs() <= 0.5 + 1e-4).all()


@for_each_schedule
@pytest.mark.parametrize("draw_type", [IidTimes, StratifiedTimes])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.5])
def test_times_lie_beyond_epsilon_and_weigh_w_times_the_span(
    known: KnownSchedule, draw_type: type[IidTimes | StratifiedTimes], epsilon: float
) -> None:
    masking = draw_type(epsilon)(500, 3, known.schedule, seeded(0))
    assert masking.t.min() >= epsilon * (1 - 1e-6)
    times = masking.t.clamp(max=0.99)  # at 1 the cosine's weight is a rounding error
    expected = [-(1 - epsilon) * known.slope(t) / (1 - known.alpha(t)) for t in times.tolist()]
    assert_close(masking.weight[masking.t < 0.99], torch.tensor(expected)[masking.t < 0.99], rtol=1e-4, atol=1e-5)


def test_iid_times_are_uniform() -> None:
    """Kolmogorov-Smirnov at level 1e-6."""
    t = IidTimes(0.2)(20_000, 1, LINEAR.schedule, seeded(3)).t
    assert stats.kstest(t.numpy(), stats.uniform(0.2, 0.8).cdf).pvalue > 1e-6


@pytest.mark.parametrize("batch", [1, 4, 6])
def test_exact_count_draws_k_uniformly_for_each_member_of_a_batch(batch: int) -> None:
    """Strata are dealt out in random order: the first row alone must not know its stratum. Chi-square at level 1e-6."""
    generator = seeded(4)
    counts = [int(ExactCount()(batch, 4, LINEAR.schedule, generator).masked[0].sum()) for _ in range(2000)]
    observed = torch.tensor(counts).bincount(minlength=5)[1:].numpy()
    assert chi_square_p_value(observed, stats.randint(0, 4).pmf(range(4))) > 1e-6


@for_each_schedule
def test_exact_count_draws_subsets_uniformly_and_times_from_the_exact_beta(known: KnownSchedule) -> None:
    """Given k, subsets are equally likely and, for each of them, the masked fraction is Beta(k, N - k + 1).

    2 chi-square and 7 Kolmogorov-Smirnov tests at level 1e-6: false alarm below 1e-5.
    """
    n = 3
    masking = ExactCount()(30_000, n, known.schedule, seeded(5))
    count = masking.masked.sum(1)
    masks = nonempty_masks(n)
    for k in (1, 2):
        of_size = masks[masks.sum(1) == k]
        observed = (masking.masked[count == k][:, None] == of_size).all(-1).sum(0).numpy()
        assert chi_square_p_value(observed, stats.randint(0, 3).pmf(range(3))) > 1e-6
    for mask in masks:
        rows = (masking.masked == mask).all(1)
        fraction = [1 - known.alpha(t) for t in masking.t[rows].tolist()]
        k = int(mask.sum())
        assert stats.kstest(fraction, stats.beta(k, n - k + 1).cdf).pvalue > 1e-6


@pytest.mark.parametrize("draw_type", [IidTimes, StratifiedTimes])
@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 2.0])
def test_an_epsilon_outside_zero_to_one_is_refused(draw_type: type[IidTimes | StratifiedTimes], epsilon: float) -> None:
    with pytest.raises(UserError, match=f"epsilon.*{epsilon}"):
        draw_type(epsilon)


def test_even_weights_leave_the_masks_alone_and_count_all_alike() -> None:
    plain = ExactCount()(50, 7, LinearSchedule(), seeded(0))
    even = EvenWeights(ExactCount())(50, 7, LinearSchedule(), seeded(0))
    assert torch.equal(plain.masked, even.masked)
    assert torch.equal(plain.t, even.t)
    assert torch.equal(even.weight, torch.ones(50))
    assert not torch.equal(plain.weight, even.weight)
    between = EvenWeights(ExactCount(), power=0.5)(50, 7, LinearSchedule(), seeded(0))
    assert torch.equal(between.masked, plain.masked)
    torch.testing.assert_close(between.weight**2, plain.weight)


@given(batch=batches, seed=seeds, data=st.data())
@properties
def test_a_part_of_a_batch_gets_its_rows_of_the_whole_batchs_noise(batch: int, seed: int, data: st.DataObject) -> None:
    x0 = torch.zeros(batch, 3, dtype=torch.long)
    masking = ExactCount()(batch, 3, LINEAR.schedule, seeded(seed))
    whole = MaskedBatch.of(x0, masking, 5).normal(2, 4, seeded(seed))
    first, last = sorted(data.draw(st.tuples(st.integers(0, batch), st.integers(0, batch))))
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=9)))
    for rows in (slice(first, last), chosen):
        part = MaskedBatch.of(x0[rows], masking[rows], 5, BatchPart(rows, batch))
        assert part.xt.equal(MaskedBatch.of(x0, masking, 5).xt[rows])
        assert part.normal(2, 4, seeded(seed)).equal(whole[:, rows])
