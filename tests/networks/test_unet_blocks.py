"""The parts of the UNets, and their shortcuts beside plain forms."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import awaken
from vadd.networks.layers import Sinusoids
from vadd.networks.unet import (
    AttentionBlock,
    PixelEmbedding,
    PixelReadout,
    ResnetBlock,
    UnetBody,
    UnetSettings,
)

VALUES = 5


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


def test_the_embedding_fills_each_channels_own_planes() -> None:
    """Position (h W + w) * channels + c holds channel c of pixel (h, w)."""
    height, width, channels, planes = 3, 4, 3, 5
    embedding = PixelEmbedding((height, width, channels), VALUES, planes)
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
    body = UnetBody(4, UnetSettings(embedding=planes, blocks=blocks, groups=2, dropout=0.0))
    awaken(body)
    stored: list[Tensor] = []
    taken: list[Tensor] = []
    for block in body.down:
        block.register_forward_pre_hook(lambda _, inputs: stored.append(inputs[0]))
    body.down[-1].register_forward_hook(lambda _, inputs, output: stored.append(output))
    for block in body.up:
        block.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0][:, planes:]))
    body(torch.randn(2, 4, 4, 4), torch.randn(2, 4 * planes))
    assert len(taken) == blocks + 1
    assert not any(torch.allclose(one, other) for one, other in pairwise(stored))
    for given, back in zip(reversed(stored), taken, strict=True):
        assert back.equal(given)


def test_time_features_are_sinusoids_and_leave_the_times_alone() -> None:
    t = torch.rand(3, generator=seeded(0))
    before = t.clone()
    features = Sinusoids(3, -1, 8)(t)
    scales = [10**exponent for exponent in (3, 5 / 3, 1 / 3, -1)]
    expected = torch.stack([wave(t * scale) for wave in (torch.sin, torch.cos) for scale in scales], dim=1)
    assert_close(features, expected, rtol=1e-3, atol=1e-3)
    assert t.equal(before)
