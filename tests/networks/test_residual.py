"""Residual perceptrons over whole images."""

import pytest
import torch

from vadd.networks.mlp import DENSE_ROWS, TokenEmbedding
from vadd.networks.residual import ResidualDenoiser, ResidualRecognizer

POSITIONS, VALUES = 12, 3


@pytest.fixture
def denoiser() -> ResidualDenoiser:
    torch.manual_seed(0)
    return ResidualDenoiser(POSITIONS, VALUES, width=16, blocks=2, latent_dim=4).eval()


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


def test_without_a_latent_there_is_no_conditioning() -> None:
    plain = ResidualDenoiser(POSITIONS, VALUES, width=16, blocks=2)
    assert not any("modulate" in name or name.startswith("latent") for name, _ in plain.named_parameters())


def test_the_recognizer_depends_on_the_mask_from_the_start(tokens: torch.Tensor) -> None:
    torch.manual_seed(0)
    recognizer = ResidualRecognizer(POSITIONS, VALUES, latent_dim=4, width=16).eval()
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
