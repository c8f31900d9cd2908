"""Residual perceptrons over whole images: what a CPU can train in minutes.

A convolutional network pays for every pixel at every layer: the paper's UNet costs about 4 GFLOP for one 32 x 32 image.
Here the image is read once into a vector, a few residual blocks work on that vector, and one layer writes all logits:
some 15 MFLOP at width 768. The latent is one more thing that is read into the vector, and costs next to nothing.
"""

from collections.abc import Callable, Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from vadd.networks.factorised import FactorisedReadout
from vadd.networks.mlp import TimeEmbedding, token_embedding
from vadd.networks.posterior import mean_and_log_std


class ResidualBlock(nn.Sequential):
    """h + W2 act(W1 norm(h))."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        changed: Tensor = hidden + super().forward(hidden)  # type: ignore[no-untyped-call]
        return changed


def latent_entrance(dim: int, width: int) -> nn.Sequential:
    """Latents (B, d) -> (B, width): what is added to the vector that the blocks work on."""
    return nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, width))


class ResidualDenoiser(nn.Module):
    """(xt, z, t) -> logits at the positions asked for; see :class:`vadd.core.model.Denoiser`. By default it does not
    see t.
    """

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        width: int = 768,
        blocks: int = 3,
        latent_dim: int | None = None,
        dropout: float = 0.0,
        time_features: int = 0,
        value_embedding: int | None = None,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.vocab_size = vocab_size
        self.uses_time = time_features > 0
        self.differences_only = True
        """Whether only the differences of logits count, as they do for probabilities and not for scores."""
        self.tokens = token_embedding(positions, vocab_size, width, value_embedding)
        self.latent = None if latent_dim is None else latent_entrance(latent_dim, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, dropout) for _ in range(blocks))
        writing = (
            nn.Linear(width, positions * vocab_size)
            if value_embedding is None
            else FactorisedReadout(positions, vocab_size, width, value_embedding)
        )
        self.readout = nn.Sequential(nn.LayerNorm(width), writing)
        self.time = TimeEmbedding(time_features, width) if time_features else None

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        hidden = self.tokens(xt)
        if self.latent is not None:
            hidden = hidden + self.latent(z)
        if self.time is not None:
            hidden = hidden + self.time(t)
        for block in self.blocks:
            hidden = block(hidden)
        norm, linear = self.readout
        wanted = where.flatten().nonzero()[:, 0]
        if not isinstance(linear, nn.Linear):
            few: Tensor = linear(norm(hidden), wanted)
            return few
        if self.vocab_size == 2 and self.differences_only:
            # Of two logits only the difference counts: half the product gives it, and 0 stands for the first.
            first, second = linear.weight.view(self.positions, 2, -1).unbind(1)
            bias = linear.bias.view(self.positions, 2).diff(dim=1)[:, 0]
            odds = F.linear(norm(hidden), second - first, bias).flatten().index_select(0, wanted)
            return F.pad(odds[:, None], (1, 0))
        logits: Tensor = linear(norm(hidden)).view(-1, self.vocab_size)
        return logits.index_select(0, wanted)

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [] if self.latent is None else list(self.latent[-1].parameters())

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return weights


class SummedRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d): both are read into one vector, each by
    an embedding of its own that ``read`` makes, and residual blocks work on that.
    """

    def __init__(
        self, read: Callable[[], nn.Module], *, latent_dim: int, width: int, blocks: int, dropout: float
    ) -> None:
        super().__init__()
        self.clean = read()
        self.masked = read()
        self.blocks = nn.ModuleList(ResidualBlock(width, dropout) for _ in range(blocks))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.clean(x0) + self.masked(xt)
        for block in self.blocks:
            hidden = block(hidden)
        return mean_and_log_std(self.readout(hidden))


class ResidualRecognizer(SummedRecognizer):
    """The recognition model of whole images."""

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        *,
        latent_dim: int,
        width: int = 768,
        blocks: int = 2,
        dropout: float = 0.0,
        value_embedding: int | None = None,
    ) -> None:
        def read() -> nn.Module:
            return token_embedding(positions, vocab_size, width, value_embedding)

        super().__init__(read, latent_dim=latent_dim, width=width, blocks=blocks, dropout=dropout)
