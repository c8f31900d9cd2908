"""The UNets: the paper's sizes, what they depend on, what they return and what they refuse."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import awaken, gradients, weights_of
from tests.helpers.small_unets import (
    DIM,
    SIDE,
    SIZE,
    SMALL,
    VALUES,
    everywhere,
    latents,
    small_denoiser,
    small_recognizer,
    times,
    tokens,
)
from vadd.errors import UserError
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser, UnetSettings

MNIST: tuple[tuple[int, int, int], int, UnetSettings] = ((32, 32, 1), 2, UnetSettings())
CIFAR10: tuple[tuple[int, int, int], int, UnetSettings] = (
    (32, 32, 3),
    256,
    UnetSettings(embedding=128, blocks=32, groups=32),
)


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("setting", "latent_dim", "mdlm", "vadd"),
    [(MNIST, 64, 2_245_730, 2_328_162), (CIFAR10, 128, 31_561_248, 31_889_952)],
)
def test_the_denoisers_have_the_papers_sizes(
    setting: tuple[tuple[int, int, int], int, UnetSettings], latent_dim: int, mdlm: int, vadd: int
) -> None:
    """2.246M and 2.328M for MNIST, 31.56M and 31.89M for CIFAR-10; the paper rounds them to 2.2M, 2.3M, 32M, 32M."""
    shape, vocab_size, size = setting
    with torch.device("meta"):
        assert weights_of(UnetDenoiser(shape, vocab_size, size)) == mdlm
        assert weights_of(UnetDenoiser(shape, vocab_size, size, latent_dim=latent_dim)) == vadd
        assert weights_of(UnetDenoiser(shape, vocab_size, size.model_copy(update={"heads": size.groups}))) == mdlm


@pytest.mark.parametrize("density", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_logits_and_gradients_where_asked_are_those_of_all_logits(channels: int, density: float) -> None:
    network = small_denoiser(channels, latent_dim=DIM).double()
    awaken(network)
    inputs = (tokens(channels), latents().double(), times().double())
    where = torch.rand(SIZE, network.positions, generator=seeded(3)) < density
    everything = network(*inputs, everywhere(channels))
    assert everything.shape == (SIZE * network.positions, VALUES)
    expected = everything.view(SIZE, -1, VALUES)[where]
    weights = torch.randn(expected.shape, generator=seeded(4), dtype=torch.float64)
    (weights * expected).sum().backward()
    plain = [gradient.clone() for gradient in gradients(network)]
    network.zero_grad()
    some = network(*inputs, where)
    (weights * some).sum().backward()
    assert_close(some, expected)
    assert_close(gradients(network), plain)


def test_examples_do_not_influence_each_other() -> None:
    network = small_denoiser(latent_dim=DIM)
    awaken(network)
    together = network(tokens(), latents(), times(), everywhere()).view(SIZE, -1, VALUES)
    alone = network(tokens()[2:], latents()[2:], times()[2:], everywhere()[2:])
    assert_close(together[2], alone, rtol=1e-4, atol=1e-5)


def test_logits_belong_to_their_own_position() -> None:
    """A readout that only has biases gives channel c the biases of its own planes, at every pixel."""
    network = small_denoiser(3)
    bias = network.readout.convolution.bias
    assert bias is not None
    with torch.no_grad():
        bias.copy_(torch.arange(3.0 * VALUES))
    logits = network(tokens(3), None, times(), everywhere(3))
    assert logits.equal(torch.arange(3.0 * VALUES).view(3, VALUES).repeat(SIZE * SIDE * SIDE, 1))


def test_an_untrained_denoiser_says_the_uniform_distribution_whatever_it_sees() -> None:
    network = small_denoiser(3, latent_dim=DIM)
    for seed in (0, 1):
        assert not network(tokens(3, seed), latents(seed), times(seed), everywhere(3)).any()


def test_a_trained_denoiser_sees_every_token_z_and_t() -> None:
    network = small_denoiser(latent_dim=DIM)
    awaken(network)
    outputs = network(tokens(), latents(), times(), everywhere())
    assert not torch.allclose(outputs, network(tokens(), latents(1), times(), everywhere()))
    assert not torch.allclose(outputs, network(tokens(), latents(), times(1), everywhere()))
    for position in range(network.positions):
        other = tokens()
        other[:, position] = (other[:, position] + 1) % (VALUES + 1)
        assert not torch.allclose(outputs, network(other, latents(), times(), everywhere()))


def test_without_a_latent_z_is_ignored() -> None:
    network = small_denoiser()
    awaken(network)
    assert network.uses_time
    assert network(tokens(), latents(), times(), everywhere()).equal(network(tokens(), None, times(), everywhere()))


def test_the_zero_start_is_left_within_a_few_steps() -> None:
    """The readout moves first, then the second convolutions, then the conditioning: z matters from the third step."""
    network = small_denoiser(latent_dim=DIM)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    seen: list[bool] = []
    target = torch.randint(VALUES, (SIZE * network.positions,), generator=seeded(5))
    for _ in range(4):
        outputs = [network(tokens(), latents(seed), times(), everywhere()) for seed in (0, 1)]
        seen.append(not outputs[0].equal(outputs[1]))
        loss: Tensor = F.cross_entropy(outputs[0], target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad()
    assert seen == [False, False, False, True]


@pytest.mark.parametrize("channels", [1, 3])
def test_an_untrained_recognizer_sees_x0_and_the_mask(channels: int) -> None:
    side = 16
    network = SiameseUnetRecognizer(
        (side, side, channels), VALUES, UnetSettings(**SMALL | {"dropout": 0.1}), latent_dim=DIM
    ).eval()
    x0 = torch.randint(VALUES, (SIZE, side * side * channels), generator=seeded(0))
    masked = torch.rand(x0.shape, generator=seeded(1)) < 0.5
    other = torch.where(masked, (x0 + 1) % VALUES, x0)
    xt = x0.masked_fill(masked, VALUES)
    mean, log_std = network(x0, xt, times())
    assert mean.shape == log_std.shape == (SIZE, DIM)
    for x, y in [(other, xt), (x0, x0), (x0, x0.masked_fill(~masked, VALUES))]:
        for parameter, changed in zip((mean, log_std), network(x, y, times()), strict=True):
            assert (parameter - changed).abs().max() > 0.01


def test_a_trained_recognizer_sees_t() -> None:
    network = small_recognizer()
    awaken(network)
    assert not torch.allclose(*(network(tokens(), tokens(seed=1), times(seed))[0] for seed in (0, 1)))


def test_the_recognizer_averages_its_two_readings() -> None:
    network = small_recognizer()
    awaken(network)
    x0, xt, t = tokens(), tokens(seed=1), times()
    assert_close(network(x0, xt, t), network(xt, x0, t), rtol=1e-4, atol=1e-5)
    convolve, rest = network.readout[0], network.readout[1:]
    reading = (convolve(network.unet(x0, t)) + convolve(network.unet(xt, t))) / 2
    assert_close(torch.cat(network(x0, xt, t), dim=1), rest(reading), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 2), (7, 7), (8, 8), (16, 16), (3, 10), (32, 32)])
def test_images_of_any_size_come_down_to_one_pixel(height: int, width: int) -> None:
    shape, size = (height, width, 1), UnetSettings(**SMALL | {"blocks": 1})
    network = SiameseUnetRecognizer(shape, VALUES, size, latent_dim=DIM)
    x = torch.randint(VALUES, (2, height * width), generator=seeded(0))
    assert [parameter.shape for parameter in network(x, x, torch.rand(2))] == [(2, DIM)] * 2
    denoiser = UnetDenoiser(shape, VALUES, size)
    logits = denoiser(x, None, torch.rand(2), torch.ones_like(x, dtype=torch.bool))
    assert logits.shape == (2 * height * width, VALUES)


@pytest.mark.parametrize("option", [{"groups": 3}, {"heads": 3}, {"embedding": 7, "groups": 1}])
def test_an_embedding_that_does_not_divide_is_refused(option: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be even and divide"):
        small_denoiser(**option)


def test_examples_that_are_no_images_are_refused() -> None:
    for network in (UnetDenoiser, SiameseUnetRecognizer):
        with pytest.raises(UserError, match=r"such networks are for images; these examples have the shape \(6, 4\)"):
            network((6, 4), VALUES, UnetSettings(), latent_dim=DIM)
