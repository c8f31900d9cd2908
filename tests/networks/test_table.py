"""Residual perceptrons over columns of different sizes."""

import pytest
import torch

from tests.helpers.networks import awaken, flat_settings
from vadd.networks.tables import Columns, GaussianLogits, TableDenoiser, TableRecognizer, functions_of_rank
from vadd.networks.warm_start import take_over

SIZES, VALUES = (2, 5, 3), 5
COLUMNS = Columns(SIZES, (0, 4, 3))
"""A category; four bins and a value for missing cells; three bins."""


@pytest.fixture(params=[0, 3])
def denoiser(request: pytest.FixtureRequest) -> TableDenoiser:
    torch.manual_seed(0)
    settings = flat_settings("table", width=16, blocks=2, rank_functions=request.param)
    network = TableDenoiser(COLUMNS, VALUES, settings, latent_dim=4)
    awaken(network)
    return network.eval()


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


@pytest.mark.parametrize("functions", [0, 3])
def test_the_recognition_model_reads_both_rows_and_the_mask(tokens: torch.Tensor, functions: int) -> None:
    torch.manual_seed(1)
    network = TableRecognizer(COLUMNS, flat_settings("table", width=16, rank_functions=functions), latent_dim=2)
    blank = torch.full_like(tokens, VALUES)
    mean, log_std = network(tokens, tokens, torch.ones(len(tokens)))
    assert mean.shape == log_std.shape == (len(tokens), 2)
    assert not torch.allclose(mean, network(tokens, blank, torch.ones(len(tokens)))[0])
    # One row for all examples, read once, is the same as the row read for each.
    expanded = blank[:1].expand(len(tokens), -1)
    assert torch.allclose(network(tokens, expanded, torch.ones(1))[0], network(tokens, blank, torch.ones(1))[0])


def test_without_functions_of_the_rank_the_weights_are_those_of_earlier_runs() -> None:
    """And with them, but without numbers."""
    for columns, functions in ((COLUMNS, 0), (Columns(SIZES, (0, 0, 0)), 3)):
        settings = flat_settings("table", width=16, blocks=1, rank_functions=functions)
        names = set(TableDenoiser(columns, VALUES, settings).state_dict())
        assert {name.split(".")[0] for name in names} == {"tokens", "blocks", "readout"}
        assert {name for name in names if name.startswith("tokens")} == {"tokens.table"}


def test_a_gaussian_weighs_bins_by_its_density_over_the_standard_one() -> None:
    torch.manual_seed(2)
    network = GaussianLogits(COLUMNS, VALUES, 8, latent_dim=2)
    hidden, z, xt = torch.randn(3, 8), torch.randn(3, 2), torch.tensor([[1, 5, 0], [5, 2, 2], [5, 5, 5]])
    rows, columns = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 1, 0])
    assert not network(hidden, xt, z, rows, columns).any(), "it starts as N(0, 1)"
    awaken(network)
    added = network(hidden, xt, z, rows, columns)
    # Of three bins the last has the rank 5/6, of four the third 5/8; categories and masks count as 0.
    quantile = {rank: 2**0.5 * torch.erfinv(torch.tensor(2 * rank - 1)) for rank in (1 / 6, 5 / 8, 5 / 6)}
    known = torch.tensor([[0, 0, quantile[1 / 6]], [0, quantile[5 / 8], quantile[5 / 6]], [0, 0, 0]])
    means, log_stds = network.written(hidden).chunk(2, dim=1)
    assert network.direct is not None
    means = means + known @ network.known.weight.T + z @ network.direct.weight.T
    for entry, (row, column, bins) in enumerate([(0, 1, 4), (0, 2, 3), (1, 1, 4)]):
        mean, log_std = means[row, column], log_stds[row, column]
        score = 2**0.5 * torch.erfinv(2 * (torch.arange(bins) + 0.5) / bins - 1)
        ratio = 0.5 * score**2 - 0.5 * ((score - mean) / log_std.exp()) ** 2
        torch.testing.assert_close(added[entry, :bins].softmax(0), ratio.softmax(0))
        assert not added[entry, bins:].any(), "a missing cell has no place among numbers"
    assert not added[3].any()


def test_bins_share_weights_with_their_neighbours() -> None:
    """Bins start alike if they are near, have a part of their own, and other rows of the table are as they were."""
    torch.manual_seed(3)
    bins, functions = 200, 16
    network = TableDenoiser(
        Columns((3, bins + 1), (0, bins)), bins + 1, flat_settings("table", width=64, rank_functions=functions)
    )
    shared, table = network.tokens.shared, network.tokens.table
    assert shared is not None
    rows = shared(table)
    assert torch.equal(rows[:4], table[:4])
    assert torch.equal(rows[-2:], table[-2:])
    torch.testing.assert_close(rows[4:-2], functions_of_rank(bins, functions) @ shared.maps[0])
    numbers = rows[4:-2].detach()
    near, far = (numbers[1:] - numbers[:-1]).norm(dim=1).mean(), (numbers - numbers.flip(0)).norm(dim=1).mean()
    assert near < 0.2 * far
    assert 0.5 < numbers.std() / table[:4].std() < 2
    rows.sum().backward()
    assert table.grad is not None
    assert table.grad.bool().all()


def test_it_can_begin_as_a_network_without_a_latent(tokens: torch.Tensor) -> None:
    torch.manual_seed(4)
    settings = flat_settings("table", width=16, rank_functions=3)
    without, with_latent = (TableDenoiser(COLUMNS, VALUES, settings, latent_dim=dim).eval() for dim in (None, 4))
    awaken(without)
    awaken(with_latent)
    take_over(with_latent, without.state_dict())
    z, t, where = torch.randn(len(tokens), 4), torch.ones(len(tokens)), tokens == VALUES
    assert torch.equal(with_latent(tokens, z, t, where), without(tokens, None, t, where))
