"""Residual perceptrons over the columns of a table: every column has an embedding and a readout of its own size.

Columns have different numbers of values, and a table of N x V would be empty for the most part: here there are as many
rows and outputs as there are values. Outputs are padded to V with minus infinity.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from vadd.networks.layers import DenoiserBase, ResidualBlocks, SummedRecognizer, TokenReader, latent_embedding
from vadd.networks.residual import ResidualRecognizerSettings
from vadd.networks.settings import Examples, NetworkSettings
from vadd.settings import Fraction, Layers, Section


class TableDenoiserSettings(Section):
    blocks: Layers = 3


class TableSettings(NetworkSettings):
    """Residual perceptrons over the columns of a table, each with as many values as it has."""

    kind: Literal["table"] = "table"
    width: PositiveInt = 256
    dropout: Fraction = 0.0
    denoiser: TableDenoiserSettings = TableDenoiserSettings()
    recognizer: ResidualRecognizerSettings = ResidualRecognizerSettings()
    rows_at_once: ClassVar[int] = 8192
    time_key: ClassVar[str | None] = None

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return TableDenoiser(sizes_of(examples), examples.vocab_size, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        return TableRecognizer(sizes_of(examples), self, latent_dim=latent_dim)


def sizes_of(examples: Examples) -> Sequence[int]:
    return examples.sizes or [examples.vocab_size] * examples.positions


class ColumnEmbedding(TokenReader):
    """The sum over columns of each column's own table; the mask, V, is its last row."""

    limits: Tensor
    offsets: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        rows = [size + 1 for size in sizes]
        # The sum over columns should not grow with their number: from two on, keep the variance of two.
        scale = math.sqrt(2 / max(len(sizes), 2))
        self.table = nn.Parameter(scale * torch.randn(sum(rows), width))
        self.register_buffer("limits", torch.tensor(sizes), persistent=False)
        self.register_buffer("offsets", torch.tensor([0, *accumulate(rows)][:-1]), persistent=False)

    def read(self, tokens: Tensor) -> Tensor:
        return F.embedding_bag(torch.minimum(tokens, self.limits) + self.offsets, self.table, mode="sum")


class TableDenoiser(DenoiserBase):
    """It does not see t."""

    places: Tensor

    def __init__(
        self, sizes: Sequence[int], vocab_size: int, settings: TableSettings, *, latent_dim: int | None = None
    ) -> None:
        super().__init__(len(sizes), vocab_size, uses_time=False)
        self.tokens = ColumnEmbedding(sizes, settings.width)
        self.latent = latent_embedding(latent_dim, settings.width)
        self.time = None
        self.blocks = ResidualBlocks(settings.denoiser.blocks, settings.width, settings.dropout)
        self.readout = nn.Sequential(nn.LayerNorm(settings.width), nn.Linear(settings.width, sum(sizes)))
        value, begin = torch.arange(vocab_size), torch.tensor([0, *accumulate(sizes)][:-1])
        inside = value < torch.tensor(sizes)[:, None]
        # A value that a column does not have is read from one more output, which is minus infinity.
        self.register_buffer("places", torch.where(inside, begin[:, None] + value, sum(sizes)), persistent=False)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        hidden = self.blocks(self.conditioned(self.tokens(xt), z, t))
        outputs = F.pad(self.readout(hidden), (0, 1), value=-torch.inf)
        rows, columns = where.nonzero().unbind(1)
        return outputs[rows[:, None], self.places[columns]]


class TableRecognizer(SummedRecognizer):
    def __init__(self, sizes: Sequence[int], settings: TableSettings, *, latent_dim: int) -> None:
        reader = partial(ColumnEmbedding, sizes, settings.width)
        super().__init__(reader, latent_dim, settings.width, settings.recognizer.blocks, settings.dropout)
