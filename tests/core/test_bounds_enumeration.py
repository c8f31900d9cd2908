"""The step bound against exact sums: every value of x0, every assignment of positions to steps, z on a grid.

The inequalities are about a model whose prior is the uniform distribution on the grid of z. They hold for it exactly,
so their tolerance, 1e-9, is for rounding only. Where the package draws z from the normal prior, the grid is fine enough
for the error of the sums to stay far below the standard errors (tested). Seeds are fixed. A comparison fails by chance
beyond 5 standard errors, one-sided with probability 3e-7; there are fewer than 400, one for each x0, so if the seeds
are ever changed a correct package fails one of them with probability about 1e-4.
"""

import itertools
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.bounds import (
    NO_LATENT,
    DoubleDenoiser,
    DoubleRecognizer,
    GridLatent,
    PriorGrid,
    assignment_bounds,
    assignment_probabilities,
    bound_draws,
    exact_integral,
    exact_log_likelihood,
    exact_step_bound,
    grid_times,
    mean_log,
    relative_second_moment,
    standard_error,
)
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    KnownSchedule,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    chi_square_p_value,
    index_of,
    seeded,
)
from tests.helpers.networks import flat_settings
from vadd.core import (
    ExactCount,
    GaussianLatent,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Particles,
    kl_warmup,
    objective,
    step_bound,
)
from vadd.core.base import Denoiser
from vadd.core.gaussian import ProposalName
from vadd.core.sampling import Grid
from vadd.data import copies_distribution
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer

NODES = 150
COARSE, FINE = PriorGrid.quantiles(NODES), PriorGrid.even()
PRIOR: tuple[ProposalName, ...] = ("prior",)
CHUNKED = Particles(1, rows_per_call=50)
"""For latents that are summed over the grid: keeps the number of sequences seen at once small."""

UNTRAINED: dict[str, Denoiser] = {
    "2 positions, 4 values": TableDenoiser(2, 4, seed=1, latent=True),
    "3 positions, 3 values, timed": TableDenoiser(3, 3, seed=2, latent=True, timed=True),
    "4 positions, 2 values, timed": TableDenoiser(4, 2, seed=3, latent=True, timed=True),
    "3 positions, no latent": TableDenoiser(3, 2, seed=4, timed=True),
}
for_every_sampler = pytest.mark.parametrize(
    ("steps", "grid", "known"),
    [
        (steps, grid, known)
        for steps in (1, 2, 3)
        for grid in ("uniform", "cosine")
        for known in (LINEAR, COSINE)
        if steps > 1 or (grid == "uniform" and known == LINEAR)  # one step is the same on every grid
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)


def small_mlps() -> tuple[nn.Module, nn.Module]:
    """For 3 positions, 3 values, d = 1."""
    denoiser = MlpDenoiser(3, 3, flat_settings("mlp", width=32, depth=1, latent_frequencies=(1, 2)), latent_dim=1)
    return DoubleDenoiser(denoiser), DoubleRecognizer(
        SiameseMlpRecognizer(3, 3, flat_settings("mlp", width=32, depth=1), latent_dim=1)
    )


@pytest.fixture(scope="module")
def data() -> Tensor:
    """Three noisy copies of one symbol, (27,): 1.36 nats of dependence, in total 1.94 nats of entropy."""
    return torch.from_numpy(copies_distribution(3, 3, 0.1)).flatten()


@pytest.fixture(scope="module")
def trained(data: Tensor) -> MaskedDiffusion:
    """A VADD of the package's own networks after 300 steps of Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        denoiser, recognizer = small_mlps()
    model = MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(recognizer, dim=1, particles=2))
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=0.01), seeded(0)
    every_x0 = all_sequences(3, 3)
    for step in range(300):
        x0 = every_x0[torch.multinomial(data, 64, replacement=True, generator=generator)]
        batch = MaskedBatch.of(x0, ExactCount()(64, 3, model.schedule, generator), model.mask_value)
        loss = objective(model(batch, kl_warmup(step, 60), generator), 3).loss
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.requires_grad_(False)


def gaps(denoiser: Denoiser, known: KnownSchedule, times: list[float]) -> Tensor:
    """Exact log-likelihood minus exact expected bound, for every x0."""
    likelihood = exact_log_likelihood(denoiser, known, times, NODES)
    return likelihood - exact_step_bound(denoiser, known, times, COARSE)


@for_every_sampler
@pytest.mark.parametrize("denoiser", UNTRAINED.values(), ids=UNTRAINED)
def test_the_expected_bound_of_an_untrained_model_never_exceeds_the_likelihood_of_the_sampler(
    denoiser: Denoiser, steps: int, grid: Grid, known: KnownSchedule
) -> None:
    found = gaps(denoiser, known, grid_times(steps, grid))
    assert found.min() >= -1e-9
    if steps == 1:
        assert found.max() <= 1e-9, "in one step the bound is the likelihood"
    else:
        assert found.max() > 0.01, "otherwise the comparison would prove little"


@for_every_sampler
def test_the_expected_bound_of_a_trained_model_never_exceeds_the_likelihood_of_the_sampler(
    trained: MaskedDiffusion, data: Tensor, steps: int, grid: Grid, known: KnownSchedule
) -> None:
    times = grid_times(steps, grid)
    found = gaps(trained.denoiser, known, times)
    assert found.min() >= -1e-9
    if steps == 1:
        assert found.max() <= 1e-9
    else:
        assert found.max() > 0.01
    entropy = -float(data @ data.log())
    assert -float(data @ exact_step_bound(trained.denoiser, known, times, COARSE)) > entropy


def test_the_trained_model_has_learnt_the_dependence_and_the_papers_integral_puts_it_below_the_entropy(
    trained: MaskedDiffusion, data: Tensor
) -> None:
    entropy, independent = -float(data @ data.log()), 3 * float(torch.tensor(3.0).log())
    in_one_step = -float(data @ exact_step_bound(trained.denoiser, LINEAR, grid_times(1), COARSE))
    assert entropy < in_one_step < entropy + 0.25 * (independent - entropy)
    assert -float(data @ exact_integral(trained.denoiser, COARSE)) < entropy - 0.3


def random_vadd(positions: int, values: int, seed: int) -> MaskedDiffusion:
    """Bent by z and t, with a recognition model that knows nothing."""
    denoiser = TableDenoiser(positions, values, seed=seed, latent=True, timed=True)
    return MaskedDiffusion(denoiser, LINEAR.schedule, GaussianLatent(TableRecognizer(positions, values), dim=1))


def every_x0(model: MaskedDiffusion) -> Tensor:
    return all_sequences(model.positions, model.vocab_size)


@pytest.fixture(params=["untrained", "trained"])
def vadd(request: pytest.FixtureRequest, trained: MaskedDiffusion) -> MaskedDiffusion:
    return trained if request.param == "trained" else random_vadd(2, 3, seed=5)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_grid_of_z_is_fine_enough(vadd: MaskedDiffusion, steps: int) -> None:
    """Half as many nodes change nothing by more than 1e-4; the standard errors below are above 1e-3."""
    fine, half = (
        exact_step_bound(vadd.denoiser, LINEAR, grid_times(steps), grid) for grid in (FINE, PriorGrid.even(200))
    )
    assert float((fine - half).abs().max()) < 1e-4


@for_every_sampler
def test_without_a_latent_every_draw_is_the_exact_value_of_an_assignment_of_positions_to_steps(
    steps: int, grid: Grid, known: KnownSchedule
) -> None:
    """And the assignments follow their law: chi-square at level 1e-5. The times reach the denoiser in float32, so the
    values agree to 1e-5; those of different assignments differ by more.
    """
    model = MaskedDiffusion(TableDenoiser(3, 2, seed=4, timed=True), known.schedule)
    times, x0 = grid_times(steps, grid), torch.tensor([1, 0, 1])
    exact = assignment_bounds(model.denoiser, times, NO_LATENT)[:, int(index_of(x0[None], 2))]
    draws = step_bound(model, x0.repeat(30_000, 1), steps, Particles(1), seeded(0), grid=grid)
    distance, assignment = (draws[:, None] - exact).abs().min(1)
    assert float(distance.max()) < 1e-5
    if steps > 1:
        assert float(exact.sort().values.diff().min()) > 1e-4
        counts = assignment.bincount(minlength=len(exact))
        assert chi_square_p_value(counts.numpy(), assignment_probabilities(3, known, times).numpy()) > 1e-5


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_one_particle_from_the_prior_averages_to_its_exact_expectation(vadd: MaskedDiffusion, steps: int) -> None:
    exact = exact_step_bound(vadd.denoiser, LINEAR, grid_times(steps), FINE, inner=mean_log)
    draws = bound_draws(vadd, every_x0(vadd), steps, Particles(1, PRIOR), seeded(1), repeats=2000)
    assert bool(((draws.mean(0) - exact).abs() < 5 * standard_error(draws)).all())


def with_exact_latent(model: MaskedDiffusion) -> MaskedDiffusion:
    return MaskedDiffusion(cast(nn.Module, model.denoiser), model.schedule, GridLatent(FINE))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_draws_average_to_at_most_the_exact_expectation(vadd: MaskedDiffusion, steps: int) -> None:
    """For each x0, with one particle from each proposal."""
    exact = exact_step_bound(vadd.denoiser, LINEAR, grid_times(steps), FINE)
    draws = bound_draws(vadd, every_x0(vadd), steps, Particles(3), seeded(2), repeats=1000)
    assert bool((draws.mean(0) <= exact + 5 * standard_error(draws)).all())


@pytest.mark.parametrize("steps", [2, 3])
def test_with_the_latent_summed_out_the_draws_average_to_the_exact_expectation(steps: int) -> None:
    """For each of 9 values of x0: the masks again, now with a latent."""
    model = with_exact_latent(random_vadd(2, 3, seed=5))
    exact = exact_step_bound(model.denoiser, LINEAR, grid_times(steps), FINE)
    draws = bound_draws(model, every_x0(model), steps, CHUNKED, seeded(2), repeats=300)
    assert bool(((draws.mean(0) - exact).abs() < 5 * standard_error(draws)).all())


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_with_many_particles_the_draws_approach_the_exact_sum_over_the_latent_from_below(
    vadd: MaskedDiffusion, steps: int
) -> None:
    """K = 256, 810 draws spread evenly over x0, mask by mask. The weights of three even proposals with the prior among
    them are below K / K_prior, about 3, so the relative variance of the mean weight is below 3 R / K, where R = E f^2 /
    (E f)^2, and the logarithm loses half of that to leading order. Allowed is all of it: 0.03 to 0.06 nats here.
    """
    x0 = every_x0(vadd).repeat(810 // len(every_x0(vadd)), 1)
    draws = step_bound(vadd, x0, steps, Particles(256), seeded(2))
    exact = step_bound(with_exact_latent(vadd), x0, steps, CHUNKED, seeded(2))
    moment = exact_step_bound(vadd.denoiser, LINEAR, grid_times(steps), FINE, relative_second_moment).mean()
    loss, error = float((exact - draws).mean()), 5 * float(standard_error(exact - draws))
    assert -error < loss < error + 3 * float(moment) / 256


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("proposals", [PRIOR, ("recognition", "revealed", "prior")], ids=["prior", "all"])
def test_the_bound_rises_with_the_number_of_particles(
    vadd: MaskedDiffusion, proposals: tuple[ProposalName, ...], steps: int
) -> None:
    """K = 1, 8, 64 over 3,000 draws spread evenly over x0, with the same masks: each mean lies above the one before by
    more than 5 standard errors of the difference. For mixed proposals it is a fact about these models, not a theorem.
    """
    x0 = every_x0(vadd).repeat(3000 // len(every_x0(vadd)), 1)
    draws = [step_bound(vadd, x0, steps, Particles(count, proposals), seeded(3)) for count in (1, 8, 64)]
    for lower, upper in itertools.pairwise(draws):
        assert float((upper - lower).mean()) > 5 * float(standard_error(upper - lower))


def test_every_example_gets_its_own_bound_in_float64() -> None:
    """The bound of an example does not depend on its neighbours: without a latent it takes one of few known values."""
    model = MaskedDiffusion(TableDenoiser(2, 3, seed=8), LINEAR.schedule)
    x0 = torch.tensor([[0, 1], [2, 2], [0, 1]]).repeat(200, 1)
    found = step_bound(model, x0, 2, Particles(1), seeded(0))
    assert found.shape == (600,)
    assert found.dtype == torch.float64
    # Both positions in one step, or the first or the second before the other: three values for each x0.
    assert len(set(found[0::3].tolist())) == 3
    assert set(found[0::3].tolist()) == set(found[2::3].tolist())
    assert not set(found[0::3].tolist()) & set(found[1::3].tolist())
