"""The sampler that keeps one z for all its steps, and its bound, against exact sums over plans and a grid of z.

Seeds are fixed. Samples are compared with the exact law by chi-square tests at level 1e-5; means of bounds with exact
values at 5 standard errors, one-sided 3e-7 by chance. There are fewer than 20 of the first and 250 of the second: if
the seeds are ever changed, a correct package fails one of them with probability below 3e-4.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.bounds import GridLatent, log_mean, relative_second_moment, standard_error
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    KnownSchedule,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    chi_square_p_value,
    seeded,
)
from tests.helpers.plans import (
    PRIOR,
    Planner,
    Plans,
    ancestral,
    model_of,
    p_value,
    parallel,
    plan_log_likelihoods,
    planned_law,
)
from vadd.core import (
    Ancestral,
    GaussianLatent,
    MaskedDiffusion,
    Parallel,
    Particles,
    Sampler,
    SharedLatent,
    sample,
    step_bound,
)

LEVEL = 1e-5


@dataclass(frozen=True)
class Case:
    """A sampler as the package runs it, all its plans, and a model to run it on."""

    sampler: Sampler
    steps: int
    planner: Planner
    denoiser: TableDenoiser
    known: KnownSchedule

    @property
    def name(self) -> str:
        return f"{type(self.sampler).__name__} {self.steps} {self.known.name} N={self.denoiser.positions}"

    @property
    def plans(self) -> Plans:
        return self.planner([True] * self.denoiser.positions, self.known)


def uniform(steps: int) -> Planner:
    return ancestral([step / steps for step in range(steps + 1)])


def alike_in_every_state(positions: int, values: int, seed: int) -> TableDenoiser:
    """Random logits, but z bends them much alike in every state and at every position, towards high values or towards
    low ones: else it would hardly matter whether z is kept.
    """
    denoiser = TableDenoiser(positions, values, seed=seed, latent=True, timed=True)
    with torch.no_grad():
        denoiser.amplitude.mul_(0.2).add_(torch.linspace(-1, 1, values))
        denoiser.frequency.mul_(0.2).add_(0.7)
    return denoiser


THREE = alike_in_every_state(3, 2, seed=11)
PAIR = alike_in_every_state(2, 3, seed=12)
CASES = [
    Case(Ancestral(), 1, uniform(1), PAIR, LINEAR),
    Case(Ancestral(), 2, uniform(2), PAIR, COSINE),
    Case(Ancestral(), 2, uniform(2), THREE, LINEAR),
    Case(Ancestral(), 3, uniform(3), THREE, COSINE),
    Case(Parallel(), 1, parallel(1), THREE, LINEAR),
    Case(Parallel(), 2, parallel(2), PAIR, LINEAR),
    Case(Parallel(), 2, parallel(2), THREE, COSINE),
    Case(Parallel(), 3, parallel(3), THREE, LINEAR),
]
for_each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def every_x0(case: Case) -> Tensor:
    return all_sequences(case.denoiser.positions, case.denoiser.vocab_size)


def exact_law(case: Case) -> Tensor:
    return planned_law(case.denoiser, case.known, case.planner, fixed_z=True)


def summed_out(case: Case, pad: int | None = None) -> MaskedDiffusion:
    """The same model, with z summed out over a grid where the bound would draw it."""
    return MaskedDiffusion(case.denoiser, case.known.schedule, GridLatent(PRIOR), pad)


def with_recognizer(case: Case, pad: int | None = None) -> MaskedDiffusion:
    """With a recognition model that knows nothing: proposals are valid whatever they are."""
    positions, values = case.denoiser.positions, case.denoiser.vocab_size
    latent = GaussianLatent(TableRecognizer(positions, values, seed=3), dim=1)
    return MaskedDiffusion(case.denoiser, case.known.schedule, latent, pad)


def one_latent_bound(case: Case, model: MaskedDiffusion, x0: Tensor, particles: Particles, seed: int) -> Tensor:
    return step_bound(model, x0, case.steps, particles, seeded(seed), sampler=case.sampler, latent_policy="fixed")


SUMMED = Particles(1, rows_per_call=200_000)
"""For latents that are summed over the grid."""


@for_each_case
def test_samples_with_one_z_follow_the_enumeration_of_plans_and_z(case: Case) -> None:
    """Chi-square at level 1e-5 with 20,000 samples. With more steps than one the law of a fresh z at each step is
    another one, and the same samples refute it.
    """
    model, generator = model_of(case.denoiser, case.known), seeded(0)
    drawn = sample(model, 20_000, case.steps, generator, sampler=case.sampler, latent_policy="fixed").tokens
    law = exact_law(case)
    assert_close(float(law.sum()), 1.0, rtol=0, atol=1e-9)
    assert p_value(drawn, law, case.denoiser.vocab_size) > LEVEL
    if case.steps > 1:
        fresh = planned_law(case.denoiser, case.known, case.planner)
        assert p_value(drawn, fresh, case.denoiser.vocab_size) < 1e-12


@for_each_case
def test_the_expected_bound_never_exceeds_the_log_likelihood_of_any_sequence(case: Case) -> None:
    """Exact on both sides: rounding only, 1e-9. In one step they are equal."""
    values = plan_log_likelihoods(case.denoiser, PRIOR, case.plans, every_x0(case), fixed_z=True)
    gap = exact_law(case).log() - case.plans.probabilities @ values
    assert float(gap.min()) > -1e-9
    assert float(gap.max()) < 1e-9 if case.steps == 1 else float(gap.max()) > 0.01


@for_each_case
def test_with_z_summed_out_every_draw_of_the_bound_is_the_exact_value_of_a_plan(case: Case) -> None:
    """And the plans follow their law: chi-square at level 1e-5. Times reach the denoiser in float32, so values agree to
    1e-5. Together with the test above: the mean of the bound lies below the log-likelihood.
    """
    x0 = every_x0(case)[len(every_x0(case)) // 2]
    exact = plan_log_likelihoods(case.denoiser, PRIOR, case.plans, x0[None], fixed_z=True)[:, 0]
    draws = one_latent_bound(case, summed_out(case), x0.repeat(2000, 1), SUMMED, seed=1)
    distance, plan = (draws[:, None] - exact).abs().min(1)
    assert float(distance.max()) < 1e-5
    if len(exact) > 1:
        assert float(exact.sort().values.diff().min()) > 3e-5, "plans can be told apart"
        assert chi_square_p_value(plan.bincount(minlength=len(exact)).numpy(), case.plans.probabilities.numpy()) > LEVEL


@for_each_case
@pytest.mark.parametrize("count", [1, 4])
def test_with_few_particles_the_mean_stays_below_the_log_likelihood_of_every_sequence(case: Case, count: int) -> None:
    """For each x0, 400 draws, by at most 5 standard errors; particles come from all three proposals."""
    x0 = every_x0(case)
    draws = one_latent_bound(case, with_recognizer(case), x0.repeat(400, 1), Particles(count), seed=2)
    draws = draws.view(400, len(x0))
    assert bool((draws.mean(0) <= exact_law(case).log() + 5 * standard_error(draws)).all())


@for_each_case
def test_with_many_particles_the_mean_meets_the_expected_bound(case: Case) -> None:
    """K = 300, for all x0 at once, 800 draws with the same plans as the sum over the grid of z. Weights are below
    K / K_prior = 3, so the relative variance of the mean weight is below 3 R / K with R = E f^2 / (E f)^2, and the
    logarithm loses half of that to leading order. Allowed is all of it, and 5 standard errors.
    """
    x0 = every_x0(case).repeat(800 // len(every_x0(case)), 1)
    drawn = one_latent_bound(case, with_recognizer(case), x0, Particles(300), seed=3)
    exact = one_latent_bound(case, summed_out(case), x0, SUMMED, seed=3)
    moments = plan_log_likelihoods(
        case.denoiser, PRIOR, case.plans, every_x0(case), fixed_z=True, inner=relative_second_moment
    )
    loss, error = float((exact - drawn).mean()), 5 * float(standard_error(exact - drawn))
    assert -error < loss < error + 3 * float((case.plans.probabilities @ moments).mean()) / 300


@pytest.mark.parametrize("case", [case for case in CASES if case.steps == 1], ids=lambda case: case.name)
def test_in_one_step_one_z_and_a_fresh_z_are_the_same_bound_and_meet_the_likelihood(case: Case) -> None:
    """The same seed gives the same particles, so both agree to rounding, 1e-9, at every K. The loss falls with K: at
    K = 4000 below 3 R / K plus 5 standard errors, see above.
    """
    x0, law = every_x0(case).repeat(20, 1), exact_law(case).log().repeat(20)
    moments = plan_log_likelihoods(
        case.denoiser, PRIOR, case.plans, every_x0(case), fixed_z=True, inner=relative_second_moment
    )
    losses = []
    for count in (1, 30, 4000):
        model, particles = with_recognizer(case), Particles(count)
        fixed = one_latent_bound(case, model, x0, particles, seed=4)
        fresh = step_bound(model, x0, 1, particles, seeded(4), sampler=case.sampler)
        assert_close(fixed, fresh, rtol=0, atol=1e-9)
        losses.append(float((law - fixed).mean()))
    assert losses[0] > losses[1] > losses[2]
    error = 5 * float(standard_error(law - fixed))
    assert -error < losses[2] < error + 3 * float(moments.mean()) / 4000


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("sampler", [Ancestral(), Parallel()], ids=lambda sampler: type(sampler).__name__)
def test_without_a_latent_one_z_and_a_fresh_z_are_the_same(sampler: Sampler, steps: int) -> None:
    """To rounding, 1e-9: the same seed gives the same plan."""
    model = MaskedDiffusion(TableDenoiser(3, 2, seed=5, timed=True), LINEAR.schedule)
    x0 = all_sequences(3, 2).repeat(20, 1)
    fixed, fresh = (
        step_bound(model, x0, steps, 3, seeded(5), sampler=sampler, latent_policy=policy)
        for policy in ("fixed", "resample")
    )
    assert fixed.dtype == torch.float64
    assert_close(fixed, fresh, rtol=0, atol=1e-9)


@torch.no_grad()
def values_of_plans(case: Case, x0: Tensor, scored: Tensor) -> Tensor:
    """log E_z prod over the ``scored`` (N,) positions of x0 (N,), for every plan: (P,). The others are seen all the
    same. Written once more, without the helpers: from the states, step after step.
    """
    plans, mask = case.plans, case.denoiser.vocab_size
    total = torch.zeros(len(PRIOR.z), len(plans.step_of), dtype=torch.float64)
    for number, step_of in enumerate(plans.step_of):
        for step in range(1, case.steps + 1):
            state = x0.masked_fill(step_of <= step, mask).expand(len(PRIOR.z), -1)
            time = plans.times[number, step].expand(len(PRIOR.z))
            log_mu = case.denoiser(state, PRIOR.z, time, torch.ones_like(state, dtype=torch.bool))
            log_mu = log_mu.view(*state.shape, -1).log_softmax(-1)
            for position in ((step_of == step) & scored).nonzero()[:, 0].tolist():
                total[:, number] += log_mu[:, position, x0[position]]
    return log_mean(total, PRIOR.weights)


WITH_PADS = [case for case in CASES if case.denoiser is PAIR or (case.denoiser is THREE and case.steps > 1)]


@pytest.mark.parametrize("case", WITH_PADS, ids=lambda case: case.name)
def test_pads_are_seen_but_not_scored(case: Case) -> None:
    """The value 0 is a pad. With z summed out a draw is the exact value of a plan, of the positions that are no pads;
    1e-5 for times in float32. With few particles the mean of 400 draws stays below the exact mean over plans, by at
    most 5 standard errors. Of an example of nothing but pads there is nothing to tell: 0.
    """
    sequences = every_x0(case)
    exact = torch.stack([values_of_plans(case, x0, x0 != 0) for x0 in sequences])
    summed = one_latent_bound(case, summed_out(case, pad=0), sequences.repeat(50, 1), SUMMED, seed=6)
    summed = summed.view(50, len(sequences))
    assert float((summed[..., None] - exact).abs().min(-1).values.max()) < 1e-5
    drawn = one_latent_bound(case, with_recognizer(case, pad=0), sequences.repeat(400, 1), Particles(3), seed=7)
    drawn = drawn.view(400, len(sequences))
    expected = exact @ case.plans.probabilities
    assert bool((drawn.mean(0) <= expected + 5 * standard_error(drawn)).all())
    assert bool((sequences[0] == 0).all())
    assert float(drawn[:, 0].abs().max()) == 0.0


@pytest.mark.parametrize("case", WITH_PADS, ids=lambda case: case.name)
def test_a_model_that_scores_its_pads_has_the_bound_of_one_without(case: Case) -> None:
    """Bit for bit. And the values of plans are those that the helpers compute, to rounding."""
    x0 = every_x0(case)
    scoring, without = (
        one_latent_bound(case, model, x0, Particles(5), seed=8)
        for model in (with_recognizer(case, pad=0).scoring_pads(), with_recognizer(case))
    )
    assert torch.equal(scoring, without)
    everything = torch.ones(case.denoiser.positions, dtype=torch.bool)
    by_hand = torch.stack([values_of_plans(case, row, everything) for row in x0], dim=1)
    by_helper = plan_log_likelihoods(case.denoiser, PRIOR, case.plans, x0, fixed_z=True)
    assert_close(by_hand, by_helper, rtol=0, atol=1e-9)


def test_a_shared_latent_has_the_bound_of_its_recognition_model_shown_everything_masked() -> None:
    """Bit for bit: both recognise z from x0 and the state in which all is masked."""
    case = CASES[3]
    recognizer = TableRecognizer(3, 2, seed=3)
    shared = MaskedDiffusion(case.denoiser, case.known.schedule, SharedLatent(recognizer, 1, mask_value=2))
    x0 = every_x0(case)
    one, two = (one_latent_bound(case, model, x0, Particles(6), seed=9) for model in (shared, with_recognizer(case)))
    assert torch.equal(one, two)
