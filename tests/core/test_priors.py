"""Learned priors: flows are densities, conditional or not, from N(0, I) or a mixture, and draws follow them.


Seeds are fixed. Comparisons of draws with densities are chi-square tests at level 1e-5, fewer than 60 of them: if the
seeds are ever changed, a correct package fails one with probability below 6e-4. Integrals are sums over fine grids; the
densities have narrow peaks, and what is left of error is below the tolerance that each test states.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import all_sequences, chi_square_p_value, normal_log_density, properties, seeded, sigmas
from tests.helpers.priors import bent_flow, conditional_prior, line, plane, unit_squares
from vadd.core import DiagonalGaussian, FlowPrior, Noise, StandardNormal

LEVEL = 1e-5
DRAWS = 20_000
STATES = all_sequences(2, 3)
"""Of two positions with two values and the mask."""
MOMENTS: list[Callable[[Tensor], Tensor]] = [lambda z: z, lambda z: z**2, lambda z: (2 * z).sin()]
for_some_flows = pytest.mark.parametrize(
    ("seed", "components", "context"),
    [(0, 1, 0), (1, 1, 0), (2, 1, 0), (0, 1, 3), (0, 5, 0), (1, 5, 0), (0, 5, 3), (1, 5, 3), (0, 0, 0), (1, 0, 3)],
)
"""From N(0, I), from mixtures, and (0 components) autoregressive; without a context, and with one that is the same
for all z.
"""
for_every_density = pytest.mark.parametrize("components", [1, 5, 0])


def some_context(seed: int, size: int, rows: int) -> Tensor | None:
    """The same one in all rows, (rows, size)."""
    return torch.randn(size, generator=seeded(seed), dtype=torch.float64).expand(rows, size) if size else None


def assert_follows(z: Tensor, density: Tensor, grid: Tensor, step: float) -> None:
    """Draws (n,) against a density on a grid of the line: chi-square over 20 intervals of equal probability."""
    levels = (density.cumsum(0) - density / 2) * step
    uniforms = np.interp(z.double().numpy(), grid[:, 0].numpy(), levels.numpy())
    counts = np.bincount((uniforms * 20).astype(int).clip(0, 19), minlength=20)
    assert chi_square_p_value(counts, np.full(20, 1 / 20)) > LEVEL


@for_some_flows
@torch.no_grad()
def test_a_flow_over_one_number_is_a_density_and_its_draws_follow_it(seed: int, components: int, context: int) -> None:
    """The integral is 1 to 1e-4. Draws by Rosenblatt's transform, at level 1e-5; those of N(0, I) would not pass."""
    flow = bent_flow(1, context, seed=seed, components=components).double()
    grid, step = line()
    density = flow.log_prob(grid, some_context(seed, context, len(grid))).exp()
    assert_close(float(density.sum() * step), 1.0, rtol=0, atol=1e-4)
    noise = torch.randn(DRAWS, flow.noise_dim, generator=seeded(seed), dtype=torch.float64)
    assert_follows(flow.from_noise(noise, some_context(seed, context, DRAWS))[:, 0], density, grid, step)
    with pytest.raises(AssertionError):
        assert_follows(noise[:, 0], density, grid, step)


@for_some_flows
@torch.no_grad()
def test_a_flow_over_two_numbers_is_a_density_and_its_draws_follow_it(seed: int, components: int, context: int) -> None:
    """The integral is 1 to 1e-3. Draws are counted in 64 squares of side 1 and outside of them, at level 1e-5."""
    flow = bent_flow(2, context, seed=seed, by=0.1, components=components).double()
    grid, area = plane()
    mass = flow.log_prob(grid, some_context(seed, context, len(grid))).exp() * area
    assert_close(float(mass.sum()), 1.0, rtol=0, atol=1e-3)

    # Every square holds 20 x 20 points of the grid, none of them on its border.
    expected = torch.zeros(65, dtype=torch.float64).index_add(0, unit_squares(grid), mass)
    noise = torch.randn(DRAWS, flow.noise_dim, generator=seeded(seed), dtype=torch.float64)
    counts = unit_squares(flow.from_noise(noise, some_context(seed, context, DRAWS))).bincount(minlength=65)
    assert chi_square_p_value(counts.numpy(), (expected / expected.sum()).numpy()) > LEVEL


@properties
@given(
    dim=st.integers(1, 5),
    context=st.integers(0, 3),
    seed=st.integers(0, 1000),
    numbers=st.lists(st.floats(-3, 3), min_size=5, max_size=5),
)
def test_the_density_of_a_draw_is_that_of_its_noise_over_the_stretching(
    dim: int, context: int, seed: int, numbers: list[float]
) -> None:
    """log_prob(from_noise(e)) = log N(e) - log |d from_noise / d e|, by autograd in float64, to 1e-6: the map that
    draws is the inverse of the one whose density is computed, with the same context.
    """
    flow = bent_flow(dim, context, seed=seed).double()
    told = torch.randn(context, generator=seeded(seed), dtype=torch.float64) if context else None
    noise = torch.tensor(numbers[:dim], dtype=torch.float64)
    stretching: Tensor = torch.autograd.functional.jacobian(lambda e: flow.from_noise(e, told), noise)  # type: ignore[no-untyped-call]
    z = flow.from_noise(noise, told)
    expected = normal_log_density(noise).sum() - torch.linalg.slogdet(stretching).logabsdet
    assert_close(flow.log_prob(z, told), expected, rtol=0, atol=1e-6)


@for_every_density
@torch.no_grad()
def test_a_conditional_prior_is_a_density_in_every_state_and_its_draws_follow_it(components: int) -> None:
    """All nine states. Integrals to 1e-4; draws both ways, ``draw`` and ``draws``, at level 1e-5 each."""
    prior, (grid, step) = conditional_prior(2, 2, dim=1, components=components), line()
    assert prior.conditional
    densities = prior.log_prob(grid[:, None].expand(-1, len(STATES), -1), STATES).exp()
    assert_close(densities.sum(0) * step, torch.ones(len(STATES), dtype=torch.float64), rtol=0, atol=1e-4)
    many = prior.draws(DRAWS, STATES, seeded(0))
    rows = STATES.repeat_interleave(DRAWS, dim=0)
    noise = Noise.of(seeded(1), len(rows)).normal(prior.noise_dim)
    one_each = prior.from_noise(noise[None], rows).view(len(STATES), DRAWS)
    for state in range(len(STATES)):
        assert_follows(many[:, state, 0], densities[:, state], grid, step)
        assert_follows(one_each[state], densities[:, state], grid, step)
    with pytest.raises(AssertionError):  # the states differ
        assert_follows(many[:, 0, 0], densities[:, 1], grid, step)


@torch.no_grad()
def test_the_nodes_of_a_conditional_prior_integrate_over_its_density_in_every_state() -> None:
    """E z, E z^2 and E sin 2z, to 0.01: tails are cut at the outermost of 1000 quantiles."""
    prior, (grid, step) = conditional_prior(2, 2, dim=1), line()
    for state in STATES:
        points, weights = prior.nodes(1000, state)
        assert points.shape == (1000, 1)
        assert_close(float(weights.sum()), 1.0, rtol=0, atol=1e-12)
        mass = prior.log_prob(grid[:, None], state[None])[:, 0].exp() * step
        for function in MOMENTS:
            exact = float(mass @ function(grid[:, 0]))
            assert_close(float(weights @ function(points[:, 0].double())), exact, rtol=0, atol=0.01)


@torch.no_grad()
def test_nodes_in_two_dimensions_integrate_over_the_density_and_in_three_over_the_normal() -> None:
    """To 0.05 with 50 x 50 nodes, to 0.01 with 4096 of a Sobol sequence."""
    prior, (grid, area) = FlowPrior(bent_flow(2, seed=3, by=0.1)), plane()
    nothing = torch.zeros(4, dtype=torch.int64)
    mass = prior.log_prob(grid[:, None], nothing[None])[:, 0].exp() * area
    points, weights = prior.nodes(2500, nothing)
    assert points.shape == (2500, 2)
    moments, exact = (
        w @ torch.cat([z, z**2, z[:, :1] * z[:, 1:]], 1) for z, w in ((points.double(), weights), (grid, mass))
    )
    assert_close(moments, exact, rtol=0, atol=0.05)
    points, weights = StandardNormal(3).nodes(4096, nothing)
    assert_close(weights @ points.double(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=0.01)
    assert_close(points.double().T @ torch.diag(weights) @ points.double(), torch.eye(3).double(), rtol=0, atol=0.01)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("components", [5, 128, 0])
@torch.no_grad()
def test_the_nodes_and_the_draws_of_a_mixture_have_the_moments_of_its_density(dim: int, components: int) -> None:
    """E z, E z^2 and E sin 2z of every number. With 4096 nodes to 0.02, also where there are 128 components: every one
    must have its share of the nodes. 20,000 draws both ways, each moment at 5 standard errors: 36 comparisons in all,
    two-sided 6e-7 by chance each.
    """
    prior = FlowPrior(bent_flow(dim, seed=1, by=0.1 if dim == 2 else 0.3, components=components))
    grid, step = line() if dim == 1 else plane()
    nothing = torch.zeros(4, dtype=torch.int64)
    mass = prior.log_prob(grid[:, None], nothing[None])[:, 0].exp() * step
    points, weights = prior.nodes(4096, nothing)
    assert points.shape == (4096, dim)
    assert_close(float(weights.sum()), 1.0, rtol=0, atol=1e-12)
    rows = nothing.expand(DRAWS, -1)
    many = prior.draws(DRAWS, nothing[None], seeded(0))[:, 0]
    one_each = prior.from_noise(Noise.of(seeded(1), DRAWS).normal(prior.noise_dim)[None], rows)[0]
    assert many.shape == one_each.shape == (DRAWS, dim)
    for function in MOMENTS:
        exact = mass @ function(grid)
        assert_close(weights @ function(points.double()), exact, rtol=0, atol=0.02)
        for number in range(dim):
            for draws in (many, one_each):
                assert sigmas(function(draws[:, number]), float(exact[number])) < 5


@for_every_density
def test_in_half_precision_the_density_stays_what_it_is(components: int) -> None:
    prior = FlowPrior(bent_flow(16, by=0.1, components=components))
    z, xt = torch.randn(3, 4, 16, generator=seeded(0)), STATES[:4]
    with torch.autocast("cpu", torch.bfloat16):
        half = prior.log_prob(z, xt)
    assert torch.equal(half, prior.log_prob(z, xt))


@for_every_density
@pytest.mark.parametrize("conditional", [False, True])
def test_the_kl_is_estimated_from_draws_without_bias(conditional: bool, components: int) -> None:
    """KL(r || p) by quadrature, to 1e-3, against the mean over 20,000 draws from r: for each of five posteriors at 5
    standard errors, two-sided 6e-7 by chance. That from N(0, I) is known exactly, whatever is drawn.
    """
    prior = (
        conditional_prior(2, 2, dim=1, components=components)
        if conditional
        else FlowPrior(bent_flow(1, by=0.1, components=components)).requires_grad_(False)
    )
    xt, (grid, step) = STATES[:5], line()
    posterior = DiagonalGaussian(torch.linspace(-2, 2, 5)[:, None], torch.linspace(-1.5, -0.5, 5)[:, None])
    z = grid[:, None].expand(-1, 5, -1)
    log_posterior = posterior.log_prob(z)
    exact = (log_posterior.exp() * (log_posterior - prior.log_prob(z, xt))).sum(0) * step
    draws = posterior.draws(DRAWS, seeded(3))
    error = (posterior.log_prob(draws) - prior.log_prob(draws, xt)).std(0) / DRAWS**0.5
    assert bool(((prior.kl(posterior, draws, xt) - exact).abs() < 5 * error + 1e-3).all())
    known = StandardNormal(1).kl(posterior, draws, xt)
    assert_close(known, posterior.kl_to_standard_normal()[:, 0])
