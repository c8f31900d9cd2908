"""Residual perceptrons over the columns of a table: every column has an embedding and a readout of its own size.

Columns have different numbers of values, and a table of N x V would be empty for the most part: here there are as many
rows and outputs as there are values. Outputs are padded to V with minus infinity.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.networks.residual import ResidualBlock, SummedRecognizer, latent_entrance


class ColumnEmbedding(nn.Module):
    """Tokens (B, N) -> (B, width), the sum over columns of each column's own table; V, the mask, is its last row."""

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

    def forward(self, tokens: Tensor) -> Tensor:
        if len(tokens) > 1 and tokens.stride(0) == 0:  # one state for all examples, as a shared latent shows it
            return self.forward(tokens[:1]).expand(len(tokens), -1)
        return F.embedding_bag(torch.minimum(tokens, self.limits) + self.offsets, self.table, mode="sum")


def sizes_of(positions: int, vocab_size: int, sizes: Sequence[int] | None) -> list[int]:
    """The number of values of each column; the same for all where nothing is said."""
    return [vocab_size] * positions if sizes is None else list(sizes)


class TableDenoiser(nn.Module):
    """(xt, z) -> logits at the positions asked for, without time input; see :class:`vadd.core.model.Denoiser`."""

    uses_time = False
    places: Tensor

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        sizes: Sequence[int] | None = None,
        width: int = 256,
        blocks: int = 3,
        latent_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.vocab_size = vocab_size
        known = sizes_of(positions, vocab_size, sizes)
        self.tokens = ColumnEmbedding(known, width)
        self.latent = None if latent_dim is None else latent_entrance(latent_dim, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, dropout) for _ in range(blocks))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, sum(known)))
        value, begin = torch.arange(vocab_size), torch.tensor([0, *accumulate(known)][:-1])
        inside = value < torch.tensor(known)[:, None]
        # Where a column has no such value it is sent to one more output, which is minus infinity.
        self.register_buffer("places", torch.where(inside, begin[:, None] + value, sum(known)), persistent=False)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        hidden = self.tokens(xt)
        if self.latent is not None:
            hidden = hidden + self.latent(z)
        for block in self.blocks:
            hidden = block(hidden)
        outputs = F.pad(self.readout(hidden), (0, 1), value=-torch.inf)
        rows, columns = where.nonzero().unbind(1)
        return outputs[rows[:, None], self.places[columns]]

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [] if self.latent is None else list(self.latent[-1].parameters())

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return weights


class TableRecognizer(SummedRecognizer):
    """The recognition model of rows."""

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        latent_dim: int,
        sizes: Sequence[int] | None = None,
        width: int = 256,
        blocks: int = 2,
        dropout: float = 0.0,
    ) -> None:
        known = sizes_of(positions, vocab_size, sizes)
        super().__init__(
            lambda: ColumnEmbedding(known, width), latent_dim=latent_dim, width=width, blocks=blocks, dropout=dropout
        )
