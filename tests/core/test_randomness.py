"""Randomness as a function of (seed, step): the order of the examples and the generators of every purpose."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.helpers.exact import properties
from vadd.core.host import ShuffledBatches, step_generator
from vadd.errors import UserError
from vadd.parallel import padded_share, share

sizes = st.integers(min_value=1, max_value=40)
batch_sizes = st.integers(min_value=1, max_value=90)
seeds = st.integers(min_value=0, max_value=2**31)


@properties
@given(examples=sizes, batch=batch_sizes, seed=seeds, epochs=st.integers(min_value=1, max_value=4))
def test_every_example_comes_exactly_once_in_every_epoch(examples: int, batch: int, seed: int, epochs: int) -> None:
    batches = ShuffledBatches(examples, batch, seed)
    needed = -(-epochs * examples // batch)
    line = torch.cat([batches[step] for step in range(needed)])
    assert len(line) == needed * batch
    for epoch in line[: epochs * examples].view(epochs, examples):
        assert epoch.sort().values.tolist() == list(range(examples))


@properties
@given(examples=sizes, batch=batch_sizes, seed=seeds, steps=st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_a_batch_depends_on_the_seed_and_the_step_only(examples: int, batch: int, seed: int, steps: list[int]) -> None:
    used_before = ShuffledBatches(examples, batch, seed)
    for step in steps:
        assert torch.equal(used_before[step], ShuffledBatches(examples, batch, seed)[step])


@properties
@given(
    examples=sizes,
    rows=st.integers(1, 5),
    processes=st.integers(1, 5),
    parts=st.integers(1, 4),
    resumed_at=st.integers(0, 30),
    seed=seeds,
)
def test_processes_see_every_example_once_an_epoch_whenever_they_are_resumed(
    examples: int, rows: int, processes: int, parts: int, resumed_at: int, seed: int
) -> None:
    """The processes' rows, one process after the other, are the batch that one process alone would see."""
    batch = rows * processes * parts
    alone, together, line = ShuffledBatches(examples, batch, seed), ShuffledBatches(examples, batch, seed), []
    for step in range(-(-2 * examples // batch)):
        if step == resumed_at:
            together = ShuffledBatches(examples, batch, seed)
        pieces = [
            together[step][piece] for process in range(processes) for piece in share(batch, parts, process, processes)
        ]
        assert {len(piece) for piece in pieces} == {rows}
        assert torch.equal(torch.cat(pieces), alone[step])
        line += torch.cat(pieces).tolist()
    assert sorted(line[:examples]) == sorted(line[examples : 2 * examples]) == list(range(examples))


@properties
@given(total=st.integers(1, 60), processes=st.integers(1, 9))
def test_held_out_examples_are_divided_without_gap(total: int, processes: int) -> None:
    shares = [padded_share(total, process, processes) for process in range(processes)]
    assert len({len(rows) for rows in shares}) == 1
    assert torch.cat(shares)[:total].tolist() == list(range(total))


@pytest.mark.parametrize(("batch", "parts", "processes"), [(32, 3, 1), (32, 1, 5), (32, 8, 8), (1, 1, 2)])
def test_a_batch_that_cannot_be_divided_evenly_is_refused(batch: int, parts: int, processes: int) -> None:
    with pytest.raises(UserError, match=f"training.batch={batch} must be divisible by {processes} processes"):
        share(batch, parts, 0, processes)


def test_a_batch_larger_than_the_data_takes_whole_epochs_and_goes_on() -> None:
    batches = ShuffledBatches(examples=3, batch=8, seed=0)
    first, second = batches[0].tolist(), batches[1].tolist()
    assert [len(first), len(second)] == [8, 8]
    line = first + second
    assert [sorted(line[start : start + 3]) for start in range(0, 15, 3)] == [[0, 1, 2]] * 5


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [ShuffledBatches(100, 100, seed)[epoch].tolist() for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len({tuple(order) for order in orders}) == 6


def test_each_place_of_an_epoch_may_hold_any_example() -> None:
    """Chi-square over the 5! = 120 orders of five examples in 12,000 epochs, at level 1e-6."""
    batches = ShuffledBatches(5, 5 * 12_000, seed=0)
    orders = batches[0].view(-1, 5) @ torch.tensor([5**power for power in range(5)])
    counts = np.unique(orders.numpy(), return_counts=True)[1]
    assert len(counts) == 120
    assert stats.chisquare(counts).pvalue > 1e-6


def test_the_same_seed_and_stream_give_the_same_numbers() -> None:
    assert torch.equal(*(torch.rand(50, generator=step_generator(3, 1, 7)) for _ in range(2)))


def test_a_generator_takes_nothing_from_the_global_one_and_leaves_it_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(5)
    torch.manual_seed(0)
    torch.rand(5, generator=step_generator(0, 1, 2))
    assert torch.equal(torch.rand(5), expected)


def test_no_two_streams_share_a_state() -> None:
    states = [
        step_generator(seed, stream, step).initial_seed()
        for seed in range(5)
        for stream in (1, 2)
        for step in range(500)
    ]
    assert len(set(states)) == len(states)


@pytest.mark.parametrize("neighbour", [(0, 1, 1), (0, 2, 0), (1, 1, 0)])
def test_neighbouring_streams_are_uncorrelated(neighbour: tuple[int, int, int]) -> None:
    """The correlation of 100,000 independent pairs has standard deviation 0.0032; beyond 5 of them by chance: 6e-7."""
    pair = [torch.rand(100_000, generator=step_generator(*key), dtype=torch.float64) for key in ((0, 1, 0), neighbour)]
    assert abs(float(torch.corrcoef(torch.stack(pair))[0, 1])) < 5 / np.sqrt(100_000)
