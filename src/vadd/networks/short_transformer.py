"""Small transformers over short sequences, whose latent wakes up within minutes on a CPU.

They differ from the paper's (:mod:`vadd.networks.transformer`) in what a latent needs that has little time. The paper's
latent adapts every position alike, and the network must learn to separate it from noise through all blocks before it
helps. Here z is divided among the positions: d / N numbers for each, written by the recognition model at that position
and read by the denoiser there.

- The way from a hidden token to its own prediction is short, so the latent carries something after a few steps.
- That alone would win nothing: to encode a token in z costs as many nats as it saves. But z is noisy, the denoiser
  reads the z of all positions, and text is redundant. With z_i = (code of x_i) + noise the bound wins H(x_i | z_i) -
  H(x_i | z_1..z_N) at every position, which is positive as soon as neighbours depend on each other.
- What it can say grows with the sequence, and what was learnt at one position is known at all.

Where a token is known z is ignored, and the posterior is the prior: it costs nothing there. Nothing starts at zero, and
the embeddings of tokens start with variance one, as large as the latent's.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.mlp import TimeEmbedding
from vadd.networks.posterior import mean_and_log_std
from vadd.networks.transformer_blocks import TransformerBody, TransformerSize


class ShortTransformerDenoiser(nn.Module):
    """(xt, z, t) -> logits at the positions asked for; see :class:`vadd.core.model.Denoiser`. By default it does not
    see t.

    ``latent_dim=None`` is the MDLM denoiser: the same network without the linear map that reads the latent.
    ``latent_everywhere`` reads z_i also where x_i is known: of use where z_i may say something of its neighbours. The
    last ``labels`` numbers beside z belong to no position: they are read everywhere.
    """

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        size: TransformerSize | None = None,
        *,
        latent_dim: int | None = None,
        latent_everywhere: bool = False,
        time_features: int = 0,
        labels: int = 0,
    ) -> None:
        super().__init__()
        self.uses_time = time_features > 0
        size = size or DENOISER_SIZE
        self.positions = positions
        self.vocab_size = vocab_size
        self.latent_everywhere = latent_everywhere
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width))
        self.latent: nn.Linear | None = None
        if latent_dim is not None and latent_dim > labels:
            share = share_of_each(latent_dim - labels, positions)
            self.latent = nn.Linear(share, size.width, bias=False)
            nn.init.normal_(self.latent.weight, std=share**-0.5)
        self.body = unit_variance_body(positions, vocab_size, size)
        self.readout = nn.Linear(size.width, vocab_size)
        self.time = TimeEmbedding(time_features, size.width) if time_features else None
        self.label = nn.Linear(labels, size.width, bias=False) if labels else None
        if self.label is not None:
            nn.init.normal_(self.label.weight)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        added: Tensor = self.places
        if self.label is not None:
            assert z is not None, "a denoiser built for labels is given one, or zeros"
            own = z.shape[1] - self.label.in_features
            z, added = z[:, :own], added + self.label(z[:, own:])[:, None]
        if self.latent is not None:
            assert z is not None, "a denoiser built for a latent is given one"
            read = self.latent(z.view(-1, self.positions, self.latent.in_features))
            added = added + (read if self.latent_everywhere else (xt == self.vocab_size)[..., None] * read)
        if self.time is not None:
            added = added + self.time(t)[:, None]
        wanted = where.flatten().nonzero()[:, 0]
        logits: Tensor = self.readout(self.body(xt, None, wanted, added))
        return logits

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [parameter for map in (self.latent, self.label) if map is not None for parameter in map.parameters()]

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return weights


class ShortTransformerRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d), position after position.

    Positions whose value is known from xt have the prior's; at positions that are hidden in x0 too it may guess from
    the others. It starts with a narrow posterior, so that the denoiser sees what the latent says before it sees its
    noise.
    """

    def __init__(
        self, positions: int, vocab_size: int, size: TransformerSize | None = None, *, latent_dim: int
    ) -> None:
        super().__init__()
        size = size or RECOGNIZER_SIZE
        share = share_of_each(latent_dim, positions)
        self.vocab_size = vocab_size
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width))
        self.masked = nn.Parameter(torch.randn(size.width))
        self.body = unit_variance_body(positions, vocab_size, size)
        self.readout = nn.Linear(size.width, 2 * share)
        nn.init.constant_(self.readout.bias[share:], -1.0)
        self.codes = nn.Embedding(vocab_size + 1, share)

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == self.vocab_size)[..., None]
        hidden = self.body(x0, None, None, self.places + masked * self.masked)
        mean, log_std = mean_and_log_std(self.readout(hidden), -5.0, 1.0)
        return (masked * (mean + self.codes(x0))).flatten(1), (masked * log_std).flatten(1)


DENOISER_SIZE = TransformerSize(width=128, blocks=3, heads=4, convolution=7, dropout=0.0)
RECOGNIZER_SIZE = TransformerSize(width=64, blocks=1, heads=4, convolution=7, dropout=0.0)


def share_of_each(latent_dim: int, positions: int) -> int:
    """How many of the latent's dimensions belong to one position."""
    if latent_dim % positions:
        raise UserError(
            f"the short transformer divides the latent among its {positions} positions, and {latent_dim} dimensions "
            "cannot be: choose latent.per=position"
        )
    return latent_dim // positions


def unit_variance_body(positions: int, vocab_size: int, size: TransformerSize) -> TransformerBody:
    """Without a condition, and with token embeddings of variance one."""
    body = TransformerBody(positions, vocab_size, size, condition=None, zero=False)
    nn.init.normal_(body.embedding.weight)
    return body
