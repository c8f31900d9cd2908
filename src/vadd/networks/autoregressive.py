"""Densities over z that are trained with the model: one number, or one position, after another, each a mixture of
Gaussians.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.networks.layers import Linear, linear
from vadd.networks.transformer_blocks import Past, TransformerBody, TransformerSize

SMALLEST_LOG_STD, LARGEST_LOG_STD = -7.0, 3.0
UNEVEN = 0.5
"""Particles are drawn anew where their effective number is a smaller share."""


class MaskedLinear(nn.Linear):
    """A linear map whose weights are zero where ``mask`` (outputs, inputs) is false."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask.float(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight * self.mask, self.bias)


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
        self.context = Linear(context, width, bias=False) if context else None
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
        weight = (self.writes.weight * self.writes.mask).view(self.dim, -1, self.writes.in_features)
        bias = self.writes.bias.view(self.dim, -1)
        z = torch.zeros_like(deviations)
        for number in range(self.dim):
            written = linear(self._hidden(z, context), weight[number], bias[number])
            logits, means, log_stds = _mixture(written.view(*written.shape[:-1], 3, self.components))
            chosen = chosen_component(logits, choices[..., number, None])
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


class AutoregressiveTransformer(nn.Module):
    """p(z) = prod_n p(z_n | z_1..z_{n-1}) of a z that is divided among N positions, ``share`` numbers for each.

    Every factor is a mixture of the same ``components`` Gaussians; a causal transformer gives their probabilities. What
    a recognition model writes at a position has a cluster for each value there, whatever the others are: the clusters
    are learnt once, and what is left is to predict which comes next, as a language model does. The density of any z
    costs one pass, a draw one position after another, with keys and values kept.

    ``context`` is how many numbers each position reads besides: contexts (..., N * context), position after position.
    ``pairs``: see :class:`~vadd.networks.transformer_blocks.SelfAttention`.
    """

    def __init__(
        self,
        positions: int,
        share: int,
        *,
        context: int = 0,
        width: int = 128,
        blocks: int = 3,
        components: int = 64,
        pairs: bool = False,
    ) -> None:
        super().__init__()
        self.positions, self.share = positions, share
        self.dim, self.noise_dim = positions * share, positions * (share + 1)
        self.reads = Linear(share, width)
        nn.init.normal_(self.reads.weight, std=share**-0.5)
        self.context = Linear(context, width, bias=False) if context else None
        self.places = nn.Parameter(0.02 * torch.randn(positions, width))
        size = TransformerSize(width=width, blocks=blocks, heads=4, pairs=pairs)
        # Two tokens: nothing stands before the first position, numbers before all others.
        self.body = TransformerBody(positions, 1, size, condition=None, zero=False, causal=True)
        self.writes = Linear(width, components)
        self.means = nn.Parameter(torch.randn(components, share))
        self.log_stds = nn.Parameter(torch.full((components, share), -1.0))

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., N * c), with their context -> (...)."""
        numbers = z.reshape(-1, self.positions, self.share)
        before = torch.cat([numbers.new_zeros(len(numbers), 1, self.share), numbers[:, :-1]], dim=1)
        tokens = torch.ones(before.shape[:2], dtype=torch.long, device=z.device)
        tokens[:, 0] = 0
        added = self._read(before, context, slice(None))
        logits = self.writes(self.body(tokens, None, None, added))
        log_stds = self.log_stds.clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)
        # Not log_softmax: a pass over all components less, which may be as many as a vocabulary has values.
        joint = mixture_log_prob(numbers, logits, self.means, log_stds) - logits.logsumexp(-1)
        return joint.sum(-1).view(z.shape[:-1])

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., N * (c + 1)) -> a draw for each, (..., N * c): first the deviations, then the
        numbers that choose a component at each position.
        """
        flat = noise.reshape(-1, self.noise_dim)
        past = self.body.no_past()
        drawn = [torch.zeros_like(flat[:, : self.share])]  # its length stays a symbol where a draw is traced
        for position in range(self.positions):
            logits = self._next(drawn[-1], position, context, past)
            drawn.append(self._number(position, chosen_component(logits, flat[:, self.dim + position, None]), flat))
        return torch.stack(drawn[1:], dim=1).view(*noise.shape[:-1], self.dim)

    def steered(
        self, noise: Tensor, levels: Tensor, log_gains: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """A particle filter: draws (K, B, N * c) for B rows that lean towards the components that ``log_gains``
        (B, N, C) name at each position, and log weights (K, B). For any f the mean over K of weight times f(z) has the
        expectation of f under the prior.

        Every choice of a component is weighed by exp(gain), which its weight takes back at the end. On the way, where
        the weights of a row's particles have become uneven, they are drawn anew in proportion to them, at a level of
        ``levels`` (B, N): what cannot go on as the gains want it ends there, and others go on in its place.
        """
        particles, rows = noise.shape[:2]
        flat = noise.reshape(-1, self.noise_dim)
        past = self.body.no_past()
        z = flat.new_zeros(len(flat), self.positions, self.share)
        log_weights, gained = noise.new_zeros(2, particles, rows)
        for position in range(self.positions):
            logits = self._next(z[:, position - 1], position, context, past)  # of the first, zeros
            gains = log_gains[:, position].expand(particles, -1, -1)
            leaning = logits.log_softmax(-1).view(particles, rows, -1) + gains
            log_weights += leaning.logsumexp(-1)
            chosen = chosen_component(leaning.flatten(0, 1), flat[:, self.dim + position, None])
            z[:, position] = self._number(position, chosen, flat)
            gained += gains.gather(-1, chosen.view(particles, rows, 1))[..., 0]
            ancestors = _resampled(log_weights, levels[:, position])
            if ancestors is not None:
                kept = (ancestors * rows + torch.arange(rows, device=noise.device)).flatten()
                z, gained = z[kept], gained.gather(0, ancestors)
                for each in past:
                    each.select(kept)
        return z.view(particles, rows, self.dim), log_weights - gained

    @torch.no_grad()
    def start_at(self, z: Tensor) -> None:
        """Codes (n, c) of values, the most frequent first, become components; the rest is found in training."""
        codes = z[: len(self.means)]
        self.means[: len(codes)] = codes

    def component_shares(self, z: Tensor) -> Tensor:
        """What each component has to do with the numbers at each position, z (..., N * c) -> (..., N, C): in the shares
        of their densities.
        """
        log_stds = self.log_stds.clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)
        numbers = z.view(*z.shape[:-1], self.positions, self.share)
        return component_log_probs(numbers, self.means, log_stds).softmax(-1)

    def _next(self, before: Tensor, position: int, context: Tensor | None, past: Sequence[Past]) -> Tensor:
        """The logits of the components at a position, (B, C), after the numbers (B, c) ``before`` it, zeros before the
        first.
        """
        tokens = torch.full((before.shape[0], 1), min(position, 1), device=before.device)
        added = self._read(before[:, None], context, slice(position, position + 1))
        logits: Tensor = self.writes(self.body(tokens, None, added=added, past=past)[:, 0])
        return logits

    def _number(self, position: int, chosen: Tensor, noise: Tensor) -> Tensor:
        """The numbers at a position, (B, c), of components (B, 1) and all of a draw's noise (B, noise_dim)."""
        deviations = noise[:, : self.dim].view(-1, self.positions, self.share)[:, position]
        stds = self.log_stds.clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD).exp()
        return self.means[chosen[:, 0]] + stds[chosen[:, 0]] * deviations

    def _read(self, before: Tensor, context: Tensor | None, which: slice) -> Tensor:
        """What the positions ``which`` see besides their tokens: the numbers ``before`` them, (B, n, c), where they
        are, and their context.
        """
        added: Tensor = self.reads(before) + self.places[which]
        if self.context is not None:
            assert context is not None, "a density built for contexts is given one"
            added = added + self.context(context.reshape(before.shape[0], self.positions, -1)[:, which])
        return added


def _mixture(written: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(..., 3, components) -> logits, means and log standard deviations."""
    logits, means, log_stds = written.unbind(-2)
    return logits, means, log_stds.clamp(SMALLEST_LOG_STD, LARGEST_LOG_STD)


def mixture_log_prob(u: Tensor, log_weights: Tensor, means: Tensor, log_stds: Tensor) -> Tensor:
    """u (..., d) -> (...), of Gaussians with means and log standard deviations (components, d), weighed by
    (..., components).
    """
    return (log_weights + component_log_probs(u, means, log_stds)).logsumexp(-1)


def component_log_probs(u: Tensor, means: Tensor, log_stds: Tensor) -> Tensor:
    """u (..., d) -> (..., components)."""
    precisions = (-2 * log_stds).exp()
    heights = log_stds.sum(-1) + 0.5 * u.shape[-1] * math.log(2 * math.pi)
    # |u - m|^2 / s^2 multiplied out: one matrix product instead of a (..., components, d) tensor. Its terms are large
    # and cancel, so the heights are not among them.
    maps, constants = torch.cat([-0.5 * precisions, means * precisions], -1), -0.5 * (means.square() * precisions)
    return linear(torch.cat([u.square(), u], -1), maps, constants.sum(-1)) - heights


def _resampled(log_weights: Tensor, levels: Tensor) -> Tensor | None:
    """Which particles (K, B) go on where those of a row have uneven log weights (K, B), which then become even; None
    where no row has.
    """
    count = len(log_weights)
    shares = log_weights.softmax(0)
    uneven = shares.square().sum(0) * count > 1 / UNEVEN
    if not uneven.any():
        return None
    # Evenly spaced levels, moved together: a particle goes on about as often as it weighs.
    spaced = (torch.arange(count, device=levels.device)[:, None] + levels) / count
    ends = shares.cumsum(0).T.contiguous()
    ancestors = torch.searchsorted(ends, (spaced * ends[:, -1]).T.contiguous(), right=True).clamp(max=count - 1).T
    log_mean = log_weights.logsumexp(0) - math.log(count)
    log_weights.copy_(torch.where(uneven, log_mean, log_weights))
    return torch.where(uneven, ancestors, torch.arange(count, device=levels.device)[:, None])


def chosen_component(logits: Tensor, number: Tensor) -> Tensor:
    """The component (..., 1) that a standard normal ``number`` (..., 1) chooses."""
    ends = logits.double().softmax(-1).cumsum(-1)
    level = torch.special.ndtr(number.double()) * ends[..., -1:]
    return (ends <= level).sum(-1, keepdim=True).clamp(max=logits.shape[-1] - 1)
