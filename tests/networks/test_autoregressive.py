"""The causal transformer over positions of z: a density, whose draws follow it.

Draws are compared with the density by chi-square tests at level 1e-5, four of them with fixed seeds: if the seeds are
ever changed, a correct package fails with probability below 4e-5.
"""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch.testing import assert_close

from tests.helpers.exact import chi_square_p_value, seeded
from tests.helpers.priors import bent, plane, unit_squares
from vadd.networks.autoregressive import AutoregressiveTransformer

DRAWS = 20_000


def built(positions: int, share: int, *, context: int = 0, seed: int = 0) -> AutoregressiveTransformer:
    """Far from where it starts, in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        density = AutoregressiveTransformer(positions, share, context=context, width=16, blocks=2, components=3)
    bent(density, seed, 0.2)
    return density.double().requires_grad_(False)


def some_context(positions: int, context: int, rows: int) -> Tensor | None:
    """The same one in all rows, another one at each position: (rows, positions * context)."""
    if not context:
        return None
    return torch.randn(positions * context, generator=seeded(3), dtype=torch.float64).expand(rows, -1)


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize(("positions", "share"), [(1, 2), (2, 1)])
def test_it_is_a_density_and_its_draws_follow_it(positions: int, share: int, context: int) -> None:
    """The integral over the plane is 1 to 1e-3; draws are counted in 64 squares of side 1 and outside of them."""
    density = built(positions, share, context=context)
    grid, area = plane(240)
    mass = density.log_prob(grid, some_context(positions, context, len(grid))).exp() * area
    assert_close(float(mass.sum()), 1.0, rtol=0, atol=1e-3)

    expected = torch.zeros(65, dtype=torch.float64).index_add(0, unit_squares(grid), mass)
    noise = torch.randn(DRAWS, density.noise_dim, generator=seeded(1), dtype=torch.float64)
    drawn = density.from_noise(noise, some_context(positions, context, DRAWS))
    counts = unit_squares(drawn).bincount(minlength=65)
    assert chi_square_p_value(counts.numpy(), (expected / expected.sum()).numpy()) > 1e-5


@pytest.mark.parametrize("context", [0, 2])
def test_each_factor_is_a_mixture_given_the_positions_before(context: int) -> None:
    """log p(z) against torch.distributions with the probabilities of a pass that sees the earlier positions alone."""
    positions, share = 5, 3
    density = built(positions, share, context=context, seed=1)
    z = torch.randn(4, positions * share, generator=seeded(2), dtype=torch.float64)
    told = some_context(positions, context, len(z))
    each = Independent(Normal(density.means, density.log_stds.exp()), 1)
    total = torch.zeros(len(z), dtype=torch.float64)
    for position in range(positions):
        known = z.clone()
        known[:, position * share :] = 100.0  # what comes later must not matter
        before = torch.cat([torch.zeros(4, share).double(), known[:, :-share]], dim=1).view(4, positions, share)
        tokens = torch.ones(4, positions, dtype=torch.long)
        tokens[:, 0] = 0
        features = density.body(tokens, None, None, density._read(before, told, slice(None)))
        probabilities = density.writes(features[:, position]).softmax(-1)
        mixture = MixtureSameFamily(Categorical(probabilities), each.expand(probabilities.shape))  # type: ignore[no-untyped-call]
        total += mixture.log_prob(z.view(4, positions, share)[:, position])  # type: ignore[no-untyped-call]
    assert_close(density.log_prob(z, told), total)


def test_a_draw_reads_what_it_has_drawn_itself() -> None:
    """The first noise of two draws differs and nothing else: later positions follow, earlier ones stay."""
    density = built(4, 2)
    noise = torch.zeros(2, density.noise_dim, dtype=torch.float64)
    noise[1, 2] = 2.5  # a deviation at the second position
    first, second = density.from_noise(noise).view(2, 4, 2)
    assert_close(first[0], second[0])
    assert float((first[1] - second[1]).abs().max()) > 0.1
    assert density.from_noise(noise.view(1, 2, -1)).shape == (1, 2, 8)
