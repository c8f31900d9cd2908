"""Pads are masked and seen but not scored: objective and bounds against sums over every mask, plan and latent.

Draws are compared with exact means to 5 standard errors, by chance exceeded with probability 6e-7 each; there are
fewer than 300 comparisons, so with other seeds a correct package fails one with probability below 2e-4.
"""

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.helpers.bounds import (
    NO_LATENT,
    GridLatent,
    PriorGrid,
    assignment_probabilities,
    grid_times,
    log_joint,
    log_mu_table,
    standard_error,
)
from tests.helpers.exact import (
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    exact_count_weights,
    nonempty_masks,
    seeded,
)
from tests.helpers.objectives import evaluate, every_mask_once
from vadd.core import (
    GaussianLatent,
    Latent,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    Particles,
    elbo,
    k_sample_delbo,
    step_bound,
)

GRID = PriorGrid.even(60)
CHUNKED = Particles(1, rows_per_call=50)
for_each_size = pytest.mark.parametrize(("positions", "values", "pad"), [(2, 2, 0), (2, 3, 2), (3, 2, 1), (3, 3, 0)])


def model_of(denoiser: TableDenoiser, pad: int | None, latent: Latent | None = None) -> MaskedDiffusion:
    return MaskedDiffusion(denoiser, LinearSchedule(), latent, pad)


def scored_joint(table: Tensor, prior: PriorGrid, x0: Tensor, hidden: Tensor, revealed: Tensor, pad: int) -> float:
    """log p(x_U | xt) for one x0 (N,), U the ``revealed`` positions that are not pads; zero where there is none."""
    where = revealed & (x0 != pad)
    return float(log_joint(table, prior, x0[None], hidden, where)) if bool(where.any()) else 0.0


def exact_bounds(denoiser: TableDenoiser, pad: int, steps: int, prior: PriorGrid) -> Tensor:
    """The exact expectation of the step bound for every x0, (V ** N,)."""
    times, positions = grid_times(steps), denoiser.positions
    tables = [log_mu_table(denoiser, prior, t) for t in times[1:]]
    rows = []
    for x0 in all_sequences(positions, denoiser.vocab_size):
        totals = [
            sum(scored_joint(tables[i], prior, x0, step_of <= i, step_of == i, pad) for i in range(steps))
            for step_of in all_sequences(positions, steps)
        ]
        rows.append(assignment_probabilities(positions, LINEAR, times) @ torch.tensor(totals, dtype=torch.float64))
    return torch.stack(rows)


def exact_integrals(denoiser: TableDenoiser, pad: int, prior: PriorGrid) -> Tensor:
    """The same for the ELBO's integral."""
    table, masks = log_mu_table(denoiser, prior, 1.0), nonempty_masks(denoiser.positions)
    terms = [
        [scored_joint(table, prior, x0, mask, mask, pad) for mask in masks]
        for x0 in all_sequences(denoiser.positions, denoiser.vocab_size)
    ]
    return torch.tensor(terms, dtype=torch.float64) @ exact_count_weights(masks)


@for_each_size
def test_the_objective_is_the_sum_over_masked_positions_that_are_not_pads(
    positions: int, values: int, pad: int
) -> None:
    denoiser = TableDenoiser(positions, values)
    exact = exact_integrals(denoiser, pad, NO_LATENT)
    for x0, expected in zip(all_sequences(positions, values), exact, strict=True):
        result = evaluate(model_of(denoiser, pad), x0, every_mask_once(positions))
        assert -result.reconstruction.item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-12)
        assert result.loss.item() * positions == pytest.approx(-expected.item(), rel=1e-9, abs=1e-12)


@for_each_size
def test_the_kl_counts_only_where_something_is_scored(positions: int, values: int, pad: int) -> None:
    """With a posterior of no width z is its mean, so the sums are exact."""
    denoiser, log_std = TableDenoiser(positions, values, latent=True), -40.0
    at_mean = PriorGrid(torch.tensor([[0.3]], dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    exact, kl = exact_integrals(denoiser, pad, at_mean), 0.5 * (0.3**2 - 1) - log_std
    model = model_of(denoiser, pad, GaussianLatent(ConstantRecognizer(0.3, log_std), dim=1))
    masks = nonempty_masks(positions)
    for x0, expected in zip(all_sequences(positions, values), exact, strict=True):
        counts = (masks & (x0 != pad)).any(1).double()
        total_kl = kl * float(exact_count_weights(masks) @ counts)
        result = evaluate(model, x0, every_mask_once(positions), kl_weight=0.4)
        assert -result.reconstruction.item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-12)
        assert result.kl.item() == pytest.approx(total_kl, rel=1e-9, abs=1e-12)
        assert -result.loss.item() * positions == pytest.approx(expected.item() - 0.4 * total_kl, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("particles", [None, 1, 3])
def test_no_gradient_comes_from_the_predictions_at_pads(particles: int | None) -> None:
    """Nor, where all is pads, from anything; pads that are seen do change the other predictions."""
    denoiser, pad = TableDenoiser(3, 3, latent=particles is not None), 2
    latent = None if particles is None else GaussianLatent(TableRecognizer(3, 3), dim=1, particles=particles)
    model = model_of(denoiser, pad, latent)
    loss = evaluate(model, torch.tensor([1, 0, pad]), every_mask_once(3)).loss
    (gradient,) = torch.autograd.grad(loss, denoiser.base)
    assert bool((gradient[:, 2] == 0).all())
    assert bool((gradient[:, :2] != 0).any())
    nothing = evaluate(model, torch.full((3,), pad), every_mask_once(3))
    assert nothing.loss == nothing.kl == nothing.reconstruction == 0
    gradients = torch.autograd.grad(nothing.loss, list(model.parameters()), allow_unused=True)
    assert all(gradient is None or bool((gradient == 0).all()) for gradient in gradients)


def test_an_example_of_which_only_pads_are_masked_still_counts_in_the_mean() -> None:
    model = model_of(TableDenoiser(2, 3), 2)
    masking = Masking(torch.tensor([[True, False], [False, True]]), torch.full((2,), 0.5), torch.full((2,), 2.0))
    batch = MaskedBatch.of(torch.tensor([[0, 2], [0, 2]]), masking, model.mask_value)
    evidence = model(batch, 1.0, seeded(0))
    assert evidence.bound[0] < 0
    assert evidence.bound[1] == 0
    both, first = evaluate(model, torch.tensor([0, 2]), masking), evaluate(model, torch.tensor([0, 2]), masking[:1])
    assert both.loss.item() == pytest.approx(first.loss.item() / 2)


@for_each_size
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_step_bound_averages_to_the_sum_over_all_plans(positions: int, values: int, pad: int, steps: int) -> None:
    denoiser = TableDenoiser(positions, values, seed=steps, timed=True)
    x0, repeats = all_sequences(positions, values), 600
    drawn = step_bound(model_of(denoiser, pad), x0.repeat(repeats, 1), steps, 1, seeded(steps)).view(repeats, -1)
    exact = exact_bounds(denoiser, pad, steps, NO_LATENT)
    # The times reach the denoiser in float32.
    assert bool(((drawn.mean(0) - exact).abs() <= 5 * standard_error(drawn) + 1e-5).all())
    assert bool((drawn[:, (x0 == pad).all(1)] == 0).all())


@pytest.mark.parametrize("steps", [1, 2])
def test_with_a_latent_too(steps: int) -> None:
    denoiser = TableDenoiser(3, 2, seed=5, latent=True)
    x0, repeats = all_sequences(3, 2), 300
    model = model_of(denoiser, 1, GridLatent(GRID))
    drawn = step_bound(model, x0.repeat(repeats, 1), steps, CHUNKED, seeded(0)).view(repeats, -1)
    exact = exact_bounds(denoiser, 1, steps, GRID)
    assert bool(((drawn.mean(0) - exact).abs() <= 5 * standard_error(drawn) + 1e-9).all())


@for_each_size
def test_the_elbo_and_the_delbo_average_to_the_sum_over_all_masks(positions: int, values: int, pad: int) -> None:
    x0, draws = all_sequences(positions, values), 600
    plain, bent = TableDenoiser(positions, values, seed=1), TableDenoiser(positions, values, seed=1, latent=True)
    many = x0.repeat(draws, 1)
    for found, exact in (
        (elbo(model_of(plain, pad), many, 2, seeded(0)), exact_integrals(plain, pad, NO_LATENT)),
        (
            k_sample_delbo(model_of(bent, pad, GridLatent(GRID)), many, CHUNKED, 2, seeded(1)),
            exact_integrals(bent, pad, GRID),
        ),
    ):
        drawn = found.view(draws, -1)
        assert bool(((drawn.mean(0) - exact).abs() <= 5 * standard_error(drawn) + 1e-9).all())


def test_a_mask_of_nothing_but_pads_adds_nothing_to_the_delbo_of_a_recognition_model() -> None:
    """One particle from a posterior far from the prior would add minus its KL, here 800 nats."""
    latent = GaussianLatent(ConstantRecognizer(40.0, 0.0), dim=1)
    model = model_of(TableDenoiser(2, 3, latent=True), 2, latent)
    pads = torch.full((4, 2), 2)
    assert k_sample_delbo(model, pads, 1, 5, seeded(0)).tolist() == [0.0] * 4
    assert step_bound(model, pads, 2, Particles(1, ("recognition",)), seeded(0)).tolist() == [0.0] * 4


@for_each_size
@pytest.mark.parametrize("steps", [1, 2])
def test_what_the_bound_without_pads_means(positions: int, values: int, pad: int, steps: int) -> None:
    """For every pattern of pads the bounds of all texts are those of one distribution over texts: exp adds up to at
    most 1. Over all sequences it adds up to more, so that it is no distribution over sequences. With pads scored it is.
    """
    denoiser, x0 = TableDenoiser(positions, values, seed=steps), all_sequences(positions, values)
    bound = exact_bounds(denoiser, pad, steps, NO_LATENT)
    by_pattern: dict[tuple[bool, ...], float] = {}
    for row, nats in zip(x0, bound.tolist(), strict=True):
        pattern = tuple((row == pad).tolist())
        by_pattern[pattern] = by_pattern.get(pattern, 0.0) + math.exp(nats)
    assert len(by_pattern) == 2**positions
    assert max(by_pattern.values()) <= 1 + 1e-12
    assert by_pattern[(True,) * positions] == 1
    assert sum(by_pattern.values()) > 1
    everything = exact_bounds(denoiser, -1, steps, NO_LATENT)
    assert float(everything.exp().sum()) <= 1 + 1e-12
    assert bool((everything <= bound + 1e-12).all())


@pytest.mark.parametrize("with_latent", [False, True], ids=["mdlm", "vadd"])
def test_a_pad_that_does_not_occur_changes_no_bit_and_pads_can_be_scored(with_latent: bool) -> None:
    denoiser = TableDenoiser(3, 3, latent=with_latent)
    latent = GaussianLatent(TableRecognizer(3, 3), dim=1) if with_latent else None
    plain, padded = model_of(denoiser, None, latent), model_of(denoiser, 2, latent)
    without = torch.tensor(list(itertools.product(range(2), repeat=3))).repeat(20, 1)
    everything = all_sequences(3, 3)
    for steps in (1, 2, 5):
        ours, theirs = (step_bound(model, without, steps, 4, seeded(0)) for model in (plain, padded))
        assert torch.equal(ours, theirs)
        scored = step_bound(padded.scoring_pads(), everything, steps, 4, seeded(0))
        assert torch.equal(scored, step_bound(plain, everything, steps, 4, seeded(0)))
    ours, theirs = (k_sample_delbo(model, without, 3, 4, seeded(0)) for model in (plain, padded))
    assert torch.equal(ours, theirs)


def test_scoring_pads_shares_the_networks_and_leaves_the_model_as_it_is() -> None:
    model = model_of(TableDenoiser(2, 3), 2, GaussianLatent(TableRecognizer(2, 3), dim=1))
    other = model.scoring_pads()
    assert (model.pad, other.pad) == (2, None)
    assert other.denoiser is model.denoiser
    assert other.latent is model.latent
    x0 = torch.tensor([[0, 2], [2, 2]])
    assert model.scored(x0).tolist() == [[True, False], [False, False]]
    assert bool(other.scored(x0).all())
