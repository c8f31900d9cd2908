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
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.posterior import mean_and_log_std
from vadd.networks.unet_blocks import TimeFeatures, UnetBody, UnetSize, normalised, zeroed


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(height, width, channels), if that is what the examples have."""
    if len(shape) != 3:
        raise UserError(f"such networks are for images; these examples have the shape {tuple(shape)}")
    height, width, channels = shape
    return height, width, channels


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

    def __init__(self, shape: Sequence[int], vocab_size: int, size: UnetSize, *, latent_dim: int | None) -> None:
        super().__init__()

        def to_condition(inputs: int) -> list[nn.Module]:
            hidden = 4 * size.embedding
            return [nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()]

        self.pixels = PixelEmbedding(shape, vocab_size, size.pixel_embedding)
        self.time = nn.Sequential(TimeFeatures(size.embedding), *to_condition(size.embedding))
        self.latent = None if latent_dim is None else nn.Sequential(*to_condition(latent_dim))
        self.body = UnetBody(shape[2] * size.pixel_embedding, size)

    def forward(self, tokens: Tensor, t: Tensor, z: Tensor | None = None) -> Tensor:
        condition = self.time(t)
        if self.latent is not None:
            condition = condition + self.latent(z)
        features: Tensor = self.body(self.pixels(tokens), condition)
        return features


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

    def forward(self, features: Tensor, where: Tensor) -> Tensor:
        wanted = where.view(-1, self.channels)
        pixels = wanted.any(1).nonzero()[:, 0]
        outputs, inputs = self.channels * self.vocab_size, 9 * features.shape[1]
        if len(pixels) * (inputs + outputs) < len(wanted) * outputs:
            logits, wanted = self.at(features, pixels), wanted.index_select(0, pixels)
        else:
            logits = self.convolution(features).permute(0, 2, 3, 1)
        return logits.reshape(-1, self.vocab_size).index_select(0, wanted.flatten().nonzero()[:, 0])

    def at(self, features: Tensor, pixels: Tensor) -> Tensor:
        """The convolution at chosen pixels, numbered (b * H + h) * W + w: (M, channels * V)."""
        padded = F.pad(features.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
        (height, width), (tall, wide) = features.shape[2:], padded.shape[1:3]
        example, pixel = pixels // (height * width), pixels % (height * width)
        corner = (example * tall + pixel // width) * wide + pixel % width
        step = torch.arange(3, device=pixels.device)
        neighbours = corner[:, None] + (step[:, None] * wide + step).flatten()
        patches = padded.flatten(0, 2).index_select(0, neighbours.flatten()).view(len(pixels), 9 * padded.shape[3])
        return F.linear(patches, self.convolution.weight.permute(0, 2, 3, 1).flatten(1), self.convolution.bias)


class UnetDenoiser(nn.Module):
    """(xt, z, t) -> logits at the positions asked for; see :class:`vadd.core.model.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser.
    """

    def __init__(
        self, shape: Sequence[int], vocab_size: int, size: UnetSize | None = None, *, latent_dim: int | None = None
    ) -> None:
        super().__init__()
        shape, size = image_shape(shape), size or UnetSize()
        self.positions = math.prod(shape)
        self.vocab_size = vocab_size
        self.uses_time = True
        self.unet = TokenUnet(shape, vocab_size, size, latent_dim=latent_dim)
        self.readout = PixelReadout(size.embedding, shape[2], vocab_size)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.unet(xt, t, z), where)
        return logits

    def latent_input_weights(self) -> list[nn.Parameter]:
        # The last of its layers is a SiLU, which leaves zero as it is.
        return [] if self.unet.latent is None else list(self.unet.latent[-2].parameters())

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return weights


class SiameseUnetRecognizer(nn.Module):
    """(x0, xt, t) -> mean and log standard deviation of r(z | x0, xt), each (B, d).

    The same UNet reads x0 and xt; the two outputs are averaged and halved in size until one pixel with 2d planes is
    left. The UNet's output convolution and the halving ones, which the paper leaves open, keep C planes and do not
    start at zero: the posterior depends on x0 and on the mask from the first step.
    """

    def __init__(self, shape: Sequence[int], vocab_size: int, size: UnetSize | None = None, *, latent_dim: int) -> None:
        super().__init__()
        shape, size = image_shape(shape), size or UnetSize()
        self.unet = TokenUnet(shape, vocab_size, size, latent_dim=None)
        halvings = max(1, (max(shape[:2]) - 1).bit_length())
        embedding, groups = size.embedding, size.groups
        layers: list[nn.Module] = [nn.Conv2d(embedding, embedding, 3, padding=1)]
        for left in reversed(range(halvings)):
            planes = embedding if left else 2 * latent_dim
            layers += [*normalised(embedding, groups), nn.Conv2d(embedding, planes, 3, stride=2, padding=1)]
        self.readout = nn.Sequential(*layers, nn.Flatten())

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        out_0, out_t = self.unet(torch.cat([x0, xt]), t.repeat(2)).chunk(2)
        # The first layer of the readout, the UNet's output convolution, is linear: once on the average is enough.
        return mean_and_log_std(self.readout((out_0 + out_t) / 2))
