"""Flows as networks: what they reach, and what they read. That they are densities is tested with the priors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.helpers.exact import all_sequences, chi_square_p_value, properties, seeded
from tests.helpers.networks import flat_settings
from tests.helpers.priors import bent, bent_mixture, mixture_log_density, mixture_weights
from vadd.networks.flows import CouplingFlow, GaussianMixture, StateReader
from vadd.networks.perceptrons import ResidualRecognizer
from vadd.networks.short_transformer import ShortTransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize

DRAWS = 20_000
for_some_dims = pytest.mark.parametrize("dim", [1, 2, 3, 8, 16])
for_normal_and_mixture = pytest.mark.parametrize("components", [1, 4])


def built(dim: int, seed: int, context: int = 0, **settings: int) -> CouplingFlow:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CouplingFlow(dim, context=context, **settings)


@for_some_dims
@pytest.mark.parametrize("transforms", [2, 5, 8])
def test_every_number_is_transformed_by_every_flow(dim: int, transforms: int) -> None:
    """Whatever the seed is: z differs from its noise in every coordinate."""
    for seed in range(30):
        flow = built(dim, seed, transforms=transforms, width=4)
        bent(flow, seed)
        noise = torch.randn(20, dim, generator=seeded(seed))
        with torch.no_grad():
            moved = (flow.from_noise(noise) != noise).any(dim=0)
        assert bool(moved.all())


@for_some_dims
@for_normal_and_mixture
@torch.no_grad()
def test_the_context_is_read_and_each_row_has_its_own(dim: int, components: int) -> None:
    flow = built(dim, 0, context=3, width=8, components=components)
    bent(flow, 0, by=0.1)
    noise, contexts = torch.randn(4, flow.noise_dim, generator=seeded(1)), torch.randn(4, 3, generator=seeded(2))
    z = flow.from_noise(noise, contexts)
    assert not torch.allclose(z, flow.from_noise(noise, contexts.flip(0)))
    row_by_row = [flow.from_noise(noise[i : i + 1], contexts[i : i + 1]) for i in range(4)]
    torch.testing.assert_close(z, torch.cat(row_by_row))
    several = flow.log_prob(z.expand(5, 4, dim), contexts.expand(5, 4, 3))
    torch.testing.assert_close(several, flow.log_prob(z, contexts).expand(5, 4))


@for_normal_and_mixture
@pytest.mark.parametrize("context", [0, 3])
def test_a_state_of_a_flow_fits_one_that_was_built_with_another_seed(components: int, context: int) -> None:
    """Also which numbers a coupling leaves alone is part of the state, and so is all of a mixture."""
    one, other = (built(5, seed, context, width=8, components=components) for seed in (0, 1))
    bent(one, 0)
    z, noise = torch.randn(6, 5, generator=seeded(0)), torch.randn(6, one.noise_dim, generator=seeded(1))
    told = torch.randn(6, context, generator=seeded(2)) if context else None
    assert not torch.allclose(one.log_prob(z, told), other.log_prob(z, told))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.log_prob(z, told), other.log_prob(z, told))
    assert torch.equal(one.from_noise(noise, told), other.from_noise(noise, told))


@for_some_dims
def test_a_draw_from_a_mixture_takes_one_more_number_and_one_from_a_single_gaussian_does_not(dim: int) -> None:
    assert built(dim, 0, width=4).noise_dim == dim
    assert built(dim, 0, width=4, components=2).noise_dim == dim + 1


@given(
    dim=st.integers(1, 6),
    components=st.integers(2, 9),
    context=st.integers(0, 3),
    centre=st.floats(-100, 100),
    seed=st.integers(0, 1000),
)
@properties
@torch.no_grad()
def test_the_density_of_a_mixture_agrees_with_torch(
    dim: int, components: int, context: int, centre: float, seed: int
) -> None:
    """In float64 to 1e-9, though squares are multiplied out: also for means a hundred away from the origin. Points lie
    near the means and some units off.
    """
    mixture = bent_mixture(dim, components, context, seed=seed, centre=centre)
    told = torch.randn(3, 7, context, generator=seeded(seed), dtype=torch.float64) if context else None
    noise = torch.randn(3, 7, dim + 1, generator=seeded(seed), dtype=torch.float64)
    u = mixture.from_noise(noise, told) + 3 * torch.randn(3, 7, dim, generator=seeded(seed + 1), dtype=torch.float64)
    found = mixture.log_prob(u, told)
    assert found.shape == (3, 7)
    assert_close(found, mixture_log_density(mixture, u, told), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("scale", "tolerance"), [(1.0, 1e-4), (10.0, 1e-2)])
@torch.no_grad()
def test_in_single_precision_the_density_of_a_mixture_is_off_by_little(scale: float, tolerance: float) -> None:
    """32 numbers, 128 components whose means are drawn with standard deviation ``scale``, their own being 0.74: what
    multiplying out costs is of the order of 6e-8 |mean|^2 / 0.74^2.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixture = GaussianMixture(32, 128)
    mixture.means.mul_(scale)
    u = mixture.from_noise(torch.randn(500, 33, generator=seeded(1)))
    found, exact = mixture.log_prob(u).double(), mixture_log_density(mixture.double(), u.double())
    assert_close(found, exact, rtol=0, atol=tolerance)


def apart(components: int, context: int = 0) -> GaussianMixture:
    """Over one number, with means 0, 1, 2, ... so narrow that every draw tells its component."""
    mixture = bent_mixture(1, components, context)
    with torch.no_grad():
        mixture.means.copy_(torch.arange(components)[:, None])
        mixture.log_stds.fill_(-6.0)
    return mixture


@torch.no_grad()
def test_components_are_chosen_by_their_weights() -> None:
    """Chi-square at level 1e-5; even weights would not pass."""
    mixture = apart(7)
    u = mixture.from_noise(torch.randn(DRAWS, 2, generator=seeded(0), dtype=torch.float64))
    counts = u[:, 0].round().long().bincount(minlength=7).numpy()
    assert chi_square_p_value(counts, mixture_weights(mixture).numpy()) > 1e-5
    assert chi_square_p_value(counts, torch.full((7,), 1 / 7).numpy()) < 1e-5


@torch.no_grad()
def test_with_a_context_components_are_chosen_by_the_weights_that_it_gives_them() -> None:
    """Three contexts side by side, chi-square at level 1e-5 each; the weights of another context would not pass."""
    mixture, told = apart(7, context=2), 2 * torch.randn(3, 2, generator=seeded(1), dtype=torch.float64)
    noise = torch.randn(DRAWS, 3, 2, generator=seeded(0), dtype=torch.float64)
    chosen = mixture.from_noise(noise, told.expand(DRAWS, 3, 2))[..., 0].round().long()
    weights = mixture_weights(mixture, told).numpy()
    for i in range(3):
        counts = chosen[:, i].bincount(minlength=7).numpy()
        assert chi_square_p_value(counts, weights[i]) > 1e-5
        assert chi_square_p_value(counts, weights[(i + 1) % 3]) < 1e-5


@torch.no_grad()
def test_the_other_numbers_of_the_noise_place_a_draw_within_its_component() -> None:
    """Whatever the last number is, however far out: from the first component to the last, in order."""
    mixture = bent_mixture(3, 5)
    noise = torch.randn(100, 4, generator=seeded(0), dtype=torch.float64)
    noise[:, -1] = torch.linspace(-40, 40, 100, dtype=torch.float64)
    places = (mixture.from_noise(noise)[:, None] - mixture.means) / mixture.log_stds.exp()
    fits = (places - noise[:, None, :-1]).abs().amax(-1) < 1e-12
    assert bool((fits.sum(1) == 1).all())
    chosen = fits.int().argmax(1)
    assert chosen.equal(chosen.sort().values)
    assert (int(chosen[0]), int(chosen[-1])) == (0, 4)


@pytest.mark.parametrize("context", [0, 3])
def test_a_fit_moves_every_parameter_of_a_mixture(context: int) -> None:
    flow = built(2, 0, context, width=8, components=4)
    z, told = (
        torch.randn(50, 2, generator=seeded(0)),
        torch.randn(50, context, generator=seeded(1)) if context else None,
    )
    assert flow.base is not None
    for parameter in torch.autograd.grad(flow.log_prob(z, told).mean(), list(flow.base.parameters())):
        assert bool(parameter.isfinite().all())
        assert bool((parameter != 0).all())


@torch.no_grad()
def test_a_reader_tells_apart_the_states_in_which_something_is_masked() -> None:
    """Of two positions with two values: every context is another one, of twice the size that its network writes."""
    states = all_sequences(2, 3)
    states = states[(states == 2).any(1)]
    size = TransformerSize(width=16, blocks=1, heads=2, dropout=0.0)
    for recognizer in (
        ResidualRecognizer(2, 2, flat_settings("residual", width=16, blocks=1), latent_dim=4),
        ShortTransformerRecognizer(2, 2, flat_settings("short-transformer", size), latent_dim=4),
    ):
        bent(recognizer, 0)
        contexts = StateReader(recognizer)(states)
        assert contexts.shape == (5, 8)
        assert float((torch.cdist(contexts, contexts) + torch.eye(5)).min()) > 1e-3
