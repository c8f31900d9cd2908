"""SEDD against sums over all states: its optimum, its samplers, its bounds."""

import itertools
import math
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.helpers.bounds import NO_LATENT, exact_integral, exact_step_bound, grid_times
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    KnownSchedule,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    exact_count_weights,
    for_each_schedule,
    index_of,
    nonempty_masks,
    sampler_distribution,
    seeded,
    sigmas,
)
from tests.helpers.networks import awaken, small_recipe
from tests.helpers.states import TableScores, TrueConditionals, random_joint
from vadd.core import LinearSchedule, MaskedBatch, Masking, TokenSampler, elbo, sample, step_bound, step_grid
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.models import Analytic, Euler, ScoreEntropy
from vadd.recipe import build_model

POSITIONS, VALUES, STATES = 2, 3, 16


def chain_law(model: ScoreEntropy, known: KnownSchedule, times: list[float]) -> Tensor:
    """The exact law of the analytic sampler, (V ** N,), state by state."""
    states = all_sequences(POSITIONS, VALUES + 1)
    with torch.no_grad():
        log_c = model.predict(states, None, torch.ones(STATES), torch.ones_like(states, dtype=torch.bool))
    scores = log_c.view(STATES, POSITIONS, VALUES).exp()
    law = torch.zeros(STATES, dtype=torch.float64)
    law[-1] = 1
    for s, t in reversed(list(itertools.pairwise(times))):
        after = torch.zeros_like(law)
        for here, there in itertools.product(range(STATES), repeat=2):
            probability = float(law[here])
            for i in range(POSITIONS):
                now, then = int(states[here, i]), int(states[there, i])
                if now < VALUES:
                    probability *= now == then
                    continue
                total = float(scores[here, i].sum())
                revealed = 1.0 if s == 0 else min(1 - 1e-6, known.reveal(t, s) * total)
                probability *= 1 - revealed if then == VALUES else revealed * float(scores[here, i, then]) / total
            after[there] += probability
        law = after
    return law[(states < VALUES).all(1)]


def model_of(unevenly: float, known: KnownSchedule = LINEAR) -> ScoreEntropy:
    return ScoreEntropy(TableScores(TableDenoiser(POSITIONS, VALUES), unevenly), known.schedule)


@for_each_schedule
def test_at_the_optimum_scores_are_the_true_ratios(known: KnownSchedule) -> None:
    """p_t by summing over everything that may have been masked."""
    joint = random_joint(1)
    joint = joint / joint.sum()
    model = ScoreEntropy(TrueConditionals(joint, POSITIONS, VALUES), known.schedule)
    states, clean, t = all_sequences(POSITIONS, VALUES + 1), all_sequences(POSITIONS, VALUES), 0.4
    alpha = known.alpha(t)
    masked = states == VALUES
    fits = ((states[:, None] == clean) | masked[:, None]).all(-1)
    count = masked.sum(1).double()
    law = (1 - alpha) ** count * alpha ** (POSITIONS - count) * (fits.double() @ joint)
    assert float(law.sum()) == pytest.approx(1)
    with torch.no_grad():
        found = alpha / (1 - alpha) * model.predict(states, None, torch.full((STATES,), t).double(), masked).exp()
    expected = []
    for number, i in masked.nonzero().tolist():
        neighbours = states[number].repeat(VALUES, 1)
        neighbours[:, i] = torch.arange(VALUES)
        expected.append(law[index_of(neighbours, VALUES + 1)] / law[number])
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=0)


@given(st.integers(0, 10**6), st.floats(0.01, 1.0))
@settings(max_examples=30)
def test_nothing_scores_more_than_the_true_conditionals(seed: int, size: float) -> None:
    joint = random_joint(seed)
    joint = joint / joint.sum()
    best = TrueConditionals(joint, POSITIONS, VALUES)
    other = TrueConditionals(joint, POSITIONS, VALUES)
    with torch.no_grad():
        other.table.data += size * torch.randn(other.table.shape, generator=seeded(seed), dtype=torch.float64)

    def objective(network: TrueConditionals) -> float:
        """Summed over all data and all masks, a mask of k positions with the weight 1 / (k C(N, k))."""
        model, x0 = ScoreEntropy(network, LinearSchedule()), all_sequences(POSITIONS, VALUES)
        masks, ones = nonempty_masks(POSITIONS), torch.ones(len(x0))
        total = 0.0
        for mask, weight in zip(masks, exact_count_weights(masks).tolist(), strict=True):
            batch = MaskedBatch.of(x0, Masking(mask.expand_as(x0), ones, ones), VALUES)
            with torch.no_grad():
                total += weight * float(joint @ model.score_entropy(batch, batch.masked))
        return total

    assert objective(best) >= objective(other) - 1e-9


@pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_with_normalised_scores_the_analytic_sampler_is_that_of_mdlm(known: KnownSchedule, steps: int) -> None:
    model = model_of(0.0, known)
    exact = sampler_distribution(TableDenoiser(POSITIONS, VALUES), known, grid_times(steps), fixed_z=False, nodes=1)
    # But for the last millionth by which a probability is kept below 1.
    torch.testing.assert_close(chain_law(model, known, grid_times(steps)), exact, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("unevenly", [0.0, 0.5])
def test_samples_follow_the_law_of_the_chain(unevenly: float) -> None:
    """Chi-square; a false alarm in one of 10^4 trials."""
    model = model_of(unevenly)
    drawn = sample(model, 20_000, 3, seeded(5))
    counts = np.bincount(index_of(drawn.tokens, VALUES).numpy(), minlength=VALUES**POSITIONS)
    assert chi_square_p_value(counts, chain_law(model, LINEAR, grid_times(3)).numpy()) > 1e-4
    assert drawn.evaluations == 3


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_step_bound_never_exceeds_the_likelihood_of_the_sampler(steps: int) -> None:
    """On average over 4,000 draws for each of the 9 sequences, to 5 standard errors."""
    x0 = all_sequences(POSITIONS, VALUES)
    repeats = 4000
    for unevenly in (0.0, 0.5):
        model = model_of(unevenly)
        exact = chain_law(model, LINEAR, grid_times(steps)).log()
        draws = step_bound(model, x0.repeat(repeats, 1), steps, 1, seeded(1)).view(repeats, -1)
        error = draws.std(0) / math.sqrt(repeats)
        assert (draws.mean(0) <= exact + 5 * error + 1e-9).all()
        if steps == 1:
            torch.testing.assert_close(draws.mean(0), exact, rtol=1e-6, atol=1e-6)


def test_with_normalised_scores_the_bounds_are_those_of_mdlm() -> None:
    """Means of draws against sums over all masks, to 5 standard errors."""
    table, model = TableDenoiser(POSITIONS, VALUES), model_of(0.0)
    x0 = torch.tensor([[2, 1]])
    draws = step_bound(model, x0.expand(20_000, -1), 3, 1, seeded(2))
    number = int(index_of(x0, VALUES))
    assert sigmas(draws, float(exact_step_bound(table, LINEAR, grid_times(3), NO_LATENT)[number])) < 5
    integral = elbo(model, x0.expand(20_000, -1), 1, seeded(2))
    assert sigmas(integral, float(exact_integral(table, NO_LATENT)[number])) < 5


def test_scores_that_do_not_sum_to_one_lower_the_elbo() -> None:
    x0 = all_sequences(POSITIONS, VALUES)
    assert (elbo(model_of(0.5), x0, 20, seeded(3)) < elbo(model_of(0.0), x0, 20, seeded(3))).all()


def test_under_the_linear_schedule_euler_takes_the_analytic_steps_and_else_it_does_not() -> None:
    times = step_grid(5)
    for known, same in ((LINEAR, True), (COSINE, False)):
        one, other = (each.step_rates(known.schedule, times[1:], times[:-1]) for each in (Analytic(), Euler()))
        assert torch.allclose(one, other) == same


@pytest.mark.parametrize("kind", ["mlp", "residual", "unet", "transformer", "short-transformer"])
def test_the_sums_of_scores_are_free_whatever_the_network(kind: str) -> None:
    """Of two values too, where probabilities need only the difference of two logits."""
    recipe = small_recipe(kind).with_overrides(["model=sedd"])
    model = build_model(recipe, kind_of((2, 2, 1), 2))
    awaken(cast(nn.Module, model.denoiser))
    x = torch.full((1, 4), 2)
    weights = list(cast(nn.Module, model.denoiser).parameters())
    logits = model.predict(x, None, torch.full((1,), 0.5), torch.ones_like(x, dtype=torch.bool))
    gradients = torch.autograd.grad(logits[:, 0].sum(), weights, allow_unused=True)
    assert any(each is not None and bool(each.any()) for each in gradients), "the first logit is a constant"


def test_what_it_does_not_have_is_refused() -> None:
    model = model_of(0.0)
    with pytest.raises(UserError, match="this model has no temperature"):
        sample(model, 2, 2, seeded(0), token_sampler=TokenSampler(temperature=0.5))
    with pytest.raises(UserError, match="no likelihood bound exists for the sampler Euler"):
        step_bound(model, all_sequences(POSITIONS, VALUES), 2, sampler=Euler())
