"""Remasking: its probabilities by hand, its law without remasking, and the masked fraction that it keeps.

Statistical tests have fixed seeds and state their level.
"""

import math

import pytest
import torch
from scipy import stats

from tests.helpers.exact import LINEAR, SQUARE, TableDenoiser, for_each_schedule, seeded
from tests.helpers.exact import KnownSchedule as Known
from tests.helpers.plans import ancestral, model_of, p_value, planned_law
from vadd.core import Remask, sample
from vadd.core.samplers import Rule
from vadd.core.sampling import on_the_grid
from vadd.errors import UserError


@pytest.mark.parametrize(
    ("rule", "eta", "mask", "reveal"),
    [
        # From t = 0.5 to s = 0.25 under alpha = 1 - t: sigma is at most 0.25 / 0.5, and a masked position is revealed
        # with probability (0.75 - (1 - sigma) 0.5) / 0.5 = 0.5 + sigma.
        ("capped", 0.3, 0.3, 0.8),
        ("capped", 0.9, 0.5, 1.0),
        ("capped", 0.0, 0.0, 0.5),
        ("rescaled", 0.3, 0.15, 0.65),
        ("rescaled", 1.0, 0.5, 1.0),
        ("rescaled", 0.0, 0.0, 0.5),
    ],
)
def test_remasking_probabilities_by_hand(rule: Rule, eta: float, mask: float, reveal: float) -> None:
    _, left = on_the_grid(torch.ones(1, 2, dtype=torch.bool), 4, LINEAR.schedule, "uniform")
    revealed, masked_again = Remask(rule, eta).probabilities(left[:, 2], left[:, 1])
    assert float(masked_again) == pytest.approx(mask, abs=1e-12)
    assert float(revealed) == pytest.approx(reveal, abs=1e-12)


@pytest.mark.parametrize("rule", ["capped", "rescaled"])
def test_without_remasking_it_is_algorithm_2_in_distribution(rule: Rule) -> None:
    """Chi-square at level 1e-5 against the enumerated law; with remasking the law is another."""
    denoiser = TableDenoiser(3, 2, seed=31, latent=True, timed=True)
    law = planned_law(denoiser, SQUARE, ancestral([0, 1 / 3, 2 / 3, 1]))

    def p_with(eta: float) -> float:
        tokens = sample(model_of(denoiser, SQUARE), 40_000, 3, seeded(5), sampler=Remask(rule, eta)).tokens
        return p_value(tokens, law, 2)

    assert p_with(0.0) > 1e-5
    assert p_with(1.0) < 1e-8


@pytest.mark.parametrize("sampler", [Remask("capped", 0.2), Remask("rescaled", 0.5), Remask("capped", 1.0)], ids=repr)
@for_each_schedule
def test_remasking_leaves_the_expected_masked_fraction_on_the_schedule(sampler: Remask, known: Known) -> None:
    """The coins of all positions are independent: a binomial test at level 1e-6 after each of 4 steps, for rows that
    know nothing and for rows that know half, whose fraction is of the other half.
    """
    start = torch.full((4000, 4), 2)
    start[2000:, :2] = 0
    model = model_of(TableDenoiser(4, 2), known)
    trajectory = sample(model, start, 4, seeded(6), sampler=sampler, record=len(start)).trajectory
    assert trajectory is not None
    assert ((trajectory[:-1] < 2) & (trajectory[1:] == 2)).any()
    for part, fraction in ((trajectory[:, :2000], 1.0), (trajectory[:, 2000:, 2:], 0.5)):
        begin = float(known.schedule.time_at(torch.tensor(fraction, dtype=torch.float64)))
        for step, states in enumerate(part[1:], start=1):
            expected = (1 - known.alpha(begin * (1 - step / 4))) / fraction
            hidden = int((states == 2).sum())
            assert stats.binomtest(hidden, states.numel(), min(max(expected, 0.0), 1.0)).pvalue > 1e-6


def test_the_last_step_leaves_nothing_masked_whatever_the_coins() -> None:
    """Not even where the share that is left is tiny and its complement is rounded."""
    hidden = torch.ones(1, 3, dtype=torch.bool)
    for steps in (1, 3, 7, 1000, 3000):
        for known in (LINEAR, SQUARE):
            for sampler in (Remask("capped", 0.3), Remask("rescaled", 1.0), Remask(eta=0.0)):
                _, left = on_the_grid(hidden, steps, known.schedule, "uniform")
                revealed, masked_again = sampler.probabilities(left[:, 1], left[:, 0])
                assert float(revealed) >= 1, "no uniform number in [0, 1) is larger"
                assert float(masked_again) == 0


def test_remasking_corrects_what_was_revealed_but_never_what_was_known() -> None:
    start = torch.tensor([[0, 2, 2, 1, 2]]).repeat(300, 1)
    model, sampler = model_of(TableDenoiser(5, 2), LINEAR), Remask("rescaled", 0.9)
    trajectory = sample(model, start, 12, seeded(7), sampler=sampler, record=len(start)).trajectory
    assert trajectory is not None
    back = ((trajectory[:-1] < 2) & (trajectory[1:] == 2)).flatten(0, 1).any(0)
    assert back.tolist() == [False, True, True, False, True]


@pytest.mark.parametrize("eta", [-0.1, 1.1, math.nan])
def test_an_eta_that_is_no_probability_is_refused(eta: float) -> None:
    with pytest.raises(UserError, match=rf"eta must be at (least 0|most 1), not {eta}"):
        Remask(eta=eta)


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'often'.*capped, rescaled"):
        Remask("often")  # type: ignore[arg-type]
