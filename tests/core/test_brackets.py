"""Intervals for the likelihood against enumeration: both sides have the right direction, and close.

**200 random models.** The entropy of a sampler's own law is its mean negative log-likelihood. Both sides are means over
40 independent intervals of every sequence, weighed by the law; the interval, widened by 4 standard errors, holds the
entropy. A right package misses it on one side with probability 3e-5 where the mean is normal; over 400 sides that is
1.3%, if the seeds are ever changed.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.bounds import standard_error
from tests.helpers.exact import LINEAR, TableDenoiser, all_sequences, seeded
from tests.helpers.paths import Enumeration, surest
from tests.helpers.plans import ancestral, model_of, planned_law
from vadd.core import MaskedDiffusion, Ordered, Particles, Remask, step_bound
from vadd.core.brackets import best_shift, bracket, others
from vadd.core.sampling import Drawing
from vadd.errors import UserError

REPEATS = 40


def log_draws(model: MaskedDiffusion, steps: int, paths: int, seed: int, how: Drawing | None = None) -> Tensor:
    """Of every x0, ``REPEATS`` times: (paths, REPEATS, V ** N)."""
    x0 = all_sequences(model.positions, model.vocab_size)
    many = x0.repeat(paths * REPEATS, 1)
    return model.bound(many, steps, Particles(2), seeded(seed), how).view(paths, REPEATS, len(x0))


def sides(draws: Tensor, law: Tensor, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Of the mean log-likelihood of the law, for every repetition: two of (REPEATS,)."""
    low, high = bracket(draws.flatten(1), shift)
    return low.view(REPEATS, -1) @ law, high.view(REPEATS, -1) @ law


def holds(side: Tensor, truth: float, sign: int) -> bool:
    return sign * (float(side.mean()) - truth) > -4 * float(standard_error(side)) - 1e-9


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_interval_holds_the_entropy_of_random_models(first: int) -> None:
    for seed in range(first, first + 50):
        denoiser = TableDenoiser(2, 2, seed=seed, latent=seed % 2 == 1, timed=seed % 3 == 0)
        law = planned_law(denoiser, LINEAR, ancestral([0, 0.5, 1]))
        draws = log_draws(model_of(denoiser, LINEAR), 2, 8, seed)
        truth = float(law @ law.log())
        low, high = sides(draws, law, shift=0.1 * (seed % 4))
        assert holds(low, truth, -1), seed
        assert holds(high, truth, 1), seed


@pytest.mark.parametrize("name", ["confidence", "remask"])
def test_so_it_does_for_samplers_that_draw_paths(name: str) -> None:
    for seed in range(10):
        denoiser = TableDenoiser(3, 2, seed=seed)
        model = MaskedDiffusion(denoiser, LINEAR.schedule)
        enumeration = Enumeration(denoiser)
        if name == "remask":
            law, how = enumeration.remasking(LINEAR, 2, "rescaled", 0.5), Drawing(sampler=Remask("rescaled", 0.5))
        else:
            law, how = enumeration.looking(surest("confidence"), 2), Drawing(sampler=Ordered("confidence"))
        truth = float(law @ law.log())
        low, high = sides(log_draws(model, 2, 16, seed, how), law)
        assert holds(low, truth, -1), seed
        assert holds(high, truth, 1), seed


def test_it_closes_with_the_number_of_paths() -> None:
    """By about the factor that there are more."""
    denoiser = TableDenoiser(2, 3, seed=3, timed=True)
    law = planned_law(denoiser, LINEAR, ancestral([0, 0.5, 1]))
    widths = []
    for paths in (4, 32, 256):
        low, high = sides(log_draws(model_of(denoiser, LINEAR), 2, paths, paths), law)
        widths.append(float((high - low).mean()))
    assert 0 < widths[2] < widths[1] / 4 < widths[0] / 16


def test_it_closes_with_the_number_of_particles() -> None:
    """With one step nothing but the sum over z is estimated."""
    denoiser = TableDenoiser(2, 3, seed=4, latent=True)
    model = model_of(denoiser, LINEAR)
    law, x0 = planned_law(denoiser, LINEAR, ancestral([0, 1])), all_sequences(2, 3)
    truth, widths = float(law @ law.log()), []
    for particles in (2, 16, 128):
        draws = model.bound(x0.repeat(8 * REPEATS, 1), 1, Particles(particles), seeded(particles))
        low, high = sides(draws.view(8, REPEATS, -1), law)
        assert holds(low, truth, -1)
        assert holds(high, truth, 1)
        widths.append(float((high - low).mean()))
    assert 0 < widths[2] < widths[1] / 4 < widths[0] / 16


def test_both_sides_have_their_expectation_by_enumeration() -> None:
    """Estimates of three values: all outcomes of three draws, weighed, to 1e-12."""
    values, chances = torch.tensor([[0.05, 0.3, 0.9], [0.5, 0.3, 0.2]], dtype=torch.float64)
    p = float(values @ chances)
    which = all_sequences(3, 3)
    weights = chances[which].prod(1)
    for shift in (0.0, 0.7, -0.4):
        low, high = (float(weights @ side) for side in bracket(values[which].T.log(), shift))
        anchors = values[all_sequences(2, 3)].mean(1) * math.exp(shift)
        expected = float(chances[all_sequences(2, 3)].prod(1) @ (p / anchors - 1 + anchors.log()))
        assert high == pytest.approx(expected, abs=1e-12)
        assert low < math.log(p) < high
    shifts = torch.linspace(-1, 1, 201)
    tries = [float(weights @ bracket(values[which].T.log(), float(c))[1]) for c in shifts]
    # The best shift of many draws is where the expected upper side is least.
    drawn = values[torch.multinomial(chances, 3 * 200_000, replacement=True, generator=seeded(0))].view(3, -1)
    assert best_shift(drawn.log()) == pytest.approx(float(shifts[torch.tensor(tries).argmin()]), abs=0.02)


def test_draws_of_zero_leave_an_interval() -> None:
    """p is at most 1, and where another draw is above 0 it says more."""
    draws = torch.tensor([[0.0, 0.0, 0.5], [0.0, 0.2, 0.5], [0.0, 0.0, 0.5]]).double().log()
    low, high = bracket(draws)
    assert low.tolist()[:2] == [-math.inf, pytest.approx(math.log(0.2 / 3))]
    assert high[0] == 0
    assert high[1] == pytest.approx((0 + 2 * (math.log(0.1) - 1)) / 3)
    assert high[2] == pytest.approx(math.log(0.5))
    assert best_shift(draws[:, :1]) == 0
    assert_close(others(draws[:, 1:]).exp(), torch.tensor([[0.1, 0.5], [0.0, 0.5], [0.1, 0.5]]).double())


def test_one_path_is_no_interval() -> None:
    with pytest.raises(UserError, match="at least 2 paths, not 1"):
        bracket(torch.zeros(1, 4))


def test_draws_of_a_bound_are_independent() -> None:
    """Else neither side would hold: of two plans of the same example about half differ."""
    denoiser = TableDenoiser(2, 2, seed=1)
    model = MaskedDiffusion(denoiser, LINEAR.schedule)
    found = step_bound(model, all_sequences(2, 2)[:1].repeat(1000, 1), 2, 1)
    assert 0.1 < float((found[:500] != found[500:]).double().mean()) < 0.9
