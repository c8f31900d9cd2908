"""A density over z that is trained with the model: one number after another, each a mixture of Gaussians."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALLEST_LOG_STD, LARGEST_LOG_STD = -7.0, 3.0


class MaskedLinear(nn.Linear):
    """A linear map whose weights are zero where ``mask`` (outputs, inputs) is false."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.float(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weight * self.mask, self.bias)


class AutoregressiveMixture(nn.Module):
    """p(z) = prod_i p(z_i | z_1..z_{i-1}), each factor a mixture of ``components`` Gaussians given by one masked
    network (MADE). The density of any z costs one pass, a draw d passes, of a network much smaller than a denoiser.

    A flow bends one Gaussian, or a few, and leaves thin bridges between clusters, where z decodes to nothing in
    particular. A mixture has none. ``context`` is the width of a vector that all factors read, 0 for none.
    """

    def __init__(self, dim: int, *, context: int = 0, width: int = 256, blocks: int = 2, components: int = 16) -> None:
        super().__init__()
        self.dim, self.noise_dim, self.components = dim, 2 * dim, components
        numbers = torch.arange(dim)
        # A hidden unit of degree i reads the numbers before z_i, and writes to the factors of z_i and later ones.
        degrees = torch.arange(width) * dim // width
        self.reads = MaskedLinear(degrees[:, None] > numbers)
        self.context = nn.Linear(context, width, bias=False) if context else None
        between = degrees[:, None] >= degrees
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.SiLU(), MaskedLinear(between), nn.SiLU(), MaskedLinear(between)) for _ in range(blocks)
        )
        self.writes = MaskedLinear(numbers.repeat_interleave(3 * components)[:, None] >= degrees)
        with torch.no_grad():
            self.writes.weight.mul_(0.1)
            self.writes.bias.zero_()
            self.writes.bias.view(dim, 3, components)[:, 1] = torch.randn(dim, components)

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., d), with contexts (..., c) -> (...)."""
        written = self.writes(self._hidden(z, context)).view(*z.shape, 3, self.components)
        logits, means, log_stds = _mixture(written)
        deviations = (z[..., None] - means) * (-log_stds).exp()
        parts = logits.log_softmax(-1) - log_stds - 0.5 * deviations.square() - 0.5 * math.log(2 * math.pi)
        return parts.logsumexp(-1).sum(-1)

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., 2 d) -> a draw for each, (..., d): of every factor first the deviations, then
        the numbers that choose a component.
        """
        deviations, choices = noise.chunk(2, dim=-1)
        levels = torch.special.ndtr(choices.double())
        weight = (self.writes.weight * self.writes.mask).view(self.dim, -1, self.writes.in_features)
        bias = self.writes.bias.view(self.dim, -1)
        z = torch.zeros_like(deviations)
        for number in range(self.dim):
            written = F.linear(self._hidden(z, context), weight[number], bias[number])
            logits, means, log_stds = _mixture(written.view(*written.shape[:-1], 3, self.components))
            ends = logits.double().softmax(-1).cumsum(-1)
            beyond = ends <= levels[..., number, None] * ends[..., -1:]
            chosen = beyond.sum(-1, keepdim=True).clamp(max=self.components - 1)
            mean, log_std = means.gather(-1, chosen)[..., 0], log_stds.gather(-1, chosen)[..., 0]
            z[..., number] = mean + log_std.exp() * deviations[..., number]
        return z

    def start_at(self, z: Tensor) -> None:
        """Its components are found in training."""

    def _hidden(self, z: Tensor, context: Tensor | None) -> Tensor:
        hidden = self.reads(z)
        if self.context is not None:
            hidden = hidden + self.context(context)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return F.silu(hidden)


def _mixture(written: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(..., 3, components) -> logits, means and log standard deviations."""
    logits, means, log_stds = written.unbind(-2)
    return logits, means, log_stds.clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)
