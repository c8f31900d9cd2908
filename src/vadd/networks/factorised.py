"""Reading and writing many values with few weights.

A table for every position and a head with N x V outputs hold 2 N V width numbers: fifty thousand values at four
positions are two hundred million. Here a value is a few numbers, the same at every position, and what a position makes
of them is a linear map of its own: (V + N width) times these few.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FactorisedEmbedding(nn.Module):
    """Tokens (B, N) in 0..V -> (B, width): each value as ``features`` numbers, all of an example through one map."""

    def __init__(self, positions: int, vocab_size: int, width: int, features: int, smoothness: float = 0.0) -> None:
        super().__init__()
        rows = torch.randn(vocab_size + 1, features)
        if smoothness > 0:  # neighbouring values begin alike, as in vadd.networks.mlp.TokenEmbedding
            value = torch.arange(vocab_size)[:, None] / vocab_size
            frequency, phase = smoothness * torch.randn(features), torch.rand(features)
            rows[:vocab_size] = math.sqrt(2) * torch.sin(2 * math.pi * (frequency * value + phase))
        self.table = nn.Parameter(rows)
        # The variance of what comes out does not depend on the number of positions: 2, as that of the summed tables.
        self.mix = nn.Parameter(torch.randn(width, positions * features) * math.sqrt(2 / (positions * features)))

    def forward(self, tokens: Tensor) -> Tensor:
        if len(tokens) > 1 and tokens.stride(0) == 0:  # one state for all examples, as a shared latent shows it
            return self.forward(tokens[:1]).expand(len(tokens), -1)
        return F.linear(F.embedding(tokens, self.table).flatten(1), self.mix)


class FactorisedReadout(nn.Module):
    """A vector (B, width) -> logits (M, V) at the M of the B x N positions that are ``wanted``, by their numbers."""

    def __init__(self, positions: int, vocab_size: int, width: int, features: int) -> None:
        super().__init__()
        self.positions, self.features = positions, features
        self.unmix = nn.Linear(width, positions * features)
        self.table = nn.Parameter(torch.randn(vocab_size, features) / math.sqrt(features))
        # How often a value occurs at a position needs no features.
        self.bias = nn.Parameter(torch.zeros(positions, vocab_size))

    def forward(self, hidden: Tensor, wanted: Tensor) -> Tensor:
        seen = self.unmix(hidden).view(-1, self.features).index_select(0, wanted)
        return F.linear(seen, self.table) + F.embedding(wanted % self.positions, self.bias)
