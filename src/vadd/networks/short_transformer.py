"""Small transformers over short sequences, whose latent is learnt within minutes on a CPU.

In the paper's (:mod:`vadd.networks.transformer`) the latent adapts every position alike, and the network must learn to
separate it from noise through all blocks before it helps. Here z is divided among the positions: d / N numbers for
each, written by the recognition model at that position and read by the denoiser there.

- The way from a hidden token to its own prediction is short, so the latent carries something after a few steps.
- That alone would win nothing: to encode a token in z costs as many nats as it saves. But z is noisy, the denoiser
  reads the z of all positions, and text is redundant. With z_i = (code of x_i) + noise the bound wins H(x_i | z_i) -
  H(x_i | z_1..z_N) at every position, which is positive as soon as neighbours depend on each other.
- What it can say grows with the sequence, and what was learnt at one position is known at all.

Where a token is known z is ignored, and the posterior is the prior: it costs nothing there. Nothing starts at zero, and
the embeddings of tokens start with variance one, as large as the latent's.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.errors import UserError
from vadd.networks.layers import DenoiserBase, Linear, mean_and_log_std, time_embedding
from vadd.networks.settings import TIME_FEATURES, Examples, NetworkSettings
from vadd.networks.transformer import CausalTransformer
from vadd.networks.transformer_blocks import (
    ACTIVATION,
    CONVOLUTION,
    LEARNT_ROUNDS,
    PAIRS,
    PAIRS_ALONE,
    ROUNDS,
    Activation,
    TransformerBody,
    TransformerSize,
)
from vadd.settings import Fraction, Layers, Section


class ShortTransformerDenoiserSettings(Section):
    width: PositiveInt = 128
    blocks: Layers = 3
    rounds: PositiveInt = Field(1, description=ROUNDS)
    learnt_rounds: int = Field(0, ge=0, description=LEARNT_ROUNDS)
    latent_everywhere: bool = Field(
        False, description="read the numbers of z that belong to a position also where its value is known"
    )
    time_features: int = Field(0, ge=0, multiple_of=2, description=TIME_FEATURES)


class ShortTransformerRecognizerSettings(Section):
    width: PositiveInt = 64
    blocks: Layers = 1


class ShortTransformerSettings(NetworkSettings):
    """Small transformers for CPUs, whose latent is divided among the positions: latent.per is position."""

    kind: Literal["short-transformer"] = "short-transformer"
    heads: PositiveInt = 4
    convolution: int = Field(7, ge=0, description=CONVOLUTION)
    pairs: bool = Field(False, description=PAIRS)
    pairs_alone: bool = Field(False, description=PAIRS_ALONE)
    activation: Activation = Field("gelu", description=ACTIVATION)
    dropout: Fraction = 0.0
    denoiser: ShortTransformerDenoiserSettings = ShortTransformerDenoiserSettings()
    recognizer: ShortTransformerRecognizerSettings = ShortTransformerRecognizerSettings()
    rows_at_once: ClassVar[int] = 64

    @property
    def divides_latent(self) -> bool:
        return True

    def size_of(self, part: str) -> TransformerSize:
        return TransformerSize.of(self.values_of(part))

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        labels = len(examples.labels or ())
        return ShortTransformerDenoiser(
            examples.positions, examples.vocab_size, self, latent_dim=latent_dim, labels=labels
        )

    def build_causal(self, examples: Examples) -> nn.Module:
        return CausalTransformer(examples.positions, examples.vocab_size, self.size_of("denoiser"), short=True)


class ShortTransformerDenoiser(DenoiserBase):
    """``latent_everywhere`` reads z_i also where x_i is known: of use where z_i may say something of its neighbours.
    The last ``labels`` numbers after z belong to no position: they are read everywhere.
    """

    latent: nn.Linear | None

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        settings: ShortTransformerSettings,
        *,
        latent_dim: int | None = None,
        labels: int = 0,
    ) -> None:
        own, size = settings.denoiser, settings.size_of("denoiser")
        super().__init__(positions, vocab_size, uses_time=own.time_features > 0)
        self.latent_everywhere = own.latent_everywhere
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width))
        self.latent = None
        if latent_dim is not None and latent_dim > labels:
            share = share_of_each(latent_dim - labels, positions)
            self.latent = Linear(share, size.width, bias=False)
            nn.init.normal_(self.latent.weight, std=share**-0.5)
        self.body = unit_variance_body(positions, vocab_size, size)
        self.readout = Linear(size.width, vocab_size)
        self.time = time_embedding(own.time_features, size.width)
        self.label = Linear(labels, size.width, bias=False) if labels else None
        if self.label is not None:
            nn.init.normal_(self.label.weight)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        added: Tensor = self.places
        if self.label is not None:
            assert z is not None, "a denoiser built for labels is given one, or zeros"
            own = z.shape[1] - self.label.in_features
            z, added = z[:, :own], added + self.label(z[:, own:])[:, None]
        if self.latent is not None:
            assert z is not None, "a denoiser built for a latent is given one"
            read = self.latent(z.view(z.shape[0], self.positions, -1))
            added = added + (read if self.latent_everywhere else (xt == self.vocab_size)[..., None] * read)
        if self.time is not None:
            added = added + self.time(t)[:, None]
        wanted = Places.of(where).numbers
        return self.readout(self.body(xt, None, wanted, added))

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [
            parameter for layer in (self.latent, self.label) if layer is not None for parameter in layer.parameters()
        ]


class ShortTransformerRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d), position after position.

    Positions whose value is known from xt have the prior's; at positions that are hidden in x0 too it may guess from
    the others. It starts with a narrow posterior, so that the denoiser sees what the latent says before it sees its
    noise.
    """

    def __init__(self, positions: int, vocab_size: int, settings: ShortTransformerSettings, *, latent_dim: int) -> None:
        super().__init__()
        size = settings.size_of("recognizer")
        self.vocab_size = vocab_size
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width))
        self.masked = nn.Parameter(torch.randn(size.width))
        self.body = unit_variance_body(positions, vocab_size, size)
        share = share_of_each(latent_dim, positions)
        self.readout = Linear(size.width, 2 * share)
        nn.init.constant_(self.readout.bias[share:], -1.0)
        self.codes = nn.Embedding(vocab_size + 1, share)

    @torch.no_grad()
    def start_at(self, embeddings: Callable[[int], Tensor]) -> None:
        """Read tokens by their ``embeddings``, (V + 1, count), and encode them by these alone: tokens that are alike
        have codes that are alike, rare ones too.
        """
        for table in (self.body.embedding.weight, self.codes.weight):
            known = embeddings(table.shape[1])
            table[:, : known.shape[1]] = known.to(table)
        self.readout.weight.zero_()
        self.readout.bias[: self.codes.embedding_dim] = 0

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == self.vocab_size)[..., None]
        hidden = self.body(x0, None, None, self.places + masked * self.masked)
        mean, log_std = mean_and_log_std(self.readout(hidden), -5.0, 1.0)
        return (masked * (mean + self.codes(x0))).flatten(1), (masked * log_std).flatten(1)


def share_of_each(latent_dim: int, positions: int) -> int:
    """How many of the latent's dimensions belong to one position."""
    if latent_dim % positions:
        raise UserError(
            f"the network divides z among {positions} positions, which {latent_dim} dimensions do not allow; "
            "choose latent.per=position"
        )
    return latent_dim // positions


def unit_variance_body(positions: int, vocab_size: int, size: TransformerSize) -> TransformerBody:
    """Without a condition, and with token embeddings of variance one."""
    body = TransformerBody(positions, vocab_size, size, condition=None, zero=False)
    nn.init.normal_(body.embedding.weight)
    return body


ShortTransformerSettings.networks = ShortTransformerDenoiser, ShortTransformerRecognizer
