"""D3PM's levels and RADD's any-order objective against sums over all masks: both are MDLM with other weights."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.bounds import NO_LATENT, exact_step_bound, grid_times
from tests.helpers.exact import LINEAR, KnownSchedule, TableDenoiser, all_sequences, for_each_schedule, seeded, sigmas
from vadd.core import ExactCount, Levels, LinearSchedule, MaskedBatch, MaskedDiffusion, Masking, StepTimes
from vadd.core.base import Denoiser
from vadd.errors import UserError

POSITIONS, VALUES = 3, 2


def contributions(denoiser: Denoiser, masking: Masking, x0: torch.Tensor) -> torch.Tensor:
    """weight * sum over masked i of log mu_i for each row."""
    model = MaskedDiffusion(denoiser, LinearSchedule())  # type: ignore[arg-type]
    with torch.no_grad():
        evidence = model(MaskedBatch.of(x0, masking, VALUES), 1.0, seeded(0))
    found: torch.Tensor = evidence.bound.double()
    return found


@for_each_schedule
@pytest.mark.parametrize("levels", [1, 2, 5])
def test_the_bound_of_t_levels_is_the_step_bound_of_t_steps(known: KnownSchedule, levels: int) -> None:
    """Summed over levels and masks: sum_i P(S | t_i) rho_i sum_{j in S} log mu_j, for a denoiser that sees t."""
    denoiser = TableDenoiser(POSITIONS, VALUES, timed=True)
    x0, masks = all_sequences(POSITIONS, VALUES), all_sequences(POSITIONS, 2).bool()
    times = grid_times(levels)
    total = torch.zeros(len(x0), dtype=torch.float64)
    for before, t in itertools.pairwise(times):
        hidden, rho = 1 - known.alpha(t), known.reveal(t, before)
        count = masks.sum(1)
        probability = hidden**count * (1 - hidden) ** (POSITIONS - count)
        for mask, share in zip(masks, probability.tolist(), strict=True):
            rows = mask.expand(len(x0), -1)
            masking = Masking(rows, torch.full((len(x0),), t), torch.full((len(x0),), rho))
            total += share * contributions(denoiser, masking, x0)
    exact = exact_step_bound(denoiser, known, times, NO_LATENT)
    torch.testing.assert_close(total, exact, rtol=1e-6, atol=1e-6)


def test_drawn_levels_average_to_the_step_bound() -> None:
    """Within 5 standard errors of the sum over all masks; a false alarm once in 10^6."""
    denoiser, levels, known = TableDenoiser(POSITIONS, VALUES, timed=True), 4, LINEAR
    x0 = torch.tensor([[1, 0, 1]]).expand(40_000, -1)
    masking = Levels(levels, auxiliary=0.0)(len(x0), POSITIONS, known.schedule, seeded(1))
    draws = contributions(denoiser, masking, x0)
    exact = exact_step_bound(denoiser, known, grid_times(levels), NO_LATENT)[0b101]
    # The levels are spread evenly over the batch, so the error is at most that of independent draws.
    assert sigmas(draws, float(exact)) < 5


@given(st.integers(1, 50), st.floats(0, 2))
def test_the_auxiliary_term_counts_every_masked_position_alike(levels: int, auxiliary: float) -> None:
    plain = StepTimes(((levels, 1.0),))(8, POSITIONS, LinearSchedule(), seeded(3))
    found = Levels(levels, auxiliary)(8, POSITIONS, LinearSchedule(), seeded(3))
    torch.testing.assert_close(found.weight, plain.weight + levels * auxiliary)
    assert torch.equal(found.masked, plain.masked)
    assert found.before is not None
    torch.testing.assert_close(found.t - found.before, torch.full((8,), 1 / levels))


@pytest.mark.parametrize("auxiliary", [-0.1, math.inf, math.nan])
def test_a_weight_that_is_none_is_refused(auxiliary: float) -> None:
    with pytest.raises(UserError, match="auxiliary"):
        Levels(10, auxiliary)


def test_the_objective_over_all_orders_is_that_of_exact_counts() -> None:
    """RADD's: the mean over all orders of the sum over their steps of log mu of what comes next, given what came
    before. Exact counts: the mean over k = 1..N and all masks of k positions of N / k sum_{i in S} log mu_i.
    """
    denoiser = TableDenoiser(POSITIONS, VALUES)
    x0, masks = all_sequences(POSITIONS, VALUES), all_sequences(POSITIONS, 2).bool()

    def log_mu(mask: torch.Tensor) -> torch.Tensor:
        """(V ** N, N) at every position."""
        xt = x0.masked_fill(mask, VALUES)
        with torch.no_grad():
            logits = denoiser(xt, None, torch.ones(len(xt)), torch.ones_like(xt, dtype=torch.bool))
        found: torch.Tensor = logits.view(len(x0), POSITIONS, VALUES).log_softmax(-1).gather(-1, x0[..., None])
        return found[..., 0]

    orders = [order for order in all_sequences(POSITIONS, POSITIONS).tolist() if len(set(order)) == POSITIONS]
    any_order = torch.zeros(len(x0), dtype=torch.float64)
    for order in orders:
        for number, position in enumerate(order):
            hidden = torch.tensor([place not in order[:number] for place in range(POSITIONS)])
            any_order += log_mu(hidden)[:, position] / len(orders)
    counted = torch.zeros(len(x0), dtype=torch.float64)
    for mask in masks[1:]:
        k = int(mask.sum())
        share = 1 / POSITIONS / math.comb(POSITIONS, k)
        counted += share * POSITIONS / k * log_mu(mask)[:, mask].sum(1)
    torch.testing.assert_close(any_order, counted, rtol=1e-12, atol=1e-12)
    drawn = ExactCount()(30, POSITIONS, LinearSchedule(), seeded(0))
    torch.testing.assert_close(drawn.weight, POSITIONS / drawn.masked.sum(1).float())
