"""The UNets: the paper's sizes, what they depend on, what they return, and their shortcuts beside plain forms."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tests.exact import seeded
from vadd.errors import UserError
from vadd.networks.unet import PixelEmbedding, PixelReadout, SiameseUnetRecognizer, UnetDenoiser
from vadd.networks.unet_blocks import AttentionBlock, ResnetBlock, TimeFeatures, UnetBody

SIDE, VALUES, DIM, SIZE = 4, 5, 3, 3
SMALL: dict[str, Any] = {"embedding": 8, "blocks": 2, "groups": 2, "pixel_embedding": 4, "dropout": 0.0}
MNIST: dict[str, Any] = {
    "height": 32,
    "width": 32,
    "channels": 1,
    "vocab_size": 2,
    "embedding": 64,
    "blocks": 8,
    "groups": 16,
}
CIFAR10: dict[str, Any] = {
    "height": 32,
    "width": 32,
    "channels": 3,
    "vocab_size": 256,
    "embedding": 128,
    "blocks": 32,
    "groups": 32,
}


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


def small_denoiser(channels: int = 1, **options: Any) -> UnetDenoiser:
    return UnetDenoiser(SIDE, SIDE, channels, VALUES, **SMALL | options)


def small_recognizer(channels: int = 1, **options: Any) -> SiameseUnetRecognizer:
    return SiameseUnetRecognizer(SIDE, SIDE, channels, VALUES, **SMALL | {"latent_dim": DIM} | options)


def awaken(network: nn.Module) -> None:
    """Draw the weights that start at zero, as if the network had been trained for a while."""
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.normal_(std=0.3)


def tokens(channels: int = 1, seed: int = 0, side: int = SIDE) -> Tensor:
    return torch.randint(VALUES + 1, (SIZE, side * side * channels), generator=seeded(seed))


def latents(seed: int = 0) -> Tensor:
    return torch.randn(SIZE, DIM, generator=seeded(seed))


def times(seed: int = 0) -> Tensor:
    return torch.rand(SIZE, generator=seeded(seed))


def everywhere(channels: int = 1) -> Tensor:
    return torch.ones(SIZE, SIDE * SIDE * channels, dtype=torch.bool)


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def gradients(network: nn.Module) -> list[Tensor]:
    found = []
    for parameter in network.parameters():
        assert parameter.grad is not None
        found.append(parameter.grad)
    return found


@pytest.mark.parametrize(
    ("setting", "latent_dim", "mdlm", "vadd"),
    [(MNIST, 64, 2_245_730, 2_328_162), (CIFAR10, 128, 31_561_248, 31_889_952)],
)
def test_the_denoisers_have_the_papers_sizes(setting: dict[str, Any], latent_dim: int, mdlm: int, vadd: int) -> None:
    """2.246M and 2.328M for MNIST, 31.56M and 31.89M for CIFAR-10; the paper rounds them to 2.2M, 2.3M, 32M, 32M."""
    with torch.device("meta"):
        assert size(UnetDenoiser(**setting)) == mdlm
        assert size(UnetDenoiser(**setting, latent_dim=latent_dim)) == vadd
        assert size(UnetDenoiser(**setting, heads=setting["groups"])) == mdlm


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


@pytest.mark.parametrize(("density", "dense"), [(0.1, False), (0.9, True)])
def test_few_wanted_pixels_are_convolved_alone(density: float, dense: bool) -> None:
    """72 inputs and 120 outputs a pixel: gathering the inputs pays below 120 / 192 of the pixels."""
    readout = PixelReadout(8, 3, 40)
    awaken(readout)
    calls: list[nn.Module] = []
    features = torch.randn(2, 8, 5, 7)
    plain = readout.convolution(features).permute(0, 2, 3, 1).reshape(2, 5 * 7 * 3, 40)
    where = (torch.rand(2, 35, 1) < density) & (torch.rand(2, 35, 3) < 0.8)
    readout.convolution.register_forward_hook(lambda layer, *_: calls.append(layer))
    logits = readout(features, where.view(2, -1))
    assert len(logits) == where.sum() > 0
    assert_close(logits, plain[where.view(2, -1)], rtol=1e-4, atol=1e-5)
    assert bool(calls) == dense


def test_examples_do_not_influence_each_other() -> None:
    network = small_denoiser(latent_dim=DIM)
    awaken(network)
    together = network(tokens(), latents(), times(), everywhere()).view(SIZE, -1, VALUES)
    alone = network(tokens()[2:], latents()[2:], times()[2:], everywhere()[2:])
    assert_close(together[2], alone, rtol=1e-4, atol=1e-5)


def test_the_embedding_fills_each_channels_own_planes() -> None:
    """Position (h W + w) * channels + c holds channel c of pixel (h, w)."""
    height, width, channels, planes = 3, 4, 3, 5
    embedding = PixelEmbedding(height, width, channels, VALUES, planes)
    x = torch.randint(VALUES, (2, height * width * channels), generator=seeded(0))
    before = embedding(x)
    assert before.shape == (2, channels * planes, height, width)
    assert before.is_contiguous(memory_format=torch.channels_last)
    row, column, channel = 1, 2, 1
    changed = x.clone()
    changed[0, (row * width + column) * channels + channel] = VALUES
    after = embedding(changed)
    differs = (before != after).view(2, channels, planes, height, width)
    assert differs[0, channel, :, row, column].all()
    assert differs.sum() == planes
    assert_close(after[0, channel * planes : (channel + 1) * planes, row, column], embedding.table.weight[VALUES])


def test_logits_belong_to_their_own_position() -> None:
    """A readout that only has biases gives channel c the biases of its own planes, at every pixel."""
    network = small_denoiser(3)
    bias = network.readout.convolution.bias
    assert bias is not None
    with torch.no_grad():
        bias.copy_(torch.arange(3.0 * VALUES))
    logits = network(tokens(3), None, times(), everywhere(3))
    assert logits.equal(torch.arange(3.0 * VALUES).view(3, VALUES).repeat(SIZE * SIDE * SIDE, 1))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_attention_is_a_softmax_over_all_pixels(heads: int, layout: torch.memory_format) -> None:
    planes, height, width = 8, 3, 5
    block = AttentionBlock(planes, 2, heads)
    awaken(block)
    h = torch.randn(2, planes, height, width).to(memory_format=layout)
    tensors = block.queries_keys_values(block.norm(h)).flatten(2).view(2, 3, heads, planes // heads, height * width)
    queries, keys, values = tensors.unbind(1)
    scores = torch.einsum("bhdi,bhdj->bhij", queries, keys) / math.sqrt(planes // heads)
    seen = torch.einsum("bhij,bhdj->bhdi", scores.softmax(-1), values).reshape(2, planes, height, width)
    assert_close(block(h), h + block.out(seen), rtol=1e-4, atol=1e-5)


def test_blocks_start_as_their_shortcuts() -> None:
    h, condition = torch.randn(2, 8, 4, 4), torch.randn(2, 32)
    assert ResnetBlock(8, 8, 32, 2, 0.0)(h, condition).equal(h)
    assert AttentionBlock(8, 2, 1)(h).equal(h)
    wider = ResnetBlock(8, 16, 32, 2, 0.0)
    assert wider(h, condition).equal(wider.shortcut(h))


def test_every_up_block_takes_in_what_its_down_block_met() -> None:
    """Last stored, first taken: the output of the last down block, then the inputs of the last, ..., first one."""
    blocks, planes = 3, 8
    body = UnetBody(4, planes, blocks, 2, 1, 0.0, False)
    awaken(body)
    stored: list[Tensor] = []
    taken: list[Tensor] = []
    for block in body.down:
        block.register_forward_pre_hook(lambda _, inputs: stored.append(inputs[0]))
    body.down[-1].register_forward_hook(lambda _, inputs, output: stored.append(output))
    for block in body.up:
        block.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0][:, planes:]))
    body(torch.randn(2, 4, SIDE, SIDE), torch.randn(2, 4 * planes))
    assert len(taken) == blocks + 1
    assert not any(torch.allclose(one, other) for one, other in pairwise(stored))
    for given, back in zip(reversed(stored), taken, strict=True):
        assert back.equal(given)


def test_time_features_are_sinusoids_and_leave_the_times_alone() -> None:
    t = times()
    before = t.clone()
    features = TimeFeatures(8)(t)
    scales = [10**exponent for exponent in (3, 5 / 3, 1 / 3, -1)]
    expected = torch.stack([wave(t * scale) for wave in (torch.sin, torch.cos) for scale in scales], dim=1)
    assert_close(features, expected, rtol=1e-3, atol=1e-3)
    assert t.equal(before)


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


def test_denoiser_and_recognizer_learn_to_pass_a_coin_through_z() -> None:
    """Images of one colour, all hidden: without z every pixel costs ln 2, with it none."""
    small = SMALL | {"blocks": 1}
    denoiser = UnetDenoiser(SIDE, SIDE, 1, 2, latent_dim=DIM, **small)
    recognizer = SiameseUnetRecognizer(SIDE, SIDE, 1, 2, latent_dim=DIM, **small)
    optimiser = torch.optim.Adam([*denoiser.parameters(), *recognizer.parameters()], lr=1e-2)
    x0 = torch.tensor([0, 1] * 4)[:, None].repeat(1, SIDE * SIDE)
    xt, t = torch.full_like(x0, 2), torch.ones(len(x0))
    costs: list[float] = []
    for _ in range(60):
        mean, log_std = recognizer(x0, xt, t)
        z = mean + log_std.exp() * torch.randn_like(mean)
        loss: Tensor = F.cross_entropy(denoiser(xt, z, t, xt == 2), x0.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        costs.append(loss.item())
    assert costs[0] == pytest.approx(math.log(2))
    assert sum(costs[-10:]) / 10 < 0.2


@pytest.mark.parametrize("channels", [1, 3])
def test_an_untrained_recognizer_sees_x0_and_the_mask(channels: int) -> None:
    side = 16
    network = SiameseUnetRecognizer(side, side, channels, VALUES, **SMALL | {"latent_dim": DIM, "dropout": 0.1}).eval()
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
    network = SiameseUnetRecognizer(height, width, 1, VALUES, **SMALL | {"latent_dim": DIM, "blocks": 1})
    x = torch.randint(VALUES, (2, height * width), generator=seeded(0))
    assert [parameter.shape for parameter in network(x, x, torch.rand(2))] == [(2, DIM)] * 2
    denoiser = UnetDenoiser(height, width, 1, VALUES, **SMALL | {"blocks": 1})
    logits = denoiser(x, None, torch.rand(2), torch.ones_like(x, dtype=torch.bool))
    assert logits.shape == (2 * height * width, VALUES)


def test_the_posterior_scale_is_bounded_however_large_the_weights() -> None:
    network = small_recognizer()
    with torch.no_grad():
        for parameter in network.readout[-2].parameters():
            parameter.mul_(1000)
    _, log_std = network(tokens(), tokens(seed=1), times())
    assert log_std.min() == -8
    assert log_std.max() == 3


def test_gradients_reach_every_parameter() -> None:
    denoiser, recognizer = small_denoiser(3, latent_dim=DIM), small_recognizer(3)
    awaken(denoiser)
    awaken(recognizer)
    mean, log_std = recognizer(tokens(3), tokens(3, seed=1), times())
    logits = denoiser(tokens(3, seed=1), mean + log_std.exp() * latents(), times(), everywhere(3))
    logits.log_softmax(-1)[:, 0].sum().backward()
    for gradient in [*gradients(denoiser), *gradients(recognizer)]:
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


def test_checkpointing_changes_neither_values_nor_gradients() -> None:
    """With dropout: the recomputation must repeat the same draws."""
    networks = [
        (small_denoiser(latent_dim=DIM, dropout=0.3, **option), small_recognizer(dropout=0.3, **option))
        for option in ({"checkpointing": False}, {"checkpointing": True})
    ]
    weights = torch.randn(SIZE * SIDE * SIDE, VALUES, generator=seeded(2))
    outputs: list[Tensor] = []
    visits = [0, 0]
    for run, (denoiser, recognizer) in enumerate(networks):
        awaken(denoiser)
        awaken(recognizer)
        denoiser.load_state_dict(networks[0][0].state_dict())
        recognizer.load_state_dict(networks[0][1].state_dict())

        def count(*_: object, run: int = run) -> None:
            visits[run] += 1

        for block in [*denoiser.unet.body.down, *recognizer.unet.body.up]:
            block.register_forward_pre_hook(count)
        torch.manual_seed(1)
        mean, log_std = recognizer(tokens(), tokens(seed=1), times())
        logits = denoiser(tokens(seed=1), mean + log_std, times(), everywhere())
        (weights * logits).sum().backward()
        outputs.append(logits)
    assert visits[1] == 2 * visits[0]
    assert_close(outputs[0], outputs[1])
    for plain, recomputed in zip(*networks, strict=True):
        assert_close(gradients(plain), gradients(recomputed), rtol=1e-4, atol=1e-5)


def test_checkpointing_recomputes_nothing_when_nothing_is_trained() -> None:
    network = small_denoiser(checkpointing=True)
    visits: list[nn.Module] = []
    network.unet.body.middle_in.register_forward_pre_hook(lambda block, _: visits.append(block))
    with torch.no_grad():
        network(tokens(), None, times(), everywhere())
    assert len(visits) == 1


def test_dropout_is_drawn_in_training_only() -> None:
    network = small_denoiser(dropout=0.5)
    awaken(network)
    draws = [network(tokens(), None, times(), everywhere()) for _ in range(2)]
    assert not torch.allclose(*draws)
    network.eval()
    assert network(tokens(), None, times(), everywhere()).equal(network(tokens(), None, times(), everywhere()))


def test_weights_and_gradients_keep_the_plain_layout() -> None:
    """The activations are channels-last; saved weights and the optimiser's state should not be."""
    network = small_denoiser(latent_dim=DIM)
    awaken(network)
    network(tokens(), latents(), times(), everywhere()).sum().backward()
    assert all(tensor.is_contiguous() for tensor in [*network.state_dict().values(), *gradients(network)])


@pytest.mark.parametrize("option", [{"groups": 3}, {"heads": 3}, {"embedding": 7, "groups": 1}])
def test_an_embedding_that_does_not_divide_is_refused(option: dict[str, int]) -> None:
    with pytest.raises(UserError, match="must be even and divide"):
        small_denoiser(**option)
