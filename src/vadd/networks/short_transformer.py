"""Small transformers over short sequences, whose latent wakes up within minutes on a CPU.

They differ from the paper's (:mod:`vadd.networks.transformer`) in what a latent needs that has little time:

- The paper's latent adapts every position alike, and rotary attention knows distances only: while everything is masked
  all positions look the same, and one step can say *which* tokens come, not *where*. Here the positions have learned
  embeddings, and the latent is decoded by a residual perceptron into something else for every position.
- Nothing but the latent's last layer starts at zero. With all gates and the output layer shut as well, the way from
  the recognition model to the loss is closed when the latent must prove useful, before the KL term has closed it for
  good. Opened wide at once, on the other hand, its noise drowns what the neighbours say; so the latent is silent at
  first, and the tokens are loud: their embeddings start with variance one.
- The recognition model reads the whole sequence into one vector and works on that. It costs next to nothing beside the
  denoiser, and learns to tell sequences apart far sooner than attention does.

The perceptrons grow in proportion to the length of the sequence: this is meant for some hundred positions.
"""

import torch
from torch import Tensor, nn

from vadd.networks.mlp import TokenEmbedding
from vadd.networks.residual import ResidualBlock, ResidualRecognizer
from vadd.networks.transformer_blocks import TransformerBody
from vadd.networks.unet_blocks import zeroed

TABLE_VALUES = 256
"""Up to so many values the recognition model has an embedding table for every position."""
SHARED_FEATURES = 32
"""Of each value, where the values are more."""


class ShortTransformerDenoiser(nn.Module):
    """(xt, z) -> logits at the positions asked for, without time input; see :class:`vadd.core.model.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser: the same network without the latent's perceptron.
    """

    uses_time = False

    def __init__(
        self,
        positions: int,
        values: int,
        *,
        width: int = 128,
        blocks: int = 3,
        heads: int = 4,
        convolution: int = 7,
        dropout: float = 0.0,
        latent_width: int = 512,
        latent_blocks: int = 2,
        latent_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.values = values
        self.places = nn.Parameter(0.02 * torch.randn(positions, width))
        self.latent = (
            None
            if latent_dim is None
            else nn.Sequential(
                nn.Linear(latent_dim, latent_width),
                *(ResidualBlock(latent_width, dropout) for _ in range(latent_blocks)),
                nn.LayerNorm(latent_width),
                zeroed(nn.Linear(latent_width, positions * width)),
                nn.Unflatten(1, (positions, width)),
            )
        )
        self.body = TransformerBody(
            positions,
            values,
            width=width,
            blocks=blocks,
            heads=heads,
            condition=None,
            zero=False,
            dropout=dropout,
            convolution=convolution,
            checkpointing=False,
        )
        nn.init.normal_(self.body.embedding.weight)
        self.readout = nn.Linear(width, values)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        added = self.places if self.latent is None else self.places + self.latent(z)
        wanted = where.flatten().nonzero()[:, 0]
        logits: Tensor = self.readout(self.body(xt, None, wanted, added))
        return logits


class ShortTransformerRecognizer(ResidualRecognizer):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt): a residual perceptron over the whole sequence.

    It starts with a narrow posterior, so that the denoiser sees what the latent says before it sees its noise.
    """

    def __init__(
        self,
        positions: int,
        values: int,
        *,
        latent_dim: int,
        latent_width: int = 512,
        recognizer_blocks: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            positions,
            values,
            latent_dim=latent_dim,
            width=latent_width,
            blocks=recognizer_blocks,
            dropout=dropout,
            log_std=-1.0,
            reading=TokenEmbedding if values <= TABLE_VALUES else shared_embedding,
        )


def shared_embedding(positions: int, values: int, width: int) -> nn.Module:
    """Tokens (B, N) -> (B, width): a few features of each value, the same everywhere, then a linear map of them all."""
    return nn.Sequential(
        nn.Embedding(values + 1, SHARED_FEATURES), nn.Flatten(), nn.Linear(positions * SHARED_FEATURES, width)
    )
