"""Multilayer perceptrons over short sequences of integers: the networks of the paper's two-dimensional experiments.

One embedding table per position, summed (a single shared table would neither tell the positions apart nor mix them),
a stack of hidden layers, and a head with N x V outputs. Sizes follow the paper's appendix at width 512, depth 4.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from vadd.networks.layers import (
    DenoiserBase,
    FactorisedReadout,
    mean_and_log_std,
    time_embedding,
    token_embedding,
)
from vadd.networks.settings import Examples, NetworkSettings
from vadd.settings import Layers, Section

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

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return MlpDenoiser(examples.positions, examples.vocab_size, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        return SiameseMlpRecognizer(examples.positions, examples.vocab_size, self, latent_dim=latent_dim)


class LatentEmbedding(nn.Module):
    """Latents (B, d) -> (B, width): a linear map of z and, if given, of sin and cos of z times each frequency.

    A latent must often switch the output from one mode to another within a short distance; the Fourier features make
    that easy to learn.
    """

    frequencies: Tensor

    def __init__(self, dim: int, width: int, frequencies: Sequence[float] = ()) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.tensor(frequencies, dtype=torch.float32), persistent=False)
        self.linear = nn.Linear(dim * (1 + 2 * len(frequencies)), width)

    def forward(self, z: Tensor) -> Tensor:
        angles = (z[:, None, :] * self.frequencies[:, None]).flatten(1)
        return self.linear(torch.cat([z, angles.sin(), angles.cos()], dim=-1))


def hidden_layers(width: int, depth: int) -> list[nn.Module]:
    return [module for _ in range(depth) for module in (nn.Linear(width, width), nn.ELU())]


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
        head: list[nn.Module] = [nn.Linear(width, positions * vocab_size)] if features is None else []
        self.readout = nn.Sequential(*hidden, *head)
        self.factorised = None if features is None else FactorisedReadout(positions, vocab_size, width, features)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        out: Tensor = self.readout(self.conditioned(self.tokens(xt), z, t))
        wanted = where.flatten().nonzero()[:, 0]
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
        self.twin = nn.Sequential(*hidden_layers(width, settings.recognizer.depth), nn.Linear(width, width))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.tokens(torch.cat([x0, xt]))
        if self.time is not None:
            hidden = hidden + self.time(t).repeat(2, 1)
        out_0, out_t = self.twin(hidden).chunk(2)
        return mean_and_log_std(self.readout((out_0 + out_t) / 2))
