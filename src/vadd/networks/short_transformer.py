"""Small transformers over short sequences, whose latent wakes up within minutes on a CPU.

They differ from the paper's (:mod:`vadd.networks.transformer`) in what a latent needs that has little time. The paper's
latent adapts every position alike, and must be told apart from noise through all blocks before it helps anybody. Here z
is divided among the positions: d / N numbers for each, written by the recognition model at that position and read by
the denoiser there.

- The way from a hidden token to its own prediction is short, so the latent carries something after a few steps.
- That alone would win nothing: telling a token costs as many nats as it saves. But z is noisy, the denoiser reads the
  z of all positions, and text is redundant. With z_i = (code of x_i) + noise the bound wins H(x_i | z_i) - H(x_i |
  z_1..z_N) at every position, which is positive as soon as neighbours depend on each other.
- What it can say grows with the sequence, and what was learnt at one position is known at all.

Where a token is known z is ignored, and the posterior is the prior: it costs nothing there. Where little is masked the
latent has little to win, and its noise costs more than that; with ``heard_from`` it is silent for all examples of which
a smaller share is masked, and the model is MDLM's there. Nothing starts at zero, and the embeddings of tokens start
with variance one, as loud as the latent.
"""

import torch
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.transformer_blocks import TransformerBody


class ShortTransformerDenoiser(nn.Module):
    """(xt, z) -> logits at the positions asked for, without time input; see :class:`vadd.core.model.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser: the same network without the linear map that reads the latent.
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
        heard_from: float = 0.0,
        latent_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.values = values
        self.heard_from = heard_from
        self.places = nn.Parameter(0.02 * torch.randn(positions, width))
        self.latent: nn.Linear | None = None
        if latent_dim is not None:
            share = share_of_each(latent_dim, positions)
            self.latent = nn.Linear(share, width, bias=False)
            nn.init.normal_(self.latent.weight, std=share**-0.5)
        self.body = loud_body(positions, values, width, blocks, heads, convolution, dropout)
        self.readout = nn.Linear(width, values)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        added: Tensor = self.places
        if self.latent is not None:
            assert z is not None, "a denoiser built for a latent is given one"
            heard = ((xt == self.values) & self.listens(xt)[:, None])[..., None]
            added = added + heard * self.latent(z.view(-1, self.positions, self.latent.in_features))
        wanted = where.flatten().nonzero()[:, 0]
        logits: Tensor = self.readout(self.body(xt, None, wanted, added))
        return logits

    def listens(self, xt: Tensor) -> Tensor:
        """For which examples (B,) the logits depend on z."""
        return enough_masked(xt, self.values, self.heard_from)


class ShortTransformerRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d), position after position.

    Positions whose value is known from xt have the prior's, as have all where the latent is not heard; at positions
    that are hidden in x0 too it may guess from the others. It starts with a narrow posterior, so that the denoiser sees
    what the latent says before it sees its noise.
    """

    def __init__(
        self,
        positions: int,
        values: int,
        *,
        latent_dim: int,
        recognizer_width: int = 64,
        recognizer_blocks: int = 1,
        heads: int = 4,
        convolution: int = 7,
        dropout: float = 0.0,
        heard_from: float = 0.0,
    ) -> None:
        super().__init__()
        self.heard_from = heard_from
        share = share_of_each(latent_dim, positions)
        self.values = values
        self.places = nn.Parameter(0.02 * torch.randn(positions, recognizer_width))
        self.masked = nn.Parameter(torch.randn(recognizer_width))
        self.body = loud_body(positions, values, recognizer_width, recognizer_blocks, heads, convolution, dropout)
        self.readout = nn.Linear(recognizer_width, 2 * share)
        nn.init.constant_(self.readout.bias[share:], -1.0)
        self.codes = nn.Embedding(values + 1, share)

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        if self.heard_from == 0 or xt.is_meta:  # meta tokens, for counting, do not tell what is masked
            return self.where_heard(x0, xt)
        rows = enough_masked(xt, self.values, self.heard_from).nonzero()[:, 0]
        mean, log_std = self.where_heard(x0[rows], xt[rows])
        prior = mean.new_zeros(len(x0), mean.shape[1])
        return prior.index_copy(0, rows, mean), prior.index_copy(0, rows, log_std)

    def where_heard(self, x0: Tensor, xt: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == self.values)[..., None]
        hidden = self.body(x0, None, None, self.places + masked * self.masked)
        mean, log_std = self.readout(hidden).chunk(2, dim=-1)
        return (masked * (mean + self.codes(x0))).flatten(1), (masked * log_std.clamp(-5.0, 1.0)).flatten(1)


def enough_masked(xt: Tensor, mask_value: int, share: float) -> Tensor:
    """Of which examples of xt (B, N) at least this share of the positions is masked: (B,) bool."""
    return (xt == mask_value).sum(dim=1) >= share * xt.shape[1]


def share_of_each(latent_dim: int, positions: int) -> int:
    """How many of the latent's dimensions belong to one position."""
    if latent_dim % positions:
        raise UserError(
            f"the short transformer divides the latent among its {positions} positions, and {latent_dim} dimensions "
            "cannot be: choose latent.per=position"
        )
    return latent_dim // positions


def loud_body(
    positions: int, values: int, width: int, blocks: int, heads: int, convolution: int, dropout: float
) -> TransformerBody:
    """Without a condition, and with token embeddings of variance one."""
    body = TransformerBody(
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
    nn.init.normal_(body.embedding.weight)
    return body
