"""A normalising flow over latents that are divided among the positions of a sequence.

What is true of neighbours at one place is true at all: the couplings are convolutions, and what they learn at one
position they know at every other. A coupling of perceptrons over all N * c numbers has to learn it N times.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGEST_LOG_SCALE = 2.0
"""Of one coupling, either way: keeps a bad step from ending in infinities."""


class SequenceCoupling(nn.Module):
    """z (B, c, N) -> (z - shift) / scale at the numbers that do not ``stay``, read off those that do."""

    stay: Tensor

    def __init__(self, stay: Tensor, context: int, width: int, kernel: int) -> None:
        super().__init__()
        channels = len(stay)
        self.register_buffer("stay", stay)
        self.reads = nn.Conv1d(2 * channels + context, width, kernel, padding=kernel // 2)
        self.reflects = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.writes = nn.Conv1d(width, 2 * channels, 1)
        nn.init.zeros_(self.writes.weight)  # the flow starts as the identity
        nn.init.zeros_(self.writes.bias)  # type: ignore[arg-type]  # there is one

    def shift_and_log_scale(self, z: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        seen = [z * self.stay, self.stay.to(z).expand_as(z)]
        hidden = F.gelu(self.reads(torch.cat(seen if context is None else [*seen, context], dim=1)))
        shift, raw = self.writes(F.gelu(self.reflects(hidden)) + hidden).chunk(2, dim=1)
        changes = ~self.stay
        return shift * changes, LARGEST_LOG_SCALE * torch.tanh(raw / LARGEST_LOG_SCALE) * changes

    def forward(self, z: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Towards the noise: the numbers, and the logarithm of what the map stretches volumes by, (B,)."""
        shift, log_scale = self.shift_and_log_scale(z, context)
        return (z - shift) * (-log_scale).exp(), -log_scale.sum(dim=(1, 2))

    def inverse(self, u: Tensor, context: Tensor | None) -> Tensor:
        shift, log_scale = self.shift_and_log_scale(u, context)
        return u * log_scale.exp() + shift


class SequenceFlow(nn.Module):
    """Convolutional couplings from N(0, I) to a density over N * c numbers, position after position.

    In turn every other position and every other number of each position stay as they are. ``context`` is how many
    numbers each position has of what the couplings read besides, 0 for none: contexts (..., N * context), position
    after position.
    """

    def __init__(
        self, positions: int, share: int, *, context: int = 0, transforms: int = 8, width: int = 48, kernel: int = 7
    ) -> None:
        super().__init__()
        self.positions, self.share = positions, share
        self.dim = self.noise_dim = positions * share
        place = (torch.arange(positions) % 2 == 0).expand(share, positions)
        number = (torch.arange(share) % 2 == 0)[:, None].expand(share, positions)
        patterns = [place, ~place, number, ~number] if share > 1 else [place, ~place]
        self.couplings = nn.ModuleList(
            SequenceCoupling(patterns[index % len(patterns)].clone(), context, width, kernel)
            for index in range(transforms)
        )

    def start_at(self, z: Tensor) -> None:
        """N(0, I) is near enough: what is divided among positions has no clusters as a whole."""

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., N * c), and a context that goes with it -> (...)."""
        u, told = self._channels(z), None if context is None else self._channels(context)
        stretching = u.new_zeros(len(u))
        for coupling in self.couplings:
            u, more = coupling(u, told)
            stretching = stretching + more
        normal = -0.5 * u.square().sum(dim=(1, 2)) - 0.5 * self.dim * math.log(2 * math.pi)
        return (normal + stretching).view(z.shape[:-1])

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., N * c) -> a draw for each, (..., N * c)."""
        z, told = self._channels(noise), None if context is None else self._channels(context)
        for coupling in reversed(self.couplings):
            assert isinstance(coupling, SequenceCoupling)
            z = coupling.inverse(z, told)
        return z.transpose(1, 2).reshape(noise.shape)

    def _channels(self, numbers: Tensor) -> Tensor:
        """(..., N * c) -> (B, c, N)."""
        return numbers.reshape(-1, self.positions, numbers.shape[-1] // self.positions).transpose(1, 2)
