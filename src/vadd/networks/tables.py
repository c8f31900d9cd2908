"""Residual perceptrons over the columns of a table, with an embedding and a readout of its own size for every column.

Columns have different numbers of values, and a table of N x V would be empty for the most part: here there are as many
rows and outputs as there are values. Outputs are padded to V with minus infinity.

The bins of a number are values too. With an embedding and an output for each, every bin learns by itself, and the more
there are, the fewer examples has each. ``rank_functions`` lets them learn together:

- What a bin adds to the vector that is read, and the weights of its output, are a linear map of smooth functions of its
  rank, plus a part of its own.
- The logits of a number have one more term: the logarithm of the ratio of N(m, s^2) to N(0, 1) at the bin's normal
  score. The network writes m and s. A number that z tells precisely then needs one output that follows z; without it
  each bin needs an output that is sharp in z.
- Linear maps lead past the blocks and their norms: from the scores of numbers to the mean of r(z | x0), and from z and
  the scores of known numbers to m. What is linear is learnt at once and precisely; the blocks add the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.networks.layers import (
    DenoiserBase,
    Linear,
    ResidualBlocks,
    SummedRecognizer,
    TokenReader,
    latent_embedding,
    linear,
    summed_rows,
    zeroed,
)
from vadd.networks.perceptrons import ResidualRecognizerSettings
from vadd.networks.settings import Examples, NetworkSettings
from vadd.settings import Fraction, Layers, Section

NARROWEST, WIDEST = -6.0, 3.0
"""Of the logarithm of s: normal scores of a thousand bins are further apart."""


class TableDenoiserSettings(Section):
    blocks: Layers = 3


class TableSettings(NetworkSettings):
    """Residual perceptrons over the columns of a table, each with as many values as it has."""

    kind: Literal["table"] = "table"
    width: PositiveInt = 256
    dropout: Fraction = 0.0
    rank_functions: NonNegativeInt = Field(
        0, description="functions of a bin's rank by which the bins of a number share weights; 0: each learns by itself"
    )
    denoiser: TableDenoiserSettings = TableDenoiserSettings()
    recognizer: ResidualRecognizerSettings = ResidualRecognizerSettings()
    rows_at_once: ClassVar[int] = 8192
    time_key: ClassVar[str | None] = None

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return TableDenoiser(Columns.of(examples), examples.vocab_size, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        return TableRecognizer(Columns.of(examples), self, latent_dim=latent_dim)


@dataclass(frozen=True)
class Columns:
    sizes: Sequence[int]
    """How many values each has."""
    ordered: Sequence[int]
    """How many of them, the first ones, are bins of numbers."""

    @classmethod
    def of(cls, examples: Examples) -> "Columns":
        sizes = examples.sizes or [examples.vocab_size] * examples.positions
        return cls(sizes, examples.ordered or [0] * len(sizes))


def normal_scores(bins: int) -> Tensor:
    """(bins,): the normal quantiles of their ranks."""
    return torch.special.ndtri((torch.arange(bins) + 0.5) / bins)


def functions_of_rank(bins: int, functions: int) -> Tensor:
    """(bins, functions): the normal score, and cosines that are the smaller the faster they are; of mean square 1 in
    all.
    """
    rank, k = (torch.arange(bins) + 0.5) / bins, torch.arange(1, functions)
    cosines = torch.cos(math.pi * k * rank[:, None]) * (2 / k).sqrt()
    found = torch.cat([normal_scores(bins)[:, None], cosines], dim=1)
    return found / found.square().mean(0).sum().sqrt()


class SharedRows(nn.Module):
    """Adds to those rows of a table (R, width) that belong to bins a linear map, one a column, of functions of their
    ranks; ``begins`` says where the rows of a column begin. The rows themselves start at 0, all bins alike.
    """

    basis: Tensor
    inside: Tensor
    where: Tensor

    def __init__(self, columns: Columns, begins: Sequence[int], table: Tensor, functions: int, scale: float) -> None:
        super().__init__()
        numbers = [pair for pair in zip(columns.ordered, begins, strict=True) if pair[0]]
        most = max(columns.ordered)
        basis = [F.pad(functions_of_rank(bins, functions), (0, 0, 0, most - bins)) for bins, _ in numbers]
        inside = [number * most + bin for number, (bins, _) in enumerate(numbers) for bin in range(bins)]
        where = [begin + bin for bins, begin in numbers for bin in range(bins)]
        self.register_buffer("basis", torch.stack(basis), persistent=False)
        self.register_buffer("inside", torch.tensor(inside), persistent=False)
        self.register_buffer("where", torch.tensor(where), persistent=False)
        self.maps = nn.Parameter(scale * torch.randn(len(numbers), functions, table.shape[1]))
        table.detach()[self.where] = 0.0

    def forward(self, table: Tensor) -> Tensor:
        added = (self.basis @ self.maps).flatten(0, 1).index_select(0, self.inside)
        return table.index_add(0, self.where, added.to(table.dtype))  # of autocast, in half precision


class ColumnEmbedding(TokenReader):
    """The sum over columns of each column's own table; the mask, V, is its last row."""

    limits: Tensor
    offsets: Tensor

    def __init__(self, columns: Columns, width: int, functions: int = 0) -> None:
        super().__init__()
        rows = [size + 1 for size in columns.sizes]
        begins = [0, *accumulate(rows)][:-1]
        # The sum over columns should not grow with their number: from two on, keep the variance of two.
        scale = math.sqrt(2 / max(len(rows), 2))
        self.table = nn.Parameter(scale * torch.randn(sum(rows), width))
        self.register_buffer("limits", torch.tensor(columns.sizes), persistent=False)
        self.register_buffer("offsets", torch.tensor(begins), persistent=False)
        shares = functions and any(columns.ordered)
        self.shared = SharedRows(columns, begins, self.table, functions, scale) if shares else None

    def read(self, tokens: Tensor) -> Tensor:
        table = self.table if self.shared is None else self.shared(self.table)
        return summed_rows(torch.minimum(tokens, self.limits) + self.offsets, table)


class Scores(nn.Module):
    """Tokens (B, N) -> the normal scores of the bins of numbers; 0 for all else."""

    table: Tensor

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        # The mask, V, is read from the last place.
        most = max(columns.sizes) + 1
        scores = [F.pad(normal_scores(bins), (0, most - bins)) for bins in columns.ordered]
        self.register_buffer("table", torch.stack(scores), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table.gather(1, tokens.T.clamp(max=self.table.shape[1] - 1)).T


class GaussianLogits(nn.Module):
    """A vector (B, width) -> what N(m, s^2) adds to the logits (M, V) of columns of rows; of categories nothing."""

    scores: Tensor

    def __init__(self, columns: Columns, vocab_size: int, width: int, latent_dim: int | None) -> None:
        super().__init__()
        self.read = Scores(columns)
        self.register_buffer("scores", self.read.table[:, :vocab_size], persistent=False)
        self.written = zeroed(Linear(width, 2 * len(columns.sizes)))
        self.known = zeroed(Linear(len(columns.sizes), len(columns.sizes), bias=False))
        self.direct = None if latent_dim is None else zeroed(Linear(latent_dim, len(columns.sizes), bias=False))

    def forward(self, hidden: Tensor, xt: Tensor, z: Tensor | None, rows: Tensor, columns: Tensor) -> Tensor:
        means, log_stds = self.written(hidden).chunk(2, dim=1)
        means = means + self.known(self.read(xt))
        if self.direct is not None:
            means = means + self.direct(z)
        mean, log_std = means[rows, columns, None], log_stds[rows, columns, None]
        precision, score = (-2 * log_std.clamp(NARROWEST, WIDEST)).exp(), self.scores[columns]
        # Without what is the same for all bins: softmax takes it away.
        return score * (precision * mean + 0.5 * (1 - precision) * score)


class TableDenoiser(DenoiserBase):
    """It does not see t."""

    places: Tensor

    def __init__(
        self, columns: Columns, vocab_size: int, settings: TableSettings, *, latent_dim: int | None = None
    ) -> None:
        sizes, width, functions = columns.sizes, settings.width, settings.rank_functions
        super().__init__(len(sizes), vocab_size, uses_time=False)
        self.tokens = ColumnEmbedding(columns, width, functions)
        self.latent = latent_embedding(latent_dim, width)
        self.time = None
        self.blocks = ResidualBlocks(settings.denoiser.blocks, width, settings.dropout)
        last = Linear(width, sum(sizes))
        self.readout = nn.Sequential(nn.LayerNorm(width), last)
        begins = [0, *accumulate(sizes)][:-1]
        value, begin = torch.arange(vocab_size), torch.tensor(begins)
        inside = value < torch.tensor(sizes)[:, None]
        # A value that a column does not have is read from one more output, which is minus infinity.
        self.register_buffer("places", torch.where(inside, begin[:, None] + value, sum(sizes)), persistent=False)
        self.shared, self.gaussian = None, None
        if functions and any(columns.ordered):
            # The standard deviation of the weights of a linear layer, roughly.
            self.shared = SharedRows(columns, begins, last.weight, functions, 0.5 / math.sqrt(width))
            self.gaussian = GaussianLogits(columns, vocab_size, width, latent_dim)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        norm, last = self.readout
        assert isinstance(last, nn.Linear)
        hidden = norm(self.blocks(self.conditioned(self.tokens(xt), z, t)))
        weight = last.weight if self.shared is None else self.shared(last.weight)
        outputs = F.pad(linear(hidden, weight, last.bias), (0, 1), value=-torch.inf)
        asked = Places.of(where)
        logits = outputs[asked.rows[:, None], self.places[asked.columns]]
        return logits if self.gaussian is None else logits + self.gaussian(hidden, xt, z, asked.rows, asked.columns)

    def latent_input_weights(self) -> list[nn.Parameter]:
        direct = None if self.gaussian is None else self.gaussian.direct
        return super().latent_input_weights() + ([] if direct is None else list(direct.parameters()))


class TableRecognizer(SummedRecognizer):
    def __init__(self, columns: Columns, settings: TableSettings, *, latent_dim: int) -> None:
        reader = partial(ColumnEmbedding, columns, settings.width, settings.rank_functions)
        super().__init__(reader, latent_dim, settings.width, settings.recognizer.blocks, settings.dropout)
        self.direct = None
        if settings.rank_functions and any(columns.ordered):
            self.direct = nn.Sequential(Scores(columns), Linear(len(columns.sizes), latent_dim, bias=False))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = super().forward(x0, xt, t)
        return mean if self.direct is None else mean + self.direct(x0), log_std
