"""Small transformers over short sequences."""

import pytest
import torch
from torch import Tensor

from tests.exact import seeded
from vadd.networks.short_transformer import TABLE_VALUES, ShortTransformerDenoiser, ShortTransformerRecognizer

POSITIONS, VALUES, LATENT = 9, 4, 3


def small(latent_dim: int | None = LATENT, *, decoded: bool = False) -> ShortTransformerDenoiser:
    """With ``decoded`` the last layer of the latent's perceptron is no longer at zero."""
    torch.manual_seed(0)
    network = ShortTransformerDenoiser(
        POSITIONS, VALUES, width=16, blocks=2, heads=2, latent_width=12, latent_blocks=1, latent_dim=latent_dim
    ).eval()
    if decoded:
        assert network.latent is not None
        last = network.latent[-2]
        assert isinstance(last, torch.nn.Linear)
        torch.nn.init.normal_(last.weight)
    return network


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VALUES + 1, (5, POSITIONS), generator=seeded(1))


def everywhere(tokens: Tensor) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool)


def test_gathered_logits_equal_full_ones_in_value_and_gradient(tokens: Tensor) -> None:
    network, z, t = small(decoded=True), torch.randn(5, LATENT, generator=seeded(2)), torch.ones(5)
    where = tokens == VALUES
    gathered = network(tokens, z, t, where)
    full = network(tokens, z, t, everywhere(tokens)).view(5, POSITIONS, VALUES)[where]
    torch.testing.assert_close(gathered, full)
    weights = torch.randn(gathered.shape, generator=seeded(3))
    found = torch.autograd.grad((gathered * weights).sum(), list(network.parameters()))
    for one, other in zip(found, torch.autograd.grad((full * weights).sum(), list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other)


def test_every_token_counts_and_time_does_not(tokens: Tensor) -> None:
    network, z, t = small(), torch.randn(5, LATENT), torch.ones(5)
    before = network(tokens, z, t, everywhere(tokens))
    assert torch.equal(before, network(tokens, z, t / 2, everywhere(tokens)))
    for position in range(POSITIONS):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % (VALUES + 1)
        assert not torch.allclose(before, network(changed, z, t, everywhere(tokens)))


def test_the_latent_starts_silent_and_can_be_heard_after_one_step(tokens: Tensor) -> None:
    network, t = small(), torch.ones(5)
    z, other = torch.randn(2, 5, LATENT, generator=seeded(2))
    assert torch.equal(network(tokens, z, t, everywhere(tokens)), network(tokens, other, t, everywhere(tokens)))
    network(tokens, z, t, everywhere(tokens))[:, 0].sum().backward()
    assert network.latent is not None
    last = network.latent[-2]
    assert isinstance(last, torch.nn.Linear)
    assert last.weight.grad is not None
    assert last.weight.grad.abs().max() > 1e-3


def test_with_everything_masked_the_latent_speaks_to_every_position_differently() -> None:
    hidden = torch.full((1, POSITIONS), VALUES)
    z = torch.randn(1, LATENT, generator=seeded(2))
    logits = small(decoded=True)(hidden, z, torch.ones(1), everywhere(hidden))
    assert (torch.cdist(logits, logits) + torch.eye(POSITIONS) > 1e-2).all()


def test_without_a_latent_only_its_perceptron_is_missing() -> None:
    plain, with_latent = (dict(small(latent).named_parameters()) for latent in (None, LATENT))
    extra = {name for name in with_latent if name.startswith("latent.")}
    assert extra
    assert set(plain) == set(with_latent) - extra


@pytest.mark.parametrize("values", [VALUES, TABLE_VALUES, TABLE_VALUES + 1])
def test_the_recognizer_sees_tokens_and_mask_and_starts_narrow(tokens: Tensor, values: int) -> None:
    torch.manual_seed(0)
    recognizer = ShortTransformerRecognizer(POSITIONS, values, latent_dim=LATENT, latent_width=64).eval()
    x0 = tokens.clamp(max=VALUES - 1)
    hidden, half = torch.full_like(x0, values), x0.clone()
    half[:, ::2] = values
    mean, log_std = recognizer(x0, hidden, torch.ones(5))
    assert mean.shape == log_std.shape == (5, LATENT)
    last = recognizer.readout[-1]
    assert isinstance(last, torch.nn.Linear)
    assert (last.bias[LATENT:] == -1).all()
    assert not torch.allclose(mean, recognizer(x0, half, torch.ones(5))[0])
    assert not torch.allclose(mean, recognizer((x0 + 1) % VALUES, hidden, torch.ones(5))[0])


def test_a_large_vocabulary_does_not_make_the_recognizer_large() -> None:
    recognizer = ShortTransformerRecognizer(64, 10_000, latent_dim=LATENT)
    assert sum(parameter.numel() for parameter in recognizer.parameters()) < 5_000_000
