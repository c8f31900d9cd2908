"""Residual perceptrons over whole images: what a CPU can train in minutes.

A convolutional network pays for every pixel at every layer: the paper's UNet costs about 4 GFLOP for one 32 x 32 image.
Here the image is read once into a vector, a few residual blocks work on that vector, and one layer writes all logits:
some 15 MFLOP at width 768. The latent is added to the vector, and costs next to nothing.
"""

from functools import partial
from typing import ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vadd.networks.layers import (
    DenoiserBase,
    FactorisedReadout,
    ResidualBlocks,
    SummedRecognizer,
    latent_embedding,
    time_embedding,
    token_embedding,
)
from vadd.networks.mlp import VALUE_EMBEDDING
from vadd.networks.settings import TIME_FEATURES, Examples, NetworkSettings
from vadd.settings import Fraction, Layers, Section


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

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return ResidualDenoiser(examples.positions, examples.vocab_size, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        return ResidualRecognizer(examples.positions, examples.vocab_size, self, latent_dim=latent_dim)


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
            nn.Linear(width, positions * vocab_size)
            if features is None
            else FactorisedReadout(positions, vocab_size, width, features),
        )
        self.time = time_embedding(settings.denoiser.time_features, width)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        hidden = self.blocks(self.conditioned(self.tokens(xt), z, t))
        norm, linear = self.readout
        wanted = where.flatten().nonzero()[:, 0]
        if not isinstance(linear, nn.Linear):
            return linear(norm(hidden), wanted)
        if self.vocab_size == 2 and self.differences_only:
            # Of two logits only the difference counts: half the product gives it, and the first is 0.
            first, second = linear.weight.view(self.positions, 2, -1).unbind(1)
            bias = linear.bias.view(self.positions, 2).diff(dim=1)[:, 0]
            odds = F.linear(norm(hidden), second - first, bias).flatten().index_select(0, wanted)
            return F.pad(odds[:, None], (1, 0))
        logits: Tensor = linear(norm(hidden)).view(-1, self.vocab_size)
        return logits.index_select(0, wanted)


class ResidualRecognizer(SummedRecognizer):
    def __init__(self, positions: int, vocab_size: int, settings: ResidualSettings, *, latent_dim: int) -> None:
        reader = partial(token_embedding, positions, vocab_size, settings.width, settings.value_embedding)
        super().__init__(reader, latent_dim, settings.width, settings.recognizer.blocks, settings.dropout)
