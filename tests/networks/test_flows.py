"""Flows as networks: what they reach, and what they read. That they are densities is tested with the priors."""

import pytest
import torch

from tests.helpers.exact import all_sequences, seeded
from tests.helpers.priors import bent
from vadd.networks import CouplingFlow, ResidualRecognizer, ShortTransformerRecognizer, StateReader, TransformerSize

for_some_dims = pytest.mark.parametrize("dim", [1, 2, 3, 8, 16])


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
@torch.no_grad()
def test_the_context_is_read_and_each_row_has_its_own(dim: int) -> None:
    flow = built(dim, 0, context=3, width=8)
    bent(flow, 0, by=0.1)
    noise, contexts = torch.randn(4, dim, generator=seeded(1)), torch.randn(4, 3, generator=seeded(2))
    z = flow.from_noise(noise, contexts)
    assert not torch.allclose(z, flow.from_noise(noise, contexts.flip(0)))
    row_by_row = [flow.from_noise(noise[i : i + 1], contexts[i : i + 1]) for i in range(4)]
    torch.testing.assert_close(z, torch.cat(row_by_row))
    several = flow.log_prob(z.expand(5, 4, dim), contexts.expand(5, 4, 3))
    torch.testing.assert_close(several, flow.log_prob(z, contexts).expand(5, 4))


def test_a_state_of_a_flow_fits_one_that_was_built_with_another_seed() -> None:
    """Also which numbers a coupling leaves alone is part of the state."""
    one, other = built(5, 0, width=8), built(5, 1, width=8)
    bent(one, 0)
    other.load_state_dict(one.state_dict())
    z = torch.randn(6, 5, generator=seeded(0))
    assert torch.equal(one.log_prob(z), other.log_prob(z))
    assert torch.equal(one.from_noise(z), other.from_noise(z))


@torch.no_grad()
def test_a_reader_tells_apart_the_states_in_which_something_is_masked() -> None:
    """Of two positions with two values: every context is another one, of twice the size that its network writes."""
    states = all_sequences(2, 3)
    states = states[(states == 2).any(1)]
    size = TransformerSize(width=16, blocks=1, heads=2, dropout=0.0)
    for recognizer in (
        ResidualRecognizer(2, 2, latent_dim=4, width=16, blocks=1),
        ShortTransformerRecognizer(2, 2, size, latent_dim=4),
    ):
        bent(recognizer, 0)
        contexts = StateReader(recognizer)(states)
        assert contexts.shape == (5, 8)
        assert float((torch.cdist(contexts, contexts) + torch.eye(5)).min()) > 1e-3
