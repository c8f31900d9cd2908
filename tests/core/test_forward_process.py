"""The forward process: marginals of the mask draws, and the posterior of one step back (eq. 1 of the paper)."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import LINEAR, KnownSchedule, for_each_schedule, seeded
from vadd.core import IidTimes, MaskedBatch, Masking, StratifiedTimes

VALUES = 3
MASK = VALUES


def forward_matrix(survival: float) -> Tensor:
    """P(later | earlier) of one position over V values and the mask: a value survives or is masked, a mask stays."""
    matrix = survival * torch.eye(VALUES + 1, dtype=torch.float64)
    matrix[:, MASK] += 1 - survival
    return matrix


@for_each_schedule
@pytest.mark.parametrize(("s", "t"), [(0.0, 0.4), (0.2, 0.5), (0.5, 0.9), (0.3, 1.0)])
def test_the_posterior_of_one_step_back_reveals_with_the_reveal_probability(
    known: KnownSchedule, s: float, t: float
) -> None:
    """Joint of (x_s, x_t) given x_0, enumerated: mask at s, then mask the survivors again on the way to t."""
    to_s = forward_matrix(known.alpha(s))
    s_to_t = forward_matrix(known.alpha(t) / known.alpha(s))
    assert_close(to_s @ s_to_t, forward_matrix(known.alpha(t)))

    rho = float(
        known.schedule.reveal_probability(torch.tensor(t, dtype=torch.float64), torch.tensor(s, dtype=torch.float64))
    )
    for x0 in range(VALUES):
        joint = to_s[x0, :, None] * s_to_t  # rows x_s, columns x_t
        posterior_if_masked = joint[:, MASK] / joint[:, MASK].sum()
        expected = torch.zeros(VALUES + 1, dtype=torch.float64)
        expected[x0], expected[MASK] = rho, 1 - rho
        assert_close(posterior_if_masked, expected)
        if known.alpha(t) > 0:  # a shown x_t was shown before
            assert_close(joint[:, x0] / joint[:, x0].sum(), torch.eye(VALUES + 1, dtype=torch.float64)[x0])


@for_each_schedule
@pytest.mark.parametrize("draw", [IidTimes(), StratifiedTimes()], ids=["iid", "stratified"])
def test_positions_are_masked_independently_with_the_masked_fraction(
    known: KnownSchedule, draw: IidTimes | StratifiedTimes
) -> None:
    """Counts of each of the 4 masks of two positions, within 4 slices of time, against 1 - alpha.

    16 comparisons at 5 standard deviations. The rarest cell expects about 12, where the tail is a Poisson's: false
    alarm below 1e-4 in all.
    """
    masking = draw(60_000, 2, known.schedule, seeded(1))
    hidden = torch.tensor([1 - known.alpha(t) for t in masking.t.tolist()], dtype=torch.float64)
    slices = (masking.t * 4).long().clamp(max=3)
    for first in (False, True):
        for second in (False, True):
            seen = ((masking.masked[:, 0] == first) & (masking.masked[:, 1] == second)).double()
            p = (hidden if first else 1 - hidden) * (hidden if second else 1 - hidden)
            for index in range(4):
                rows = slices == index
                deviation = float((seen - p)[rows].sum())
                assert abs(deviation) < 5 * math.sqrt(float((p * (1 - p))[rows].sum()))


def test_apply_mask_hides_the_masked_positions_only() -> None:
    x0 = torch.tensor([[0, 1, 2], [2, 1, 0]])
    masked = torch.tensor([[True, False, False], [False, True, True]])
    masking = Masking(masked, torch.tensor([0.25, 0.75]), torch.tensor([4.0, 2.0]))
    batch = MaskedBatch.of(x0, masking, MASK)
    assert batch.xt.tolist() == [[3, 1, 2], [2, 3, 3]]
    assert batch.x0.tolist() == [[0, 1, 2], [2, 1, 0]]
    assert batch.t is masking.t


def test_slicing_a_masking_slices_every_part() -> None:
    masking = IidTimes()(6, 4, LINEAR.schedule, seeded(0))
    part = masking[2:5]
    assert part.masked.equal(masking.masked[2:5])
    assert part.t.equal(masking.t[2:5])
    assert part.weight.equal(masking.weight[2:5])
