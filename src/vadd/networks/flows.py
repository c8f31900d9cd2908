"""Normalising flows over vectors: densities that can be evaluated and drawn from, given a context or not."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
import zuko
from torch import Tensor, nn

from vadd.networks.autoregressive import chosen_component, mixture_log_prob
from vadd.networks.layers import Linear, zeroed

LARGEST_LOG_SCALE = 2.0
"""Of one coupling, either way: keeps a bad step from ending in infinities."""


class GaussianMixture(nn.Module):
    """Where a flow starts from: ``components`` diagonal Gaussians over d numbers; a context decides their weights."""

    def __init__(self, dim: int, components: int, context: int = 0) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.randn(components, dim))
        self.log_stds = nn.Parameter(torch.full((components, dim), -0.3))
        self.logits = nn.Parameter(torch.zeros(components))
        self.context = Linear(context, components, bias=False) if context else None

    def log_weights(self, context: Tensor | None) -> Tensor:
        """(components,), or (..., components) for contexts (..., c)."""
        logits = self.logits if self.context is None else self.logits + self.context(context)
        return logits.log_softmax(-1)

    def log_prob(self, u: Tensor, context: Tensor | None = None) -> Tensor:
        """u (..., d) -> (...)."""
        return mixture_log_prob(u, self.log_weights(context), self.means, self.log_stds)

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., d + 1) -> draws (..., d): the last number chooses the component."""
        chosen = chosen_component(self.log_weights(context), noise[..., -1:])[..., 0]
        return self.means[chosen] + self.log_stds[chosen].exp() * noise[..., :-1]


class _Split(zuko.transforms.CouplingTransform):  # type: ignore[misc]  # no types
    """A coupling whose two halves are known by their numbers."""

    def __init__(self, meta: Callable[[Tensor], Any], stays: Tensor, changes: Tensor) -> None:
        torch.distributions.Transform.__init__(self)
        self.meta, self.idx_a, self.idx_b = meta, stays, changes


class _Coupling(zuko.flows.coupling.GeneralCouplingTransform):  # type: ignore[misc]  # no types
    """zuko's own finds the numbers of its halves in every pass, and a GPU makes the host wait for them."""

    def find_halves(self) -> None:
        self.register_buffer("stays", self.mask.nonzero()[:, 0], persistent=False)
        self.register_buffer("changes", (~self.mask).nonzero()[:, 0], persistent=False)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.find_halves()

    def forward(self, c: Tensor | None = None) -> _Split:
        return _Split(partial(self.meta, c), self.stays, self.changes)


class CouplingFlow(nn.Module):
    """Affine couplings (RealNVP) from a mixture of Gaussians to a density over d numbers; both directions cost one
    pass.

    One Gaussian is N(0, I). What a recognition model writes has many clusters, between which a single Gaussian can only
    be stretched thin: z drawn from there decode to nothing in particular. ``context`` is the width of a vector that
    couplings and weights read, 0 for none.
    """

    def __init__(
        self, dim: int, *, context: int = 0, transforms: int = 8, width: int = 256, components: int = 1
    ) -> None:
        super().__init__()
        self.dim = dim
        self.base = GaussianMixture(dim, components, context) if components > 1 else None
        self.noise_dim = dim + (self.base is not None)
        # A coupling divides the numbers into two halves; of a single number there is only one, which a few monotonic
        # splines transform instead.
        self.flow = (
            zuko.flows.NICE(dim, context, transforms=transforms, hidden_features=(width, width), randmask=True)
            if dim > 1
            else zuko.flows.NSF(dim, context, transforms=2, hidden_features=(width, width), bins=16)
        )
        if dim > 1:
            # What one coupling leaves alone, the next one transforms: of halves drawn independently some numbers would
            # be left alone by all.
            couplings = list(self.flow.transform.transforms)
            for one, other in zip(couplings[::2], couplings[1::2], strict=False):
                other.mask.copy_(~one.mask)
            for coupling in couplings:
                coupling.__class__ = _Coupling
                coupling.find_halves()

    @torch.no_grad()
    def start_at(self, z: Tensor) -> None:
        """Put the components at examples (n, d) of what is to be learnt, at least as many as components: a flow begins
        near the identity. Those that begin anywhere must find the clusters first, and a short fit ends before they
        have.
        """
        if self.base is not None:
            self.base.means.copy_(z[: len(self.base.means)])

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., d), with contexts (..., c) -> (...)."""
        flow: Any = self.flow(context)
        if self.base is None:
            return cast(Tensor, flow.log_prob(z))
        u, stretching = flow.transform.call_and_ladj(z)
        return cast(Tensor, self.base.log_prob(u, context) + stretching)

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., noise_dim) -> a draw for each, (..., d)."""
        u = noise if self.base is None else self.base.from_noise(noise, context)
        return cast(Tensor, self.flow(context).transform.inv(u))


class SequenceCoupling(nn.Module):
    """z (B, c, N) -> (z - shift) / scale at the numbers that do not ``stay``, read off those that do."""

    stay: Tensor

    def __init__(self, stay: Tensor, context: int, width: int, kernel: int) -> None:
        super().__init__()
        channels = len(stay)
        self.register_buffer("stay", stay)
        self.reads = nn.Conv1d(2 * channels + context, width, kernel, padding=kernel // 2)
        self.reflects = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.writes = zeroed(nn.Conv1d(width, 2 * channels, 1))  # the flow starts as the identity

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
    """Convolutional couplings from N(0, I) to a density over N * c numbers, position after position: for latents that
    are divided among positions. A coupling of perceptrons over all N * c numbers would have to learn the same N times.

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
        """z (..., N * c), with their context -> (...)."""
        u, context = self._channels(z), None if context is None else self._channels(context)
        stretching = u.new_zeros(len(u))
        for coupling in self.couplings:
            u, more = coupling(u, context)
            stretching = stretching + more
        normal = -0.5 * u.square().sum(dim=(1, 2)) - 0.5 * self.dim * math.log(2 * math.pi)
        return (normal + stretching).view(z.shape[:-1])

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., N * c) -> a draw for each, (..., N * c)."""
        z, context = self._channels(noise), None if context is None else self._channels(context)
        for coupling in reversed(self.couplings):
            assert isinstance(coupling, SequenceCoupling)
            z = coupling.inverse(z, context)
        return z.transpose(1, 2).reshape(noise.shape)

    def _channels(self, numbers: Tensor) -> Tensor:
        """(..., N * c) -> (B, c, N)."""
        return numbers.reshape(-1, self.positions, numbers.shape[-1] // self.positions).transpose(1, 2)


class StateReader(nn.Module):
    """A state xt (B, N) -> a context (B, c), by the network that recognises latents, shown xt alone.

    With ``share`` what belongs to a position stays together: so many means, then as many log-stds, for each.
    """

    def __init__(
        self, recognizer: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]], share: int | None = None
    ) -> None:
        super().__init__()
        self.recognizer = recognizer
        self.share = share

    def forward(self, xt: Tensor) -> Tensor:
        read = self.recognizer(xt, xt, torch.ones(len(xt), device=xt.device))
        if self.share is None:
            return torch.cat(read, dim=-1)
        return torch.cat([part.view(len(xt), -1, self.share) for part in read], dim=-1).flatten(1)
