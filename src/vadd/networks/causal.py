"""Transformers that read from left to right: the denoisers' blocks with a causal mask.

The logits at a position depend only on the tokens to its left, so one pass predicts all positions. The first is
predicted from a start token, which takes the mask's row in the table of embeddings.
"""

import torch
from torch import Tensor, nn

from vadd.networks.layers import zeroed
from vadd.networks.transformer_blocks import Past, TransformerBody, TransformerSize


class CausalTransformer(nn.Module):
    """(x) -> logits at the positions asked for, each from the positions before it; see
    :class:`vadd.core.Denoiser`. What stands at a position or to its right does not matter and may be the mask.

    It starts as :class:`~vadd.networks.transformer.TransformerDenoiser` does or, ``short``, as
    :class:`~vadd.networks.short_transformer.ShortTransformerDenoiser`.
    """

    uses_time = False

    def __init__(self, positions: int, vocab_size: int, size: TransformerSize, *, short: bool = False) -> None:
        super().__init__()
        self.positions, self.vocab_size = positions, vocab_size
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width)) if short else None
        self.body = TransformerBody(positions, vocab_size, size, condition=None, zero=not short, causal=True)
        self.readout = nn.Linear(size.width, vocab_size)
        if short:
            nn.init.normal_(self.body.embedding.weight)
        else:
            zeroed(self.readout)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        wanted = where.flatten().nonzero()[:, 0]
        logits: Tensor = self.readout(self.body(self._shifted(xt), None, wanted, self.places))
        return logits

    def _shifted(self, x: Tensor) -> Tensor:
        """What each position is predicted from: the token before it, and at first the start token."""
        return torch.cat([torch.full_like(x[:, :1], self.vocab_size), x[:, :-1]], dim=1)

    def reader(self) -> "CausalReader":
        return CausalReader(self)

    @property
    def cache_bytes(self) -> int:
        """What a reader keeps of one sequence at the end."""
        return 2 * len(self.body.attentions) * self.positions * self.body.embedding.weight[0].nbytes


class CausalReader:
    """Reads sequences from left to right and never twice: keys and values are kept."""

    def __init__(self, network: CausalTransformer) -> None:
        self.network = network
        self.past = [Past() for _ in network.body.attentions]
        self.read = 0

    def logits(self, x: Tensor, position: int) -> Tensor:
        """(B, V) at one ``position`` of the sequences x (B, N); it must lie to the right of those asked for before."""
        network = self.network
        inputs = network._shifted(x[:, : position + 1])[:, self.read :]
        added = None if network.places is None else network.places[self.read : position + 1]
        features = network.body.forward_new(inputs, self.read, self.past, added)
        self.read = position + 1
        logits: Tensor = network.readout(features[:, -1])
        return logits
