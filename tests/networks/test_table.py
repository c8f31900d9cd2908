"""Residual perceptrons over columns of different sizes."""

import pytest
import torch

from tests.helpers.networks import flat_settings
from vadd.networks.perceptrons import TableDenoiser, TableRecognizer

SIZES, VALUES = (2, 5, 3), 5


@pytest.fixture
def denoiser() -> TableDenoiser:
    torch.manual_seed(0)
    return TableDenoiser(SIZES, VALUES, flat_settings("table", width=16, blocks=2), latent_dim=4).eval()


@pytest.fixture
def tokens() -> torch.Tensor:
    """Every row once as it is and once with each column hidden."""
    rows = torch.tensor([[1, 4, 2], [0, 0, 0], [1, 2, 1]])
    return torch.cat([rows, *(rows.index_fill(1, torch.tensor([column]), VALUES) for column in range(3))])


def test_logits_come_for_the_positions_asked_for_and_are_infinite_outside(
    denoiser: TableDenoiser, tokens: torch.Tensor
) -> None:
    z, t = torch.randn(len(tokens), 4), torch.ones(len(tokens))
    everything = denoiser(tokens, z, t, torch.ones_like(tokens, dtype=torch.bool)).view(-1, 3, VALUES)
    for column, size in enumerate(SIZES):
        assert everything[:, column, :size].isfinite().all()
        assert (everything[:, column, size:] == -torch.inf).all()
    where = tokens == VALUES
    assert torch.equal(denoiser(tokens, z, t, where), everything[where])
    assert denoiser.readout[1].out_features == sum(SIZES)


def test_the_output_depends_on_the_latent_and_on_every_column(denoiser: TableDenoiser, tokens: torch.Tensor) -> None:
    z, t, everywhere = torch.zeros(len(tokens), 4), torch.ones(len(tokens)), torch.ones_like(tokens, dtype=torch.bool)
    before = denoiser(tokens, z, t, everywhere)
    assert not torch.allclose(before, denoiser(tokens, z + 1, t, everywhere))
    for column, size in enumerate(SIZES):
        changed = tokens.clone()
        changed[:, column] = (changed[:, column] + 1) % size
        assert not torch.allclose(before, denoiser(changed, z, t, everywhere))


def test_gradients_are_finite(denoiser: TableDenoiser, tokens: torch.Tensor) -> None:
    logits = denoiser(tokens, torch.randn(len(tokens), 4), torch.ones(len(tokens)), tokens == VALUES)
    logits.log_softmax(-1)[:, 0].sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in denoiser.parameters())


def test_the_recognition_model_reads_both_rows_and_the_mask(tokens: torch.Tensor) -> None:
    torch.manual_seed(1)
    network = TableRecognizer(SIZES, flat_settings("table", width=16), latent_dim=2)
    blank = torch.full_like(tokens, VALUES)
    mean, log_std = network(tokens, tokens, torch.ones(len(tokens)))
    assert mean.shape == log_std.shape == (len(tokens), 2)
    assert not torch.allclose(mean, network(tokens, blank, torch.ones(len(tokens)))[0])
    # One row for all examples, read once, is the same as the row read for each.
    expanded = blank[:1].expand(len(tokens), -1)
    assert torch.allclose(network(tokens, expanded, torch.ones(1))[0], network(tokens, blank, torch.ones(1))[0])
