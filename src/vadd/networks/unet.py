"""UNets over images whose pixels are integers: the networks of the paper's pixel-level experiments.

The single-resolution UNet of Variational Diffusion Models (Kingma et al. 2021): every block works at full resolution,
the "down" half only stores its activations and the "up" half only takes them back in. Tokens come flattened in
(height, width, channel) order. The paper does not spell out the ends of the network; one embedding table shared by the
colour channels, no Fourier features, attention only in the middle and a 3x3 convolution straight to channels x V
planes are inferred from its parameter counts (2.246M and 2.328M for MNIST, 31.56M and 31.89M for CIFAR-10).

Activations are channels-last, as the embedding lookup leaves them. On a CPU that is neither faster nor slower, but it
lets attention run fused. The weights keep the usual layout.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.errors import UserError
from vadd.networks.layers import (
    DenoiserBase,
    Linear,
    Sinusoids,
    attention,
    condition_layers,
    exporting,
    linear,
    mean_and_log_std,
    through,
    zeroed,
)
from vadd.networks.settings import CHECKPOINTING, NetworkSettings
from vadd.settings import Fraction, Layers


class UnetSettings(NetworkSettings):
    """The single-resolution UNets of the paper's image experiments; both networks are alike."""

    kind: Literal["unet"] = "unet"
    embedding: PositiveInt = Field(64, description="planes of every block")
    blocks: Layers = Field(8, description="on the way down, and as many on the way up")
    groups: PositiveInt = 16
    heads: PositiveInt = 1
    pixel_embedding: PositiveInt = 32
    dropout: Fraction = 0.1
    checkpointing: bool = Field(False, description=CHECKPOINTING)
    rows_at_once: ClassVar[int] = 64
    measure: ClassVar[str] = "shape"
    time_key: ClassVar[str | None] = None

    @model_validator(mode="after")
    def _planes_divide(self) -> "UnetSettings":
        if self.embedding % 2 or self.embedding % self.groups or self.embedding % self.heads:
            raise ValueError(
                f"an embedding of {self.embedding} must be even and divide into {self.groups} groups, "
                f"{self.heads} heads"
            )
        return self


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(height, width, channels), if that is what the examples have."""
    if len(shape) != 3:
        raise UserError(f"such networks are for images; these examples have the shape {tuple(shape)}")
    height, width, channels = shape
    return height, width, channels


def normalised(planes: int, groups: int) -> nn.Sequential:
    return nn.Sequential(nn.GroupNorm(groups, planes), nn.SiLU())


class ResnetBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, the conditioning vector added between them.

    The conditioning and the second convolution start at zero, so that the block starts as its shortcut: the identity
    or, where the number of planes changes, a 1x1 convolution.
    """

    def __init__(self, planes_in: int, planes: int, condition: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Sequential(*normalised(planes_in, groups), nn.Conv2d(planes_in, planes, 3, padding=1))
        self.condition = zeroed(Linear(condition, planes, bias=False))
        last = zeroed(nn.Conv2d(planes, planes, 3, padding=1))
        self.second = nn.Sequential(*normalised(planes, groups), nn.Dropout(dropout), last)
        self.shortcut = nn.Identity() if planes_in == planes else nn.Conv2d(planes_in, planes, 1)

    def forward(self, h: Tensor, condition: Tensor) -> Tensor:
        changed = self.first(h) + self.condition(condition)[:, :, None, None]
        return self.shortcut(h) + self.second(changed)


class AttentionBlock(nn.Module):
    """Every pixel attends to every other, beside a shortcut; the last convolution starts at zero."""

    def __init__(self, planes: int, groups: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, planes)
        self.queries_keys_values = nn.Conv2d(planes, 3 * planes, 1)
        self.out = zeroed(nn.Conv2d(planes, planes, 1))

    def forward(self, h: Tensor) -> Tensor:
        size, planes, height, width = h.shape
        rows = self.queries_keys_values(self.norm(h)).permute(0, 2, 3, 1)
        split = rows.reshape(size, height * width, 3, self.heads, planes // self.heads)
        seen = attention(*split.permute(2, 0, 3, 1, 4))
        image = seen.transpose(1, 2).reshape(size, height, width, planes).permute(0, 3, 1, 2)
        return h + self.out(image)


class UnetBody(nn.Module):
    """Planes (B, P, H, W) and a conditioning vector (B, 4C) -> features (B, C, H, W).

    One more block goes up than down: the input of every down block and the output of the last one are taken back in.
    """

    def __init__(self, planes_in: int, settings: UnetSettings) -> None:
        super().__init__()
        embedding, groups = settings.embedding, settings.groups
        self.checkpointing = settings.checkpointing

        def block(planes: int) -> ResnetBlock:
            return ResnetBlock(planes, embedding, 4 * embedding, groups, settings.dropout)

        self.enter = nn.Conv2d(planes_in, embedding, 3, padding=1)
        self.down = nn.ModuleList(block(embedding) for _ in range(settings.blocks))
        self.middle_in = block(embedding)
        self.attention = AttentionBlock(embedding, groups, settings.heads)
        self.middle_out = block(embedding)
        self.up = nn.ModuleList(block(2 * embedding) for _ in range(settings.blocks + 1))
        self.leave = normalised(embedding, groups)

    def forward(self, planes: Tensor, condition: Tensor) -> Tensor:
        run = partial(through, recompute=self.checkpointing)

        def joined(block: nn.Module, h: Tensor, stored: Tensor, condition: Tensor) -> Tensor:
            # Inside what is recomputed, so that the two halves are not stored a second time side by side.
            return block(torch.cat([h, stored], dim=1), condition)

        h = self.enter(planes)
        stored = [h]
        for block in self.down:
            h = run(block, h, condition)
            stored.append(h)
        h = run(self.attention, run(self.middle_in, h, condition))
        h = run(self.middle_out, h, condition)
        for block in self.up:
            h = run(partial(joined, block), h, stored.pop(), condition)
        return run(self.leave, h)


class PixelEmbedding(nn.Module):
    """Tokens (B, H W channels) in 0..V -> planes (B, channels * size, H, W), the channels' embeddings side by side.

    One table with V + 1 rows serves all channels; they differ in the planes they fill.
    """

    def __init__(self, shape: Sequence[int], vocab_size: int, size: int) -> None:
        super().__init__()
        self.image = tuple(shape)
        self.table = nn.Embedding(vocab_size + 1, size)

    def forward(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.table(tokens.view(-1, *self.image))
        return embedded.flatten(3).permute(0, 3, 1, 2)


class TokenUnet(nn.Module):
    """(tokens, t, z) -> features (B, C, H, W): embedding, conditioning and body, all but the readout.

    t and, if there is a latent, z each pass through an MLP to 4C numbers; their sum conditions every block. The paper
    adds z "in each up block and down block"; that it comes in through this shared vector is inferred from the counts.
    """

    def __init__(
        self, shape: Sequence[int], vocab_size: int, settings: UnetSettings, *, latent_dim: int | None
    ) -> None:
        super().__init__()
        width = 4 * settings.embedding
        self.pixels = PixelEmbedding(shape, vocab_size, settings.pixel_embedding)
        self.time = nn.Sequential(Sinusoids(3, -1, settings.embedding), *condition_layers(settings.embedding, width))
        self.latent = None if latent_dim is None else nn.Sequential(*condition_layers(latent_dim, width))
        self.body = UnetBody(shape[2] * settings.pixel_embedding, settings)

    def forward(self, tokens: Tensor, t: Tensor, z: Tensor | None = None) -> Tensor:
        condition = self.time(t)
        if self.latent is not None:
            condition = condition + self.latent(z)
        return self.body(self.pixels(tokens), condition)


class PixelReadout(nn.Module):
    """Features (B, C, H, W) -> logits (M, V) at the M true entries of ``where`` (B, H W channels): a 3x3 convolution.

    It starts at zero, that is, from the uniform distribution. Convolving everywhere holds channels * V numbers per
    pixel; convolving only where something is wanted holds the 9 C inputs beside them, but for those pixels alone.
    Whichever holds less is done; both give the same logits.
    """

    def __init__(self, planes: int, channels: int, vocab_size: int) -> None:
        super().__init__()
        self.channels = channels
        self.vocab_size = vocab_size
        self.convolution = zeroed(nn.Conv2d(planes, channels * vocab_size, 3, padding=1))

    def forward(self, features: Tensor, where: Where) -> Tensor:
        asked = Places.of(where, self.channels)
        numbers, pixels = asked.numbers, asked.numbers if asked.groups is None else asked.groups
        outputs, inputs = self.channels * self.vocab_size, 9 * features.shape[1]
        pixels_in_all = asked.batch * asked.positions // self.channels
        if not exporting() and len(pixels) * (inputs + outputs) < pixels_in_all * outputs:
            logits = self.at(features, pixels)
            if self.channels == 1:
                return logits
            # Where each pixel is among those that were read out.
            numbers = torch.searchsorted(pixels, numbers // self.channels) * self.channels + numbers % self.channels
        else:
            logits = self.convolution(features).permute(0, 2, 3, 1)
        return logits.reshape(-1, self.vocab_size).index_select(0, numbers)

    def at(self, features: Tensor, pixels: Tensor) -> Tensor:
        """The convolution at chosen pixels, numbered (b * H + h) * W + w: (M, channels * V)."""
        padded = F.pad(features.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
        (height, width), (tall, wide) = features.shape[2:], padded.shape[1:3]
        example, pixel = pixels // (height * width), pixels % (height * width)
        corner = (example * tall + pixel // width) * wide + pixel % width
        step = torch.arange(3, device=pixels.device)
        neighbours = corner[:, None] + (step[:, None] * wide + step).flatten()
        patches = padded.flatten(0, 2).index_select(0, neighbours.flatten()).view(len(pixels), 9 * padded.shape[3])
        return linear(patches, self.convolution.weight.permute(0, 2, 3, 1).flatten(1), self.convolution.bias)


class UnetDenoiser(DenoiserBase):
    def __init__(
        self, shape: Sequence[int], vocab_size: int, settings: UnetSettings, *, latent_dim: int | None = None
    ) -> None:
        shape = image_shape(shape)
        super().__init__(math.prod(shape), vocab_size, uses_time=True)
        self.unet = TokenUnet(shape, vocab_size, settings, latent_dim=latent_dim)
        self.readout = PixelReadout(settings.embedding, shape[2], vocab_size)
        self.group = shape[2]

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        return self.readout(self.unet(xt, t, z), where)


class SiameseUnetRecognizer(nn.Module):
    """(x0, xt, t) -> mean and log standard deviation of r(z | x0, xt), each (B, d).

    The same UNet reads x0 and xt; the two outputs are averaged and halved in size until one pixel with 2d planes is
    left. The UNet's output convolution and the halving ones, which the paper leaves open, keep C planes and do not
    start at zero: the posterior depends on x0 and on the mask from the first step.
    """

    def __init__(self, shape: Sequence[int], vocab_size: int, settings: UnetSettings, *, latent_dim: int) -> None:
        super().__init__()
        shape = image_shape(shape)
        self.unet = TokenUnet(shape, vocab_size, settings, latent_dim=None)
        halvings = max(1, (max(shape[:2]) - 1).bit_length())
        embedding, groups = settings.embedding, settings.groups
        layers: list[nn.Module] = [nn.Conv2d(embedding, embedding, 3, padding=1)]
        for left in reversed(range(halvings)):
            planes = embedding if left else 2 * latent_dim
            layers += [*normalised(embedding, groups), nn.Conv2d(embedding, planes, 3, stride=2, padding=1)]
        self.readout = nn.Sequential(*layers, nn.Flatten())

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        out_0, out_t = self.unet(torch.cat([x0, xt]), t.repeat(2)).chunk(2)
        # The first layer of the readout, the UNet's output convolution, is linear: once on the average is enough.
        return mean_and_log_std(self.readout((out_0 + out_t) / 2))


UnetSettings.networks = UnetDenoiser, SiameseUnetRecognizer
