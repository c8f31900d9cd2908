"""Residual perceptrons over whole images: what a CPU can train in minutes.

A convolutional network pays for every pixel at every layer: the paper's UNet costs about 4 GFLOP for one 32 x 32 image.
Here the image is read once into a vector, a few residual blocks work on that vector, and one layer writes all logits:
some 15 MFLOP at width 768. The latent enters every block as a scale and a shift.
"""

import torch
from torch import Tensor, nn

from vadd.networks.mlp import TokenEmbedding


class ResidualBlock(nn.Module):
    """h + W2 act(W1 norm(h)), the normalised h scaled and shifted by the condition if there is one."""

    def __init__(self, width: int, condition: int | None, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.modulate = None if condition is None else nn.Linear(condition, 2 * width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Dropout(dropout), nn.Linear(width, width))

    def forward(self, hidden: Tensor, condition: Tensor | None) -> Tensor:
        normalised = self.norm(hidden)
        if self.modulate is not None:
            scale, shift = self.modulate(condition).chunk(2, dim=-1)
            normalised = normalised * (1 + scale) + shift
        changed: Tensor = hidden + self.layers(normalised)
        return changed


class ResidualDenoiser(nn.Module):
    """(xt, z) -> logits at the positions asked for, without time input; see :class:`vadd.core.model.Denoiser`."""

    uses_time = False

    def __init__(
        self,
        positions: int,
        values: int,
        *,
        width: int = 768,
        blocks: int = 3,
        latent_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.values = values
        self.tokens = TokenEmbedding(positions, values, width)
        condition = None if latent_dim is None else width // 2
        self.latent = (
            None
            if latent_dim is None or condition is None
            else nn.Sequential(nn.Linear(latent_dim, condition), nn.SiLU(), nn.Linear(condition, condition), nn.SiLU())
        )
        self.blocks = nn.ModuleList(ResidualBlock(width, condition, dropout) for _ in range(blocks))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, positions * values))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        condition = None if self.latent is None else self.latent(z)
        hidden = self.tokens(xt)
        for block in self.blocks:
            hidden = block(hidden, condition)
        logits: Tensor = self.readout(hidden).view(-1, self.values)
        return logits.index_select(0, where.flatten().nonzero()[:, 0])


class ResidualRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d); one pass over both."""

    def __init__(
        self, positions: int, values: int, *, latent_dim: int, width: int = 768, blocks: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.clean = TokenEmbedding(positions, values, width)
        self.masked = TokenEmbedding(positions, values, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, None, dropout) for _ in range(blocks))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        hidden: Tensor = self.clean(x0) + self.masked(xt)
        for block in self.blocks:
            hidden = block(hidden, None)
        mean, log_std = self.readout(hidden).chunk(2, dim=-1)
        return mean, torch.clamp(log_std, -8.0, 3.0)
