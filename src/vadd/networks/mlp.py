"""Multilayer perceptrons over short sequences of integers: the networks of the paper's two-dimensional experiments.

One embedding table per position, summed (a single shared table would neither tell the positions apart nor mix them),
a stack of hidden layers, and a head with N x V outputs. Sizes follow the paper's appendix at width 512, depth 4.
"""

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.networks.factorised import FactorisedEmbedding, FactorisedReadout
from vadd.networks.posterior import mean_and_log_std

DENSE_ROWS = 17
"""Tables of so few rows are summed as a matrix product of one-hot tokens, which a CPU does faster than look-ups."""


class TokenEmbedding(nn.Module):
    """Tokens (B, N) in 0..V -> (B, width), the sum over positions of each position's own table with V + 1 rows.

    ``smoothness`` > 0 starts the rows of the V values on random sinusoids of the value with about that many periods
    over the range, so that neighbouring values begin alike: a good start where values are ordered (coordinates, grey
    levels), of no use where they are not.
    """

    offsets: Tensor

    def __init__(self, positions: int, vocab_size: int, width: int, smoothness: float = 0.0) -> None:
        super().__init__()
        self.rows = vocab_size + 1
        self.table = nn.Parameter(torch.randn(positions * (vocab_size + 1), width))
        self.register_buffer("offsets", torch.arange(positions) * (vocab_size + 1), persistent=False)
        if smoothness > 0:
            value = torch.arange(vocab_size)[:, None] / vocab_size
            rows = self.table.detach().view(positions, vocab_size + 1, width)
            for position in range(positions):
                frequency, phase = smoothness * torch.randn(width), torch.rand(width)
                rows[position, :vocab_size] = math.sqrt(2) * torch.sin(2 * math.pi * (frequency * value + phase))
        # The sum over positions should not grow with their number: from N = 2 on, keep the variance of two.
        self.table.detach().mul_(math.sqrt(2 / max(positions, 2)))

    def forward(self, tokens: Tensor) -> Tensor:
        if len(tokens) > 1 and tokens.stride(0) == 0:  # one state for all examples, as a shared latent shows it
            return self.forward(tokens[:1]).expand(len(tokens), -1)
        if self.rows > DENSE_ROWS:
            return F.embedding_bag(tokens + self.offsets, self.table, mode="sum")
        # Every position has one value, so that of 0 can be taken for granted, and a value that occurs nowhere needs no
        # column: for clean binary images a third of the product is left. A GPU would have to be asked, and waited for.
        last = int(tokens.max()) if tokens.is_cpu and tokens.numel() else self.rows - 1
        # unbind, not slices: a slice's gradient is a whole table of zeros with the slice in it.
        base, *above = self.table.view(-1, self.rows, self.table.shape[1]).unbind(1)
        present = [(tokens == value).to(base.dtype) for value in range(1, last + 1)]
        if not present:
            return base.sum(0).expand(len(tokens), -1)
        differences = torch.cat([row - base for row in above[:last]])
        return torch.addmm(base.sum(0), torch.cat(present, dim=1), differences)


class TimeEmbedding(nn.Module):
    """Times (B,) -> (B, width): sinusoids of t, then one hidden layer."""

    frequencies: Tensor

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        # Periods from 2 pi down to 2 pi / 1000, evenly spaced in the logarithm: t in [0, 1] is resolved to about a
        # thousandth.
        frequencies = torch.logspace(0, 3, features // 2)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.layers = nn.Sequential(nn.Linear(2 * len(frequencies), width), nn.ELU(), nn.Linear(width, width))

    def forward(self, t: Tensor) -> Tensor:
        angles = t[:, None] * self.frequencies
        embedded: Tensor = self.layers(torch.cat([angles.sin(), angles.cos()], dim=-1))
        return embedded


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
        embedded: Tensor = self.linear(torch.cat([z, angles.sin(), angles.cos()], dim=-1))
        return embedded


def token_embedding(
    positions: int, vocab_size: int, width: int, value_embedding: int | None, smoothness: float = 0.0
) -> nn.Module:
    """Tokens (B, N) -> (B, width), with a table for each position or one of few numbers for all."""
    if value_embedding is None:
        return TokenEmbedding(positions, vocab_size, width, smoothness)
    return FactorisedEmbedding(positions, vocab_size, width, value_embedding, smoothness)


def hidden_layers(width: int, depth: int) -> list[nn.Module]:
    return [module for _ in range(depth) for module in (nn.Linear(width, width), nn.ELU())]


class MlpDenoiser(nn.Module):
    """(xt, z, t) -> logits at the positions asked for; see :class:`vadd.core.model.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser, ``time_features=0`` one that does not see t.
    """

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        width: int = 512,
        depth: int = 4,
        latent_dim: int | None = None,
        latent_frequencies: Sequence[float] = (),
        time_features: int = 0,
        smoothness: float = 0.0,
        value_embedding: int | None = None,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.vocab_size = vocab_size
        self.uses_time = time_features > 0
        self.tokens = token_embedding(positions, vocab_size, width, value_embedding, smoothness)
        self.latent = None if latent_dim is None else LatentEmbedding(latent_dim, width, latent_frequencies)
        self.time = TimeEmbedding(time_features, width) if time_features else None
        hidden = hidden_layers(width, depth)  # before the last layer: the order in which a seed has always drawn them
        head: list[nn.Module] = [nn.Linear(width, positions * vocab_size)] if value_embedding is None else []
        self.readout = nn.Sequential(*hidden, *head)
        self.factorised = (
            None if value_embedding is None else FactorisedReadout(positions, vocab_size, width, value_embedding)
        )

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        hidden = self.tokens(xt)
        if self.latent is not None:
            hidden = hidden + self.latent(z)
        if self.time is not None:
            hidden = hidden + self.time(t)
        out: Tensor = self.readout(hidden)
        wanted = where.flatten().nonzero()[:, 0]
        if self.factorised is not None:
            few: Tensor = self.factorised(out, wanted)
            return few
        return out.view(-1, self.vocab_size).index_select(0, wanted)

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [] if self.latent is None else list(self.latent.linear.parameters())

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return weights


class SiameseMlpRecognizer(nn.Module):
    """(x0, xt, t) -> mean and log standard deviation of r(z | x0, xt), each (B, d).

    The same network reads x0 and xt; the two outputs are averaged and mapped to the posterior's parameters.
    """

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        latent_dim: int,
        width: int = 512,
        depth: int = 4,
        time_features: int = 0,
        smoothness: float = 0.0,
        value_embedding: int | None = None,
    ) -> None:
        super().__init__()
        self.tokens = token_embedding(positions, vocab_size, width, value_embedding, smoothness)
        self.time = TimeEmbedding(time_features, width) if time_features else None
        self.twin = nn.Sequential(*hidden_layers(width, depth), nn.Linear(width, width))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.tokens(torch.cat([x0, xt]))
        if self.time is not None:
            hidden = hidden + self.time(t).repeat(2, 1)
        out_0, out_t = self.twin(hidden).chunk(2)
        return mean_and_log_std(self.readout((out_0 + out_t) / 2))
