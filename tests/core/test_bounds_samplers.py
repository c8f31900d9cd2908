"""The step bound of every sampler that plans ahead against the enumeration of its plans, and the refusal of the others.

Comparisons of means fail by chance beyond 5 standard errors, 6e-7 each; there are fewer than 150, one for each x0.
"""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.helpers.bounds import GridLatent, Inner, log_mean, mean_log, standard_error
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    SQUARE,
    KnownSchedule,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    seeded,
)
from tests.helpers.plans import (
    PRIOR,
    Planner,
    ancestral,
    any_order_law,
    first_hitting,
    model_of,
    parallel,
    plan_log_likelihoods,
    planned_law,
    prior_of,
)
from vadd.core import Ancestral, FirstHitting, MaskedDiffusion, Parallel, Particles, Sampler, step_bound
from vadd.core.sampling import Grid, Walk
from vadd.errors import UserError


def exact_bound(
    denoiser: TableDenoiser, known: KnownSchedule, planner: Planner, inner: Inner = log_mean
) -> torch.Tensor:
    """E sum_steps log p(x_U | x_t) for every x0: (V ** N,)."""
    plans = planner([True] * denoiser.positions, known)
    x0 = all_sequences(denoiser.positions, denoiser.vocab_size)
    return plans.probabilities @ plan_log_likelihoods(denoiser, prior_of(denoiser), plans, x0, inner=inner)


def draws(model: MaskedDiffusion, steps: int, sampler: Sampler, particles: Particles, repeats: int) -> torch.Tensor:
    """(repeats, V ** N)."""
    x0 = all_sequences(model.positions, model.vocab_size)
    found = step_bound(model, x0.repeat(repeats, 1), steps, particles, seeded(3), sampler=sampler)
    return found.view(repeats, len(x0))


MDLM = TableDenoiser(3, 2, seed=41, timed=True)
VADD = TableDenoiser(2, 3, seed=42, latent=True, timed=True)
TIMELESS = TableDenoiser(3, 2, seed=43, latent=True)
CASES: list[tuple[TableDenoiser, KnownSchedule, Sampler, int, Planner]] = [
    (MDLM, SQUARE, Ancestral(), 2, ancestral([0, 0.5, 1])),
    (MDLM, SQUARE, Parallel(), 2, parallel(2)),
    (MDLM, COSINE, Parallel(), 3, parallel(3)),
    (MDLM, LINEAR, FirstHitting(), 3, first_hitting(8)),
    (VADD, COSINE, Parallel(), 1, parallel(1)),
    (VADD, COSINE, Parallel(), 2, parallel(2)),
    (VADD, LINEAR, FirstHitting(), 2, first_hitting(8)),
    (TIMELESS, SQUARE, Parallel(), 2, parallel(2)),
]
for_each_case = pytest.mark.parametrize(
    ("denoiser", "known", "sampler", "steps", "planner"),
    CASES,
    ids=[
        f"{'vadd' if denoiser.latent else 'mdlm'} {type(sampler).__name__} {steps}"
        for denoiser, _, sampler, steps, _ in CASES
    ],
)


@for_each_case
def test_the_bound_has_its_exact_expectation_below_the_likelihood_of_the_sampler(
    denoiser: TableDenoiser, known: KnownSchedule, sampler: Sampler, steps: int, planner: Planner
) -> None:
    """With the latent summed out, for each x0."""
    exact, likelihood = exact_bound(denoiser, known, planner), planned_law(denoiser, known, planner).log()
    assert (exact <= likelihood + 1e-9).all()
    if steps == 1:
        assert_close(exact, likelihood)
    else:
        assert float((likelihood - exact).max()) > 0.01, "otherwise the comparison would prove little"
    model = model_of(denoiser, known)
    if denoiser.latent:
        model = MaskedDiffusion(denoiser, known.schedule, GridLatent(PRIOR))
    found = draws(model, steps, sampler, Particles(1, rows_per_call=400), repeats=150 if denoiser.latent else 2000)
    error = standard_error(found).clamp(min=1e-6)  # in one step there is nothing to draw but rounding
    assert bool(((found.mean(0) - exact).abs() < 5 * error).all())


@pytest.mark.parametrize(
    ("sampler", "planner"),
    [(Parallel(), parallel(2)), (FirstHitting(), first_hitting(8))],
    ids=["parallel", "first-hitting"],
)
def test_few_particles_give_less_but_never_more(sampler: Sampler, planner: Planner) -> None:
    """One from the prior: E_z log. Three from the prior: between that and the exact sum."""
    model = model_of(VADD, LINEAR)
    one = draws(model, 2, sampler, Particles(1, ("prior",)), repeats=3000)
    exact, single = (exact_bound(VADD, LINEAR, planner, inner) for inner in (log_mean, mean_log))
    assert bool(((one.mean(0) - single).abs() < 5 * standard_error(one)).all())
    three = draws(model, 2, sampler, Particles(3, ("prior",)), repeats=1000)
    assert bool((three.mean(0) < exact + 5 * standard_error(three)).all())
    assert bool((three.mean(0) > single - 5 * standard_error(three)).all())


@pytest.mark.parametrize(
    ("sampler", "steps", "planner"),
    [(Parallel(), 2, parallel(2)), (Parallel(), 3, parallel(3)), (FirstHitting(), 3, first_hitting(2))],
    ids=["parallel 2", "parallel 3", "first-hitting"],
)
def test_without_latent_and_time_every_draw_is_the_value_of_a_plan(
    sampler: Sampler, steps: int, planner: Planner
) -> None:
    """And the plans follow their law: chi-square at level 1e-5."""
    denoiser = TableDenoiser(3, 2, seed=44)
    plans, x0 = planner([True] * 3, LINEAR), torch.tensor([[1, 0, 1]])
    values = plan_log_likelihoods(denoiser, prior_of(denoiser), plans, x0)[:, 0]
    # First-hitting comes with the times too, which do not matter here.
    orders, which = torch.unique(plans.step_of, dim=0, return_inverse=True)
    of_order = torch.zeros(len(orders), dtype=torch.float64).scatter_(0, which, values)
    share = torch.zeros(len(orders), dtype=torch.float64).index_add_(0, which, plans.probabilities)
    assert float(of_order.sort().values.diff().min()) > 1e-4
    found = step_bound(model_of(denoiser, LINEAR), x0.repeat(6000, 1), steps, 1, seeded(1), sampler=sampler)
    distance, nearest = (found[:, None] - of_order).abs().min(1)
    assert float(distance.max()) < 1e-9
    assert chi_square_p_value(nearest.bincount(minlength=len(orders)).numpy(), share.numpy()) > 1e-5


@pytest.mark.parametrize("sampler", [Parallel(), FirstHitting()], ids=repr)
def test_one_by_one_the_bound_is_below_the_any_order_likelihood(sampler: Sampler) -> None:
    likelihood = any_order_law(TIMELESS).log()
    model = MaskedDiffusion(TIMELESS, LINEAR.schedule, GridLatent(PRIOR))
    found = draws(model, 3, sampler, Particles(1, rows_per_call=400), repeats=100)
    assert bool((found.mean(0) < likelihood + 5 * standard_error(found)).all())
    # All x0 at once, the gap is the information that the order holds, and far from rounding.
    assert float((likelihood - found.mean(0)).mean()) > 0.01


def test_algorithm_2_is_the_default() -> None:
    model, x0 = model_of(MDLM, LINEAR), all_sequences(3, 2)
    by_default = step_bound(model, x0, 3, 1, seeded(0))
    assert by_default.equal(step_bound(model, x0, 3, 1, seeded(0), sampler=Ancestral()))
    assert not by_default.equal(step_bound(model, x0, 3, 1, seeded(0), sampler=Parallel()))


class NeverCalled(nn.Module):
    positions, vocab_size, uses_time = 3, 2, False

    def forward(self, *arguments: object) -> torch.Tensor:
        raise AssertionError("the network must not be asked")


class OfOnesOwn(Sampler):
    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        raise AssertionError("nothing is drawn")


def test_no_bound_exists_for_samplers_of_which_nothing_is_known() -> None:
    model = MaskedDiffusion(NeverCalled(), LINEAR.schedule)
    with pytest.raises(UserError, match=r"OfOnesOwn: it does not .*choose from ancestral, parallel, first-hitting"):
        step_bound(model, all_sequences(3, 2), 3, 1, sampler=OfOnesOwn())


def test_numbers_of_steps_that_the_sampler_cannot_take_are_refused() -> None:
    model, x0 = MaskedDiffusion(NeverCalled(), LINEAR.schedule), all_sequences(3, 2)
    with pytest.raises(UserError, match="at most 3 steps, not 4"):
        step_bound(model, x0, 4, 1, sampler=Parallel())
    with pytest.raises(UserError, match="3 steps, not 2"):
        step_bound(model, x0, 2, 1, sampler=FirstHitting())
