"""Networks as somebody might write them."""

from typing import Any

import torch
from torch import Tensor, nn

POSITIONS, VOCAB_SIZE, LATENT = 6, 4, 2
"""Those of the examples in ``codes_file``."""


class OwnDenoiser(nn.Module):
    """One hidden layer over one-hot tokens; ``latent`` None for a model without z."""

    def __init__(self, positions: int = POSITIONS, vocab_size: int = VOCAB_SIZE, latent: int | None = LATENT) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = positions, vocab_size, False
        self.hidden = nn.Linear(positions * (vocab_size + 1) + (latent or 0), 32)
        self.head = nn.Linear(32, positions * vocab_size)

    def logits(self, xt: Tensor, z: Tensor | None) -> Tensor:
        tokens = nn.functional.one_hot(xt, self.vocab_size + 1).flatten(1).float()
        hidden = self.hidden(tokens if z is None else torch.cat([tokens, z], dim=1)).relu()
        out: Tensor = self.head(hidden).view(-1, self.positions, self.vocab_size)
        return out

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits(xt, z)[where]


class OwnRecognizer(nn.Module):
    def __init__(self, positions: int = POSITIONS, vocab_size: int = VOCAB_SIZE, latent: int = LATENT) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.layer = nn.Linear(2 * positions * (vocab_size + 1), 2 * latent)

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        tokens = nn.functional.one_hot(torch.cat([x0, xt], dim=1), self.vocab_size + 1).flatten(1).float()
        mean, log_std = self.layer(tokens).chunk(2, dim=1)
        return mean, log_std.clamp(-5, 2)
