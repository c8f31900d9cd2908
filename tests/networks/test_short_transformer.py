"""Small transformers over short sequences, with a share of the latent for every position."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import flat_settings
from vadd.errors import UserError
from vadd.networks.short_transformer import ShortTransformerDenoiser, ShortTransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize

POSITIONS, VALUES, SHARE = 9, 4, 3
LATENT = POSITIONS * SHARE
SIZE = TransformerSize(width=16, blocks=2, heads=2, convolution=7, dropout=0.0)


def small(latent_dim: int | None = LATENT, *, everywhere: bool = False) -> ShortTransformerDenoiser:
    torch.manual_seed(0)
    return ShortTransformerDenoiser(
        POSITIONS, VALUES, flat_settings("short-transformer", SIZE, latent_everywhere=everywhere), latent_dim=latent_dim
    ).eval()


def recognizer() -> ShortTransformerRecognizer:
    torch.manual_seed(0)
    return ShortTransformerRecognizer(
        POSITIONS, VALUES, flat_settings("short-transformer", replace(SIZE, blocks=1)), latent_dim=LATENT
    ).eval()


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VALUES + 1, (5, POSITIONS), generator=seeded(1))


def everywhere(tokens: Tensor) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool)


def test_gathered_logits_equal_full_ones_in_value_and_gradient(tokens: Tensor) -> None:
    network, z, t = small(), torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5)
    where = tokens == VALUES
    gathered = network(tokens, z, t, where)
    full = network(tokens, z, t, everywhere(tokens)).view(5, POSITIONS, VALUES)[where]
    torch.testing.assert_close(gathered, full)
    weights = torch.randn(gathered.shape, generator=seeded(3))
    found = torch.autograd.grad((gathered * weights).sum(), list(network.parameters()))
    for one, other in zip(found, torch.autograd.grad((full * weights).sum(), list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other)


def test_every_token_counts_and_time_does_not(tokens: Tensor) -> None:
    network, z, t = small(), torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5)
    before = network(tokens, z, t, everywhere(tokens))
    assert torch.equal(before, network(tokens, z, t / 2, everywhere(tokens)))
    for position in range(POSITIONS):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % (VALUES + 1)
        assert not torch.allclose(before, network(changed, z, t, everywhere(tokens)))


def test_the_latent_of_a_hidden_position_speaks_to_all_and_that_of_a_known_one_to_none(tokens: Tensor) -> None:
    network, z, t = small(), torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5)
    before = network(tokens, z, t, everywhere(tokens)).view(5, POSITIONS, VALUES)
    for position in range(POSITIONS):
        other = z.clone()
        other[:, position * SHARE : (position + 1) * SHARE] += 1
        after = network(tokens, other, t, everywhere(tokens)).view(5, POSITIONS, VALUES)
        hidden = tokens[:, position] == VALUES
        torch.testing.assert_close(after[~hidden], before[~hidden], rtol=0, atol=0)
        assert ((after - before)[hidden].abs().amax(dim=-1) > 1e-4).all()


def test_a_latent_that_is_read_everywhere_speaks_to_all_also_from_known_positions(tokens: Tensor) -> None:
    network, z, t = small(everywhere=True), torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5)
    assert bool((tokens != VALUES).any(0).all()), "every position is known in some example"
    before = network(tokens, z, t, everywhere(tokens)).view(5, POSITIONS, VALUES)
    for position in range(POSITIONS):
        other = z.clone()
        other[:, position * SHARE : (position + 1) * SHARE] += 1
        after = network(tokens, other, t, everywhere(tokens)).view(5, POSITIONS, VALUES)
        assert ((after - before).abs().amax(dim=-1) > 1e-4).all()


def test_where_the_latent_is_read_makes_no_difference_while_nothing_is_known(tokens: Tensor) -> None:
    """The networks have the same weights, and read all of z; nor where z is 0, as for a latent that is not heard."""
    masked_only, all_over = small(), small(everywhere=True)
    assert all_over.load_state_dict(masked_only.state_dict())
    z, t, hidden = torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5), torch.full_like(tokens, VALUES)
    for xt, told in ((hidden, z), (tokens, torch.zeros_like(z))):
        assert_close(masked_only(xt, told, t, everywhere(xt)), all_over(xt, told, t, everywhere(xt)))
    assert not torch.allclose(masked_only(tokens, z, t, everywhere(tokens)), all_over(tokens, z, t, everywhere(tokens)))


def test_without_a_latent_only_its_map_is_missing() -> None:
    plain, with_latent = (dict(small(latent).named_parameters()) for latent in (None, LATENT))
    assert set(with_latent) - set(plain) == {"latent.weight"}
    assert set(plain) < set(with_latent)


def test_the_recognizer_has_the_priors_posterior_where_a_value_is_known_and_guesses_where_it_is_hidden_from_it(
    tokens: Tensor,
) -> None:
    x0 = tokens.clamp(max=VALUES - 1)
    xt = x0.clone()
    xt[:, ::2] = VALUES
    told, other = x0.clone(), x0.clone()
    told[:, 4] = other[:, 4] = VALUES
    other[:, 0] = (other[:, 0] + 1) % VALUES
    network = recognizer()
    mean, log_std = (each.view(5, POSITIONS, SHARE) for each in network(told, xt, torch.ones(5)))
    assert not mean[:, 1::2].any()
    assert not log_std[:, 1::2].any()
    assert mean[:, ::2].abs().min() > 0
    guessed = network(other, xt, torch.ones(5))[0].view(5, POSITIONS, SHARE)
    assert ((guessed - mean)[:, 4].abs().amax(dim=-1) > 1e-4).all()


def test_the_recognizer_sees_tokens_and_mask_and_starts_narrow(tokens: Tensor) -> None:
    network, x0 = recognizer(), tokens.clamp(max=VALUES - 1)
    hidden, half = torch.full_like(x0, VALUES), x0.clone()
    half[:, ::2] = VALUES
    mean, log_std = network(x0, hidden, torch.ones(5))
    assert mean.shape == log_std.shape == (5, LATENT)
    assert log_std.mean() < -0.5, "narrower than the prior"
    assert not torch.allclose(mean[:, :SHARE], network(x0, half, torch.ones(5))[0][:, :SHARE])
    for position in range(POSITIONS):  # also what its neighbours are
        changed = x0.clone()
        changed[:, position] = (changed[:, position] + 1) % VALUES
        assert not torch.allclose(mean[:, :SHARE], network(changed, hidden, torch.ones(5))[0][:, :SHARE])


def test_a_latent_that_cannot_be_divided_among_the_positions_is_refused() -> None:
    with pytest.raises(UserError, match="which 32 dimensions do not allow"):
        small(32)
    with pytest.raises(UserError, match="which 32 dimensions do not allow"):
        ShortTransformerRecognizer(POSITIONS, VALUES, flat_settings("short-transformer"), latent_dim=32)
