"""Convolutional pyramids: for images what a CPU can train in half an hour, and better than perceptrons.

The image is halved until few pixels are left, with twice the planes at every level; a vector read from there goes
through residual blocks, in which the latent comes in, and is written back, and on the way up each level is added to
what was seen at the same level on the way down. Most of the work is done where there are few pixels: for binary images
of 32 x 32, with 16 planes at the first level, a pass costs about that of a residual perceptron of width 768.

Tokens come flattened in (height, width, channel) order. Activations and filters are channels-last, as the one-hot
planes are: on a CPU a fifth faster.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.errors import UserError
from vadd.networks.layers import (
    DenoiserBase,
    Layer,
    Linear,
    ResidualBlocks,
    latent_embedding,
    mean_and_log_std,
    time_embedding,
    zeroed,
)
from vadd.networks.perceptrons import ResidualDenoiserSettings, ResidualRecognizerSettings
from vadd.networks.settings import NetworkSettings
from vadd.networks.unet import image_shape
from vadd.settings import Fraction, Layers

COARSE = 4
"""Pixels a side at which halving ends."""
MOST_PLANES = 17
"""One-hot planes of a channel; more are first mixed down to one fewer than this."""


class PyramidDenoiserSettings(ResidualDenoiserSettings):
    blocks: Layers = 2


class PyramidSettings(NetworkSettings):
    """Convolutional pyramids over images whose sides can be halved, for CPUs."""

    kind: Literal["pyramid"] = "pyramid"
    channels: PositiveInt = Field(16, description="planes after the first halving; each further one doubles them")
    width: PositiveInt = Field(512, description="of the vector between the way down and the way up")
    dropout: Fraction = 0.0
    denoiser: PyramidDenoiserSettings = PyramidDenoiserSettings()
    recognizer: ResidualRecognizerSettings = ResidualRecognizerSettings()
    rows_at_once: ClassVar[int] = 1024
    measure: ClassVar[str] = "shape"


class OneHotPlanes(nn.Module):
    """Tokens (B, H W channels) in 0..V -> planes (B, channels * (V + 1), H, W)."""

    values: Tensor

    def __init__(self, shape: Sequence[int], vocab_size: int) -> None:
        super().__init__()
        self.image = image_shape(shape)
        self.register_buffer("values", torch.arange(vocab_size + 1), persistent=False)
        channels, rows = self.image[2], vocab_size + 1
        self.planes = channels * min(rows, MOST_PLANES - 1 if rows > MOST_PLANES else rows)
        self.mix = nn.Conv2d(channels * rows, self.planes, 1, groups=channels) if rows > MOST_PLANES else None

    def forward(self, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        one_hot = (tokens.view(-1, *self.image)[..., None] == self.values).to(dtype)
        planes = one_hot.flatten(3).permute(0, 3, 1, 2)
        return planes if self.mix is None else self.mix(planes)


def halvings(shape: Sequence[int]) -> int:
    """How often both sides can be halved until they are short, at least once."""
    height, width, _ = image_shape(shape)
    count = 0
    while height % 2 == 0 and width % 2 == 0 and (count == 0 or max(height, width) > COARSE):
        height, width, count = height // 2, width // 2, count + 1
    if count == 0:
        raise UserError(
            f"a pyramid halves its images, which {height} x {width} pixels cannot be; choose network.kind=unet"
        )
    return count


class WayDown(nn.Module):
    """Planes at full resolution -> what is seen at each level, finest first, and a vector (B, width) of it."""

    def __init__(self, planes: Sequence[int], shape: Sequence[int], channels: int, width: int) -> None:
        """``planes`` are those of each of several inputs: each has filters of its own at the first level."""
        super().__init__()
        levels = halvings(shape)
        self.sizes = [channels * 2**level for level in range(levels)]
        self.inputs = nn.ModuleList(_halving(count, channels) for count in planes)
        self.deeper = nn.ModuleList(_halving(size, 2 * size) for size in self.sizes[:-1])
        # Most pixels of most images are alike: without a norm the examples differ too little for z to be learnt.
        self.norms = nn.ModuleList(nn.GroupNorm(1, size) for size in self.sizes)
        height, breadth, _ = image_shape(shape)
        self.coarse = (self.sizes[-1], height >> levels, breadth >> levels)
        self.read = _kept(Linear(self.sizes[-1] * self.coarse[1] * self.coarse[2], width))

    def forward(self, *images: Tensor) -> tuple[list[Tensor], Tensor]:
        # Sums, not planes side by side: an input of one row broadcasts over a batch of the other.
        first = reduce(torch.add, (convolve(image) for convolve, image in zip(self.inputs, images, strict=True)))
        seen = [F.silu(self.norms[0](first))]
        for convolve, norm in zip(self.deeper, list(self.norms)[1:], strict=True):
            seen.append(F.silu(norm(convolve(seen[-1]))))
        return seen, self.read(seen[-1].flatten(1))


class WayUp(nn.Module):
    """A vector (B, width) and what was seen at each level -> planes at full resolution."""

    def __init__(self, down: WayDown, width: int, planes: int) -> None:
        super().__init__()
        self.coarse = down.coarse
        self.write = nn.Sequential(nn.LayerNorm(width), _kept(Linear(width, down.read.in_features), "linear"))
        finer = list(reversed(down.sizes[:-1]))
        # Each new pixel is a product of the one it comes from; the convolution then sees its neighbours.
        self.enlarge = nn.ModuleList(_kept(nn.Conv2d(2 * size, 4 * size, 1)) for size in finer)
        self.mix = nn.ModuleList(_kept(nn.Conv2d(size, size, 3, padding=1)) for size in finer)
        self.last = zeroed(nn.Conv2d(down.sizes[0], 4 * planes, 3, padding=1))

    def forward(self, hidden: Tensor, seen: list[Tensor]) -> Tensor:
        up = self.write(hidden).view(-1, *self.coarse) + seen[-1]
        for enlarge, mix, skipped in zip(self.enlarge, self.mix, reversed(seen[:-1]), strict=True):
            up = F.pixel_shuffle(enlarge(F.silu(up)), 2) + skipped
            up = up + mix(F.silu(up))
        return F.pixel_shuffle(self.last(F.silu(up)), 2)


class PyramidDenoiser(DenoiserBase):
    def __init__(
        self, shape: Sequence[int], vocab_size: int, settings: PyramidSettings, *, latent_dim: int | None = None
    ) -> None:
        super().__init__(math.prod(shape), vocab_size, uses_time=settings.denoiser.time_features > 0)
        channels, width = settings.channels, settings.width
        self.image = image_shape(shape)
        self.planes = OneHotPlanes(shape, vocab_size)
        self.down = WayDown([self.planes.planes], shape, channels, width)
        self.latent = latent_embedding(latent_dim, width)
        self.time = time_embedding(settings.denoiser.time_features, width)
        self.blocks = ResidualBlocks(settings.denoiser.blocks, width, settings.dropout)
        logits = self.image[2] * vocab_size
        self.up = WayUp(self.down, width, logits)
        self.near = nn.Sequential(
            nn.Conv2d(self.planes.planes, channels, 3, padding=1), nn.SiLU(), zeroed(nn.Conv2d(channels, logits, 1))
        )
        self.bias = nn.Parameter(torch.zeros(*self.image[:2], logits))
        channels_last(self)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        logits = self._logits_of_distinct_states(xt, z, t)
        wanted = Places.of(where).numbers
        return logits.reshape(-1, self.vocab_size).index_select(0, wanted)

    def _logits_of_distinct_states(self, xt: Tensor, z: Tensor | None, t: Tensor) -> Tensor:
        """Where everything is masked all examples look alike: they are read once, however many there are. That is half
        of what few-step models learn from, and all that a sampler sees at its first step.
        """
        # What a tensor without content holds cannot be asked, and a GPU would make the host wait for it.
        if not xt.is_cpu or torch.compiler.is_compiling():
            return self._logits(xt[:1] if xt.stride(0) == 0 else xt, z, t)
        nothing_known = (xt == self.vocab_size).all(dim=1)
        alike, others = nothing_known.nonzero()[:, 0], (~nothing_known).nonzero()[:, 0]
        if len(alike) == 0:
            return self._logits(xt, z, t)
        first = self._logits(xt[alike[:1]], None if z is None else z[alike], t[alike])
        if len(others) == 0:
            return first
        rest = self._logits(xt[others], None if z is None else z[others], t[others])
        return torch.cat([first, rest]).index_select(0, torch.cat([alike, others]).argsort())

    def _logits(self, xt: Tensor, z: Tensor | None, t: Tensor) -> Tensor:
        """(B, height, width, channels * V); one state xt (1, N) serves any number of z (B, d) and t (B,)."""
        planes = self.planes(xt, self.bias.dtype)
        seen, hidden = self.down(planes)
        hidden = self.blocks(self.conditioned(hidden.expand(t.shape[0], -1), z, t))
        return (self.up(hidden, seen) + self.near(planes)).permute(0, 2, 3, 1) + self.bias


class PyramidRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d); one pass over both."""

    def __init__(self, shape: Sequence[int], vocab_size: int, settings: PyramidSettings, *, latent_dim: int) -> None:
        super().__init__()
        width = settings.width
        self.clean, self.masked = OneHotPlanes(shape, vocab_size), OneHotPlanes(shape, vocab_size)
        self.down = WayDown([self.clean.planes, self.masked.planes], shape, settings.channels, width)
        self.blocks = ResidualBlocks(settings.recognizer.blocks, width, settings.dropout)
        self.readout = nn.Sequential(nn.LayerNorm(width), Linear(width, 2 * latent_dim))
        channels_last(self)

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        if len(xt) > 1 and xt.stride(0) == 0:  # one state for all examples
            xt = xt[:1]
        dtype = self.down.read.weight.dtype
        _, hidden = self.down(self.clean(x0, dtype), self.masked(xt, dtype))
        return mean_and_log_std(self.readout(self.blocks(hidden)))


def channels_last(network: nn.Module) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)


def _halving(inputs: int, outputs: int) -> nn.Conv2d:
    return _kept(nn.Conv2d(inputs, outputs, 4, stride=2, padding=1))


def _kept(layer: Layer, before: Literal["relu", "linear"] = "relu") -> Layer:
    """With first weights that keep the size of what passes, where ``before`` stands before it: PyTorch's own shrink it
    at every layer.
    """
    nn.init.kaiming_normal_(layer.weight, nonlinearity=before)
    return layer


PyramidSettings.networks = PyramidDenoiser, PyramidRecognizer
