"""Residual perceptrons over whole images."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import flat_settings, gradients
from vadd.networks.layers import DENSE_ROWS, TokenEmbedding
from vadd.networks.perceptrons import ResidualDenoiser, ResidualRecognizer

POSITIONS, VALUES = 12, 3


@pytest.fixture
def denoiser() -> ResidualDenoiser:
    torch.manual_seed(0)
    return ResidualDenoiser(POSITIONS, VALUES, flat_settings("residual", width=16, blocks=2), latent_dim=4).eval()


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(VALUES + 1, (5, POSITIONS), generator=torch.Generator().manual_seed(1))


def test_logits_come_for_the_positions_asked_for_in_row_major_order(
    denoiser: ResidualDenoiser, tokens: torch.Tensor
) -> None:
    z, t = torch.randn(5, 4), torch.ones(5)
    everything = denoiser(tokens, z, t, torch.ones_like(tokens, dtype=torch.bool)).view(5, POSITIONS, VALUES)
    where = tokens == VALUES
    assert torch.equal(denoiser(tokens, z, t, where), everything[where])


def test_the_output_depends_on_the_latent_and_on_every_token_but_not_on_time(
    denoiser: ResidualDenoiser, tokens: torch.Tensor
) -> None:
    z, t = torch.randn(5, 4), torch.ones(5)
    everywhere = torch.ones_like(tokens, dtype=torch.bool)
    before = denoiser(tokens, z, t, everywhere)
    assert torch.equal(before, denoiser(tokens, z, t / 2, everywhere))
    assert not torch.allclose(before, denoiser(tokens, z + 1, t, everywhere))
    for position in range(POSITIONS):
        changed = tokens.clone()
        changed[:, position] = (changed[:, position] + 1) % (VALUES + 1)
        assert not torch.allclose(before, denoiser(changed, z, t, everywhere))


def logits_by_hand(state: dict[str, Tensor], tokens: Tensor, z: Tensor | None, values: int) -> Tensor:
    """All logits (B, N, V) of a residual denoiser with these weights."""
    positions = tokens.shape[1]

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    hidden = state["tokens.table"].view(positions, values + 1, -1)[torch.arange(positions), tokens].sum(1)
    if z is not None:
        hidden = hidden + linear("latent.2", F.silu(linear("latent.0", z)))
    for block in sorted({name.split(".")[1] for name in state if name.startswith("blocks.")}):
        changed = F.silu(linear(f"blocks.{block}.1", norm(f"blocks.{block}.0", hidden)))
        hidden = hidden + linear(f"blocks.{block}.4", changed)
    return linear("readout.1", norm("readout.0", hidden)).view(-1, positions, values)


@pytest.mark.parametrize("latent_dim", [None, 4])
@pytest.mark.parametrize("values", [2, 3, 5])
def test_predictions_and_gradients_are_those_of_the_full_readout(values: int, latent_dim: int | None) -> None:
    """In float64 to 1e-10, gradients of every parameter too. Of two values only the difference of the logits is
    computed, and the first is 0; from three on the logits are those of the readout.
    """
    torch.manual_seed(0)
    network = ResidualDenoiser(
        POSITIONS, values, flat_settings("residual", width=16, blocks=2), latent_dim=latent_dim
    ).double()
    xt = torch.randint(values + 1, (5, POSITIONS), generator=seeded(1))
    z = None if latent_dim is None else torch.randn(5, latent_dim, generator=seeded(2), dtype=torch.float64)
    where = torch.rand(5, POSITIONS, generator=seeded(3)) < 0.6
    state = {name: weight.clone().requires_grad_() for name, weight in network.state_dict().items()}
    expected = logits_by_hand(state, xt, z, values)[where]
    found = network(xt, z, torch.ones(5), where)
    assert found.shape == expected.shape
    assert_close(found.log_softmax(-1), expected.log_softmax(-1), rtol=0, atol=1e-10)
    if values == 2:
        assert not found[:, 0].any()
    else:
        assert_close(found, expected, rtol=0, atol=1e-10)
    pull = torch.randn(found.shape, generator=seeded(4), dtype=torch.float64)
    (found.log_softmax(-1) * pull).sum().backward()
    names = [name for name, _ in network.named_parameters()]
    by_hand = torch.autograd.grad((expected.log_softmax(-1) * pull).sum(), [state[name] for name in names])
    for one, other in zip(gradients(network), by_hand, strict=True):
        assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("values", [2, 3])
def test_where_nothing_is_asked_for_there_are_no_logits_and_no_gradients(values: int) -> None:
    network = ResidualDenoiser(POSITIONS, values, flat_settings("residual", width=16, blocks=1))
    tokens = torch.zeros(5, POSITIONS, dtype=torch.long)
    logits = network(tokens, None, torch.ones(5), torch.zeros_like(tokens, dtype=torch.bool))
    assert logits.shape == (0, values)
    logits.sum().backward()
    assert not any(bool(gradient.any()) for gradient in gradients(network))


def test_without_a_latent_there_is_no_conditioning() -> None:
    plain = ResidualDenoiser(POSITIONS, VALUES, flat_settings("residual", width=16, blocks=2))
    assert not any("modulate" in name or name.startswith("latent") for name, _ in plain.named_parameters())


def test_the_recognizer_depends_on_the_mask_from_the_start(tokens: torch.Tensor) -> None:
    torch.manual_seed(0)
    recognizer = ResidualRecognizer(POSITIONS, VALUES, flat_settings("residual", width=16), latent_dim=4).eval()
    x0 = tokens.clamp(max=VALUES - 1)
    all_masked, half_masked = torch.full_like(x0, VALUES), x0.clone()
    half_masked[:, ::2] = VALUES
    mean, log_std = recognizer(x0, all_masked, torch.ones(5))
    assert mean.shape == log_std.shape == (5, 4)
    assert not torch.allclose(mean, recognizer(x0, half_masked, torch.ones(5))[0])
    assert not torch.allclose(mean, recognizer((x0 + 1) % VALUES, all_masked, torch.ones(5))[0])


@pytest.mark.parametrize("values", [2, DENSE_ROWS - 1, DENSE_ROWS])
def test_the_matrix_product_and_the_look_up_give_the_same_sum(values: int) -> None:
    """Up to DENSE_ROWS rows a table is summed as a product, above by look-up: equal to float32 rounding."""
    torch.manual_seed(0)
    embedding = TokenEmbedding(6, values, 8)
    tokens = torch.randint(values + 1, (4, 6))
    by_hand = torch.stack(
        [
            sum((embedding.table[i * (values + 1) + v] for i, v in enumerate(row)), torch.zeros(8))
            for row in tokens.tolist()
        ]
    )
    torch.testing.assert_close(embedding(tokens), by_hand)
