"""GenMD4, whose values have mask schedules of their own, against sums over all states and all masks."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.helpers.bounds import NO_LATENT, exact_step_bound, grid_times
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    SQUARE,
    KnownSchedule,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    for_each_schedule,
    index_of,
    properties,
    sampler_distribution,
    seeded,
    sigmas,
)
from vadd.core import (
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    PolynomialSchedule,
    StratifiedTimes,
    elbo,
    sample,
    step_bound,
)
from vadd.errors import UserError
from vadd.models import ValueRates

POSITIONS, VALUES = 2, 3
STATES = (VALUES + 1) ** POSITIONS
UNEVEN = (0.4, 1.0, 2.5)


def model_of(rates: tuple[float, ...], known: KnownSchedule = LINEAR, *, timed: bool = False) -> ValueRates:
    """In float64 throughout."""
    model = ValueRates(TableDenoiser(POSITIONS, len(rates), timed=timed), known.schedule).double()
    model.log_rates.data = torch.tensor(rates, dtype=torch.float64).log()
    return model


def predictions(model: ValueRates, t: float) -> Tensor:
    """mu of every state, (states, N, V)."""
    states = all_sequences(POSITIONS, VALUES + 1)
    with torch.no_grad():
        times = torch.full((STATES,), t, dtype=torch.float64)
        return (
            model.denoiser(states, None, times, torch.ones_like(states, dtype=torch.bool))
            .softmax(-1)
            .view(STATES, POSITIONS, VALUES)
        )


def chain_law(model: ValueRates, known: KnownSchedule, times: list[float]) -> Tensor:
    """The exact law of the sampler, (V ** N,): at each step every transition between states, from the survival
    probabilities 1 - (1 - alpha)^r written down anew.
    """
    states = all_sequences(POSITIONS, VALUES + 1)
    rates = model.rates.detach().tolist()
    law = torch.zeros(STATES, dtype=torch.float64)
    law[-1] = 1
    for s, t in reversed(list(itertools.pairwise(times))):
        mu = predictions(model, t)
        alphas = [[1 - (1 - known.alpha(time)) ** rate for rate in rates] for time in (s, t)]
        rho = [(before - now) / (1 - now) for before, now in zip(*alphas, strict=True)]
        after = torch.zeros_like(law)
        for here, there in itertools.product(range(STATES), repeat=2):
            probability = float(law[here])
            for i in range(POSITIONS):
                now, then = int(states[here, i]), int(states[there, i])
                if now < VALUES:
                    probability *= now == then
                elif then < VALUES:
                    probability *= float(mu[here, i, then]) * rho[then]
                else:
                    probability *= sum(float(mu[here, i, v]) * (1 - rho[v]) for v in range(VALUES))
            after[there] += probability
        law = after
    return law[(states < VALUES).all(1)]


def mask_law(model: ValueRates, x0: Tensor, t: float, known: KnownSchedule) -> tuple[Tensor, Tensor]:
    """All masks (2 ** N, N), and the probability of each for the one example x0 (N,), which knows the gradient."""
    masks = all_sequences(POSITIONS, 2).bool()
    chance = (1 - known.alpha(t)) ** model.rates[x0]
    return masks, torch.where(masks, chance, 1 - chance).prod(dim=1)


def batches_of(x0: Tensor, masks: Tensor, t: float, known: KnownSchedule) -> MaskedBatch:
    times = torch.full((len(masks),), t, dtype=torch.float64)
    weight = torch.full_like(times, -known.slope(t) / (1 - known.alpha(t)))
    return MaskedBatch.of(x0.expand(len(masks), -1), Masking(masks, times, weight), VALUES)


@pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_with_equal_rates_it_is_the_schedule_itself(known: KnownSchedule, steps: int) -> None:
    """Law and bound of the sampler: those of MDLM; the integrand too, of every mask."""
    model, table = model_of((1.0, 1.0, 1.0), known), TableDenoiser(POSITIONS, VALUES)
    exact = sampler_distribution(table, known, grid_times(steps), fixed_z=False, nodes=1)
    # The other sum over states has its reveal probabilities in single precision.
    torch.testing.assert_close(chain_law(model, known, grid_times(steps)), exact, rtol=1e-6, atol=1e-9)
    x0 = torch.tensor([[2, 1]])
    draws = step_bound(model, x0.expand(5000, -1), steps, 1, seeded(2))
    number = int(index_of(x0, VALUES))
    truth = float(exact_step_bound(table, known, grid_times(steps), NO_LATENT)[number])
    assert sigmas(draws, truth) < 5 if steps > 1 else math.isclose(float(draws[0]), truth, rel_tol=1e-6)
    masks = all_sequences(POSITIONS, 2).bool()
    batch = batches_of(x0[0], masks, 0.3, known)
    plain = MaskedDiffusion(table, known.schedule)
    expected = batch.masking.weight * plain.log_likelihood(batch, None, batch.masked)[0]
    torch.testing.assert_close(model.integrand(batch), expected, rtol=1e-6, atol=1e-9)


def test_equal_rates_make_the_polynomial_schedule() -> None:
    """Rates 2 of the linear schedule are the schedule 1 - t^2: masks, sampler and integrand."""
    twice, square = model_of((2.0, 2.0, 2.0), LINEAR), model_of((1.0, 1.0, 1.0), SQUARE)
    torch.testing.assert_close(
        chain_law(twice, LINEAR, grid_times(3)), chain_law(square, SQUARE, grid_times(3)), rtol=1e-9, atol=1e-12
    )
    x0, masks = torch.tensor([2, 0]), all_sequences(POSITIONS, 2).bool()
    found = [
        (model.integrand(batch), model.log_mask_probability(batch))
        for model, known in ((twice, LINEAR), (square, SQUARE))
        for batch in [batches_of(x0, masks, 0.6, known)]
    ]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
    assert isinstance(SQUARE.schedule, PolynomialSchedule)


def test_masks_follow_the_values() -> None:
    """Each of 6 values in 20,000 examples, to 5 standard errors."""
    model, t, rows = model_of(UNEVEN), 0.5, 20_000
    x0 = torch.tensor([[0, 2], [1, 1]]).repeat_interleave(rows, dim=0)
    times = torch.full((len(x0),), t)
    drawn = model.noised(MaskedBatch.of(x0, Masking(x0 < 0, times, times), VALUES), seeded(1))
    assert torch.equal(drawn.xt == VALUES, drawn.masked)
    for value, rate in enumerate(UNEVEN):
        hits = drawn.masked[x0 == value].double()
        chance = t**rate
        assert abs(float(hits.mean()) - chance) < 5 * math.sqrt(chance * (1 - chance) / len(hits))


def test_the_probability_of_masks_is_the_one_they_are_drawn_by() -> None:
    model, x0 = model_of(UNEVEN), torch.tensor([0, 2])
    masks, law = mask_law(model, x0, 0.7, LINEAR)
    found = model.log_mask_probability(batches_of(x0, masks, 0.7, LINEAR))
    torch.testing.assert_close(found.exp(), law, rtol=1e-9, atol=0)
    assert float(found.exp().sum().detach()) == pytest.approx(1)


@pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
def test_the_gradient_is_that_of_the_sum_over_all_masks(known: KnownSchedule) -> None:
    """Over all pairs of masks, weighed by how probable they are, the leave-one-out gradient is exact: for the rates and
    for the network.
    """
    model, x0, t = model_of(UNEVEN, known, timed=True), torch.tensor([0, 2]), 0.35
    masks, law = mask_law(model, x0, t, known)
    batch = batches_of(x0, masks, t, known)
    parameters = [model.log_rates, *model.denoiser.parameters()]  # type: ignore[attr-defined]  # a module
    exact = torch.autograd.grad((law * model.integrand(batch)).sum(), parameters, allow_unused=True)
    pairs = torch.cartesian_prod(torch.arange(len(masks)), torch.arange(len(masks)))
    law = law.detach()
    weighed = law[pairs[:, 0]] * law[pairs[:, 1]] * model.leave_one_out(batch[pairs[:, 0]], batch[pairs[:, 1]])
    found = torch.autograd.grad(weighed.sum(), parameters, allow_unused=True)
    assert float(weighed.sum().detach()) == pytest.approx(float((law * model.integrand(batch)).sum().detach()))
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-10)
    assert float(exact[0].abs().min()) > 1e-3
    # Without the part that speaks of the masks it would be another one.
    blind = torch.autograd.grad((law * model.integrand(batch)).sum(), [model.log_rates])[0]
    assert float((blind - exact[0]).abs().max()) > 1e-2


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_step_bound_never_exceeds_the_likelihood_of_the_sampler(steps: int) -> None:
    """The mean of 3,000 draws for each of the 9 sequences, to 5 standard errors; without chance below."""
    model = model_of(UNEVEN, timed=True)
    x0, repeats = all_sequences(POSITIONS, VALUES), 3000
    exact = chain_law(model, LINEAR, grid_times(steps)).log()
    draws = step_bound(model, x0.repeat(repeats, 1), steps, 1, seeded(1)).view(repeats, -1)
    error = draws.std(0) / math.sqrt(repeats)
    assert (draws.mean(0) <= exact + 5 * error + 1e-9).all()
    if steps == 1:
        torch.testing.assert_close(draws.mean(0), exact, rtol=1e-6, atol=1e-6)


@given(st.tuples(*[st.floats(-2.0, 2.0)] * VALUES), st.integers(1, 4))
@settings(properties, max_examples=15)
def test_no_rates_and_no_steps_let_the_bound_exceed_the_likelihood(logs: tuple[float, ...], steps: int) -> None:
    """Summed over all masks at every step, so without chance."""
    model = model_of(tuple(math.exp(log) for log in logs), timed=True)
    times = grid_times(steps)
    x0 = torch.tensor([2, 0])
    total = 0.0
    with torch.no_grad():
        for s, t in itertools.pairwise(times):
            masks, law = mask_law(model, x0, t, LINEAR)
            before = torch.full((len(masks),), s, dtype=torch.float64)
            total += float(law @ model.step_score(batches_of(x0, masks, t, LINEAR), before, None, None)[0])
    exact = float(chain_law(model, LINEAR, times)[int(index_of(x0[None], VALUES))].log())
    assert total <= exact + 1e-9
    if steps == 1:
        assert total == pytest.approx(exact)


@for_each_schedule
def test_many_steps_approach_the_integrand(known: KnownSchedule) -> None:
    """A short step at t, over its length."""
    model, x0, t, length = model_of(UNEVEN, known), torch.tensor([1, 2]), 0.5, 1e-6
    masks = all_sequences(POSITIONS, 2).bool()
    batch = batches_of(x0, masks, t, known)
    before = torch.full((len(masks),), t - length, dtype=torch.float64)
    with torch.no_grad():
        found = model.step_score(batch, before, None, None)[0] / length
        torch.testing.assert_close(found, model.integrand(batch), rtol=1e-4, atol=1e-6)


def test_samples_follow_the_law_of_the_chain() -> None:
    """Chi-square; a false alarm in one of 10^4 trials."""
    model = model_of(UNEVEN, timed=True)
    drawn = sample(model, 20_000, 3, seeded(5))
    counts = np.bincount(index_of(drawn.tokens, VALUES).numpy(), minlength=VALUES**POSITIONS)
    law = chain_law(model, LINEAR, [float(torch.tensor(time)) for time in grid_times(3)])
    assert float(law.sum()) == pytest.approx(1)
    assert chi_square_p_value(counts, law.numpy()) > 1e-4


def test_training_finds_rates_that_raise_the_bound() -> None:
    """Of two positions with three values one is always 0: to learn when it is known, and the objective says so."""
    joint = torch.tensor([[0, 1], [0, 2], [1, 0], [2, 0]]).repeat(64, 1)
    model = ValueRates(TableDenoiser(POSITIONS, VALUES, timed=True).float(), LinearSchedule())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.06)
    first = 0.0
    for step in range(120):
        masking = StratifiedTimes()(len(joint), POSITIONS, model.schedule, seeded(step))
        evidence = model(MaskedBatch.of(joint, masking, VALUES), 1.0, seeded(step + 10**6))
        optimizer.zero_grad()
        (-evidence.bound.mean()).backward()
        optimizer.step()
        first = first or float(evidence.bound.detach().mean())
    entropy = math.log(4)
    with torch.no_grad():
        masking = StratifiedTimes()(len(joint), POSITIONS, model.schedule, seeded(7))
        reached = float(model(MaskedBatch.of(joint, masking, VALUES), 1.0, seeded(8)).bound.mean())
    assert first < -3 < reached < 0
    assert reached > -entropy - 0.5
    assert float(model.rates.detach().max() / model.rates.detach().min()) > 1.2


def test_it_has_no_sum_over_counts() -> None:
    with pytest.raises(UserError, match="use the step bound"):
        elbo(model_of(UNEVEN), torch.tensor([[0, 1]]), 2)
