"""Multilayer perceptrons, which read an example into one vector.

- Plain ones are the networks of the paper's two-dimensional experiments: one embedding table per position, summed (a
  single shared table would neither tell the positions apart nor mix them), a stack of hidden layers, and a head with
  N x V outputs. Sizes follow the paper's appendix at width 512, depth 4.
- Residual ones are what a CPU can train in minutes on images. A convolutional network pays for every pixel at every
  layer: the paper's UNet costs about 4 GFLOP for one 32 x 32 image. Here the image is read once into a vector, a few
  residual blocks work on that vector, and one layer writes all logits: some 15 MFLOP at width 768. The latent is added
  to the vector, and costs next to nothing.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.networks.layers import (
    DenoiserBase,
    FactorisedReadout,
    Linear,
    ResidualBlocks,
    SummedRecognizer,
    latent_embedding,
    linear,
    mean_and_log_std,
    time_embedding,
    token_embedding,
)
from vadd.networks.settings import TIME_FEATURES, NetworkSettings
from vadd.settings import Fraction, Layers, Section

VALUE_EMBEDDING = (
    "numbers that a value is read and written by, the same at all positions; by default each position has a table and "
    "outputs of its own, which many positions of many values make large"
)


class MlpDenoiserSettings(Section):
    depth: Layers = 4
    latent_frequencies: tuple[PositiveFloat, ...] = Field((), description="Fourier features of z, for few dimensions")


class MlpRecognizerSettings(Section):
    depth: Layers = 4


class MlpSettings(NetworkSettings):
    """The networks of the paper's toy experiments."""

    kind: Literal["mlp"] = "mlp"
    width: PositiveInt = 256
    time_features: int = Field(
        0, ge=0, multiple_of=2, description="sinusoids of t shown to the networks; 0: they do not see t"
    )
    smoothness: float = Field(
        0.0, ge=0, description="> 0 starts neighbouring values alike, with about so many periods over the range"
    )
    value_embedding: PositiveInt | None = Field(None, description=VALUE_EMBEDDING)
    denoiser: MlpDenoiserSettings = MlpDenoiserSettings()
    recognizer: MlpRecognizerSettings = MlpRecognizerSettings()
    rows_at_once: ClassVar[int] = 8192
    time_key: ClassVar[str | None] = "time_features"


class LatentEmbedding(nn.Module):
    """Latents (B, d) -> (B, width): a linear map of z and, if given, of sin and cos of z times each frequency.

    A latent must often switch the output from one mode to another within a short distance; the Fourier features make
    that easy to learn.
    """

    frequencies: Tensor

    def __init__(self, dim: int, width: int, frequencies: Sequence[float] = ()) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.tensor(frequencies, dtype=torch.float32), persistent=False)
        self.linear = Linear(dim * (1 + 2 * len(frequencies)), width)

    def forward(self, z: Tensor) -> Tensor:
        angles = (z[:, None, :] * self.frequencies[:, None]).flatten(1)
        return self.linear(torch.cat([z, angles.sin(), angles.cos()], dim=-1))


def hidden_layers(width: int, depth: int) -> list[nn.Module]:
    return [module for _ in range(depth) for module in (Linear(width, width), nn.ELU())]


class MlpDenoiser(DenoiserBase):
    def __init__(
        self, positions: int, vocab_size: int, settings: MlpSettings, *, latent_dim: int | None = None
    ) -> None:
        super().__init__(positions, vocab_size, uses_time=settings.time_features > 0)
        width, features, own = settings.width, settings.value_embedding, settings.denoiser
        self.tokens = token_embedding(positions, vocab_size, width, features, settings.smoothness)
        self.latent = None if latent_dim is None else LatentEmbedding(latent_dim, width, own.latent_frequencies)
        self.time = time_embedding(settings.time_features, width)
        hidden = hidden_layers(width, own.depth)
        head: list[nn.Module] = [Linear(width, positions * vocab_size)] if features is None else []
        self.readout = nn.Sequential(*hidden, *head)
        self.factorised = None if features is None else FactorisedReadout(positions, vocab_size, width, features)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        out: Tensor = self.readout(self.conditioned(self.tokens(xt), z, t))
        wanted = Places.of(where).numbers
        if self.factorised is not None:
            return self.factorised(out, wanted)
        return out.view(-1, self.vocab_size).index_select(0, wanted)


class SiameseMlpRecognizer(nn.Module):
    """(x0, xt, t) -> mean and log standard deviation of r(z | x0, xt), each (B, d).

    The same network reads x0 and xt; the two outputs are averaged and mapped to the posterior's parameters.
    """

    def __init__(self, positions: int, vocab_size: int, settings: MlpSettings, *, latent_dim: int) -> None:
        super().__init__()
        width = settings.width
        self.tokens = token_embedding(positions, vocab_size, width, settings.value_embedding, settings.smoothness)
        self.time = time_embedding(settings.time_features, width)
        self.twin = nn.Sequential(*hidden_layers(width, settings.recognizer.depth), Linear(width, width))
        self.readout = nn.Sequential(Linear(width, width), nn.ELU(), Linear(width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.tokens(torch.cat([x0, xt]))
        if self.time is not None:
            hidden = hidden + self.time(t).repeat(2, 1)
        out_0, out_t = self.twin(hidden).chunk(2)
        return mean_and_log_std(self.readout((out_0 + out_t) / 2))


MlpSettings.networks = MlpDenoiser, SiameseMlpRecognizer


class ResidualDenoiserSettings(Section):
    blocks: Layers = 3
    time_features: int = Field(0, ge=0, multiple_of=2, description=TIME_FEATURES)


class ResidualRecognizerSettings(Section):
    blocks: Layers = 2


class ResidualSettings(NetworkSettings):
    """Residual perceptrons over whole images, for CPUs."""

    kind: Literal["residual"] = "residual"
    width: PositiveInt = 768
    dropout: Fraction = 0.0
    value_embedding: PositiveInt | None = Field(None, description=VALUE_EMBEDDING)
    denoiser: ResidualDenoiserSettings = ResidualDenoiserSettings()
    recognizer: ResidualRecognizerSettings = ResidualRecognizerSettings()
    rows_at_once: ClassVar[int] = 8192


class ResidualDenoiser(DenoiserBase):
    def __init__(
        self, positions: int, vocab_size: int, settings: ResidualSettings, *, latent_dim: int | None = None
    ) -> None:
        super().__init__(positions, vocab_size, uses_time=settings.denoiser.time_features > 0)
        width, features = settings.width, settings.value_embedding
        self.differences_only = True
        """Whether only the differences of logits count, as they do for probabilities and not for scores."""
        self.tokens = token_embedding(positions, vocab_size, width, features)
        self.latent = latent_embedding(latent_dim, width)
        self.blocks = ResidualBlocks(settings.denoiser.blocks, width, settings.dropout)
        self.readout = nn.Sequential(
            nn.LayerNorm(width),
            Linear(width, positions * vocab_size)
            if features is None
            else FactorisedReadout(positions, vocab_size, width, features),
        )
        self.time = time_embedding(settings.denoiser.time_features, width)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        hidden = self.blocks(self.conditioned(self.tokens(xt), z, t))
        norm, last = self.readout
        wanted = Places.of(where).numbers
        if not isinstance(last, nn.Linear):
            return last(norm(hidden), wanted)
        if self.vocab_size == 2 and self.differences_only:
            # Of two logits only the difference counts: half the product gives it, and the first is 0.
            first, second = last.weight.view(self.positions, 2, -1).unbind(1)
            bias = last.bias.view(self.positions, 2).diff(dim=1)[:, 0]
            odds = linear(norm(hidden), second - first, bias).flatten().index_select(0, wanted)
            return F.pad(odds[:, None], (1, 0))
        logits: Tensor = last(norm(hidden)).view(-1, self.vocab_size)
        return logits.index_select(0, wanted)


class ResidualRecognizer(SummedRecognizer):
    def __init__(self, positions: int, vocab_size: int, settings: ResidualSettings, *, latent_dim: int) -> None:
        reader = partial(token_embedding, positions, vocab_size, settings.width, settings.value_embedding)
        super().__init__(reader, latent_dim, settings.width, settings.recognizer.blocks, settings.dropout)


ResidualSettings.networks = ResidualDenoiser, ResidualRecognizer
