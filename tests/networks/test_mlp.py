"""The multilayer perceptrons: what they depend on, what they return, and their size in the paper's configuration."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import properties, seeded
from tests.helpers.networks import flat_settings
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer
from vadd.networks.layers import DENSE_ROWS, TimeEmbedding, TokenEmbedding
from vadd.networks.perceptrons import LatentEmbedding

POSITIONS, VALUES, DIM, SIZE = 3, 5, 2, 8
EVERYWHERE = torch.ones(SIZE, POSITIONS, dtype=torch.bool)


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(VALUES + 1, (SIZE, POSITIONS), generator=seeded(seed))


def latents(seed: int = 0) -> Tensor:
    return torch.randn(SIZE, DIM, generator=seeded(seed))


def times(seed: int = 0) -> Tensor:
    return torch.rand(SIZE, generator=seeded(seed))


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def small_denoiser(latent_dim: int | None = None, **settings: Any) -> MlpDenoiser:
    return MlpDenoiser(POSITIONS, VALUES, flat_settings("mlp", width=16, depth=2, **settings), latent_dim=latent_dim)


def small_recognizer(**settings: Any) -> SiameseMlpRecognizer:
    return SiameseMlpRecognizer(POSITIONS, VALUES, flat_settings("mlp", width=16, depth=2, **settings), latent_dim=DIM)


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_logits_come_for_the_positions_asked_for_in_row_major_order(density: float) -> None:
    network = small_denoiser(latent_dim=DIM, time_features=8)
    everything = network(tokens(), latents(), times(), EVERYWHERE)
    assert everything.shape == (SIZE * POSITIONS, VALUES)
    where = torch.rand(SIZE, POSITIONS, generator=seeded(3)) < density
    some = network(tokens(), latents(), times(), where)
    assert some.shape == (int(where.sum()), VALUES)
    assert_close(some, everything.view(SIZE, POSITIONS, VALUES)[where])


def test_examples_do_not_influence_each_other() -> None:
    network = small_denoiser(latent_dim=DIM, time_features=8)
    together = network(tokens(), latents(), times(), EVERYWHERE).view(SIZE, POSITIONS, VALUES)
    alone = network(tokens()[2:3], latents()[2:3], times()[2:3], EVERYWHERE[:1])
    assert_close(together[2], alone, rtol=1e-5, atol=1e-6)


def test_the_denoiser_sees_z_only_with_a_latent() -> None:
    with_latent = small_denoiser(latent_dim=DIM)
    outputs = [with_latent(tokens(), latents(seed), times(), EVERYWHERE) for seed in (0, 1)]
    assert not torch.allclose(*outputs)
    without = small_denoiser()
    assert without(tokens(), latents(), times(), EVERYWHERE).equal(without(tokens(), None, times(), EVERYWHERE))


def test_the_denoiser_sees_t_only_with_time_features() -> None:
    timed, timeless = small_denoiser(time_features=8), small_denoiser()
    assert (timed.uses_time, timeless.uses_time) == (True, False)
    assert not torch.allclose(*(timed(tokens(), None, times(seed), EVERYWHERE) for seed in (0, 1)))
    assert timeless(tokens(), None, times(0), EVERYWHERE).equal(timeless(tokens(), None, times(1), EVERYWHERE))


def test_the_recognizer_sees_t_only_with_time_features() -> None:
    timed, timeless = small_recognizer(time_features=8), small_recognizer()
    assert not torch.allclose(*(timed(tokens(), tokens(1), times(seed))[0] for seed in (0, 1)))
    assert timeless(tokens(), tokens(1), times(0))[0].equal(timeless(tokens(), tokens(1), times(1))[0])


@pytest.mark.parametrize("smoothness", [0.0, 2.0])
def test_positions_are_told_apart(smoothness: float) -> None:
    network = small_denoiser(smoothness=smoothness)
    one_way, other_way = torch.tensor([[1, 4, VALUES]]), torch.tensor([[4, 1, VALUES]])
    assert not torch.allclose(*(network(xt, None, times()[:1], EVERYWHERE[:1]) for xt in (one_way, other_way)))
    recognizer = small_recognizer(smoothness=smoothness)
    assert not torch.allclose(*(recognizer(x, x, times()[:1])[0] for x in (one_way, other_way)))


def test_the_posterior_depends_on_the_clean_values_and_on_the_mask() -> None:
    network = small_recognizer()
    x0, other = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 0, 3]])
    masked = x0.masked_fill(torch.tensor([False, True, False]), VALUES)
    parameters = [torch.cat(network(*pair, times()[:1])) for pair in [(x0, masked), (other, masked), (x0, x0)]]
    assert not torch.allclose(parameters[0], parameters[1])
    assert not torch.allclose(parameters[0], parameters[2])
    assert parameters[0].shape == (2, DIM)


def test_the_recognizer_averages_its_two_readings() -> None:
    network = small_recognizer()
    x0, xt, t = tokens(0), tokens(1), times()
    assert_close(network(x0, xt, t), network(xt, x0, t))
    reading = (network.twin(network.tokens(x0)) + network.twin(network.tokens(xt))) / 2
    assert_close(torch.cat(network(x0, xt, t), dim=1), network.readout(reading))


@pytest.mark.parametrize("smoothness", [0.0, 1.5])
def test_the_token_embedding_is_the_sum_of_each_positions_own_row(smoothness: float) -> None:
    embedding = TokenEmbedding(POSITIONS, VALUES, 16, smoothness)
    tables = embedding.table.view(POSITIONS, VALUES + 1, 16)
    x = tokens()
    expected = torch.stack([torch.stack([tables[i, x[b, i]] for i in range(POSITIONS)]).sum(0) for b in range(SIZE)])
    assert_close(embedding(x), expected)


def read_and_pulled(summed: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """The sum, and the gradient that the table gets when every output pulls another way."""
    pull = torch.randn(summed.shape, generator=seeded(1), dtype=summed.dtype)
    (gradient,) = torch.autograd.grad((summed * pull).sum(), [table])
    return summed.detach(), gradient


def assert_looks_up(embedding: TokenEmbedding, tokens: Tensor, tolerance: float) -> None:
    """Sum and gradient are those of looked-up rows and of ``F.embedding_bag``."""
    positions, table = tokens.shape[1], embedding.table
    found, gradient = read_and_pulled(embedding(tokens), table)
    rows = table.detach().view(positions, embedding.rows, -1)[torch.arange(positions), tokens]
    assert_close(found, rows.sum(1), rtol=0, atol=tolerance)
    offsets = embedding.rows * torch.arange(positions)
    bag, expected = read_and_pulled(F.embedding_bag(tokens + offsets, table, mode="sum"), table)
    assert_close(found, bag, rtol=0, atol=tolerance)
    assert_close(gradient, expected, rtol=0, atol=tolerance)


@given(
    positions=st.integers(1, 7),
    values=st.sampled_from([1, 2, 3, DENSE_ROWS - 1, DENSE_ROWS, 40]),
    size=st.integers(0, 6),
    shown=st.sampled_from(["anything", "no masks", "masks only", "zeros only", "zeros and masks"]),
    expanded=st.booleans(),
    double=st.booleans(),
    seed=st.integers(0, 1000),
)
@properties
def test_the_token_embedding_and_its_gradient_are_those_of_a_look_up(
    positions: int, values: int, size: int, shown: str, expanded: bool, double: bool, seed: int
) -> None:
    """Whichever values occur, for any number of examples, for one row that stands for all of them, and on both sides of
    DENSE_ROWS: to 1e-12 in float64, to 1e-5 in float32.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        embedding = TokenEmbedding(positions, values, 5)
    embedding.to(torch.float64 if double else torch.float32)
    choices = {
        "anything": range(values + 1),
        "no masks": range(values),
        "masks only": [values],
        "zeros only": [0],
        "zeros and masks": [0, values],
    }
    among = torch.tensor(list(choices[shown]))
    rows = 1 if expanded else size
    x = among[torch.randint(len(among), (rows, positions), generator=seeded(seed))].expand(size, positions)
    assert_looks_up(embedding, x, 1e-12 if double else 1e-5)


@pytest.mark.parametrize("largest", [0, 1, 2])
def test_binary_images_of_many_pixels_are_read_as_by_a_look_up(largest: int) -> None:
    """1024 pixels in float32: that differences are added to the sum of 1024 rows costs less than 1e-4 in a sum whose
    standard deviation is 1.4.
    """
    x = torch.randint(largest + 1, (16, 1024), generator=seeded(0))
    assert_looks_up(TokenEmbedding(1024, 2, 8), x, 1e-4)


def test_one_row_for_all_examples_is_read_once() -> None:
    """The sum is expanded too: a thousand examples take no more memory than one."""
    row = torch.tensor([[1, VALUES, 0]])
    for values in (VALUES, DENSE_ROWS):
        found = TokenEmbedding(POSITIONS, values, 16)(row.expand(1000, -1))
        assert found.shape == (1000, 16)
        assert found.stride(0) == 0


def test_a_value_that_the_table_does_not_have_is_refused() -> None:
    for values in (2, DENSE_ROWS):
        with pytest.raises((RuntimeError, IndexError)):
            TokenEmbedding(POSITIONS, values, 16)(torch.tensor([[0, 0, values + 1]] * 2))


def test_a_smooth_embedding_starts_neighbouring_values_alike_but_not_the_mask() -> None:
    """Random rows differ by 2 in mean square; sinusoids of about one period over 100 values by (2 pi / 100)^2."""
    table = TokenEmbedding(2, 100, 512, smoothness=1.0).table.detach().view(2, 101, 512)
    neighbours = (table[:, 1:100] - table[:, :99]).square().mean((0, 2))
    assert neighbours.max() < 0.1
    assert (table[:, 100] - table[:, 99]).square().mean() > 1
    assert table.square().mean().item() == pytest.approx(1, abs=0.1)
    rough = TokenEmbedding(2, 100, 512).table.detach().view(2, 101, 512)
    assert (rough[:, 1:100] - rough[:, :99]).square().mean((0, 2)).min() > 1


def test_the_latent_embedding_is_linear_in_z_and_its_waves() -> None:
    frequencies = (1.0, 2.5)
    embedding, z = LatentEmbedding(DIM, 16, frequencies), latents()
    waves = [wave(frequency * z) for wave in (torch.sin, torch.cos) for frequency in frequencies]
    assert_close(embedding(z), embedding.linear(torch.cat([z, *waves], dim=1)))
    plain = LatentEmbedding(DIM, 16)
    assert_close(plain(z), z @ plain.linear.weight.T + plain.linear.bias)


def test_the_time_embedding_resolves_a_thousandth() -> None:
    """Neighbouring times a thousandth apart differ by a visible part of the spread over all times."""
    output = TimeEmbedding(32, 16)(torch.linspace(0, 1, 1001)).detach()
    steps, spread = output.diff(dim=0).norm(dim=1), (output - output.mean(0)).norm(dim=1).mean()
    assert steps.min() > 0.02 * spread


def test_gradients_reach_every_parameter() -> None:
    denoiser = small_denoiser(latent_dim=DIM, latent_frequencies=(1.0,), time_features=8)
    recognizer = small_recognizer(time_features=8)
    mean, log_std = recognizer(tokens(0), tokens(1), times())
    logits = denoiser(tokens(1), mean + log_std.exp() * latents(), times(), EVERYWHERE)
    logits.log_softmax(-1)[:, 0].sum().backward()
    for parameter in [*denoiser.parameters(), *recognizer.parameters()]:
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


def test_at_the_papers_sizes_the_networks_have_the_papers_layers() -> None:
    """Appendix, two-dimensional toy examples: width 512, d = 2, V = 100, sinusoids of 1024 features for t.

    Channel widths there are [1024, 512, 512] for t, [d, 512] for z, [512 x 5, V] for the readout; [512 x 6] and
    [512, 512, 2d] for the recognition model. Here the embedding has one table, and the readout one block of V outputs,
    for each of the two positions.
    """
    n, v, d, width = 2, 100, 2, 512
    time = linear(1024, width) + linear(width, width)
    table = n * (v + 1) * width
    denoiser = MlpDenoiser(n, v, flat_settings("mlp", width=512, time_features=1024), latent_dim=d)
    assert size(denoiser) == table + time + linear(d, width) + 4 * linear(width, width) + linear(width, n * v)
    recognizer = SiameseMlpRecognizer(n, v, flat_settings("mlp", width=512, time_features=1024), latent_dim=d)
    assert size(recognizer) == table + time + 5 * linear(width, width) + linear(width, width) + linear(width, 2 * d)
    assert size(MlpDenoiser(n, v, flat_settings("mlp", width=512))) == table + 4 * linear(width, width) + linear(
        width, n * v
    )


def test_an_untrained_denoiser_starts_near_the_uniform_distribution() -> None:
    """Otherwise the first loss, N ln V, could not be recognised."""
    loss = -small_denoiser()(tokens(), None, times(), EVERYWHERE).log_softmax(-1).mean().item()
    assert loss == pytest.approx(math.log(VALUES), abs=0.1)
