"""Normalising flows over vectors: densities that can be evaluated and drawn from, given a context or not."""

import math
from collections.abc import Callable

import torch
import zuko
from torch import Tensor, nn


class GaussianMixture(nn.Module):
    """Where a flow starts from: ``components`` diagonal Gaussians over d numbers; a context decides their weights."""

    def __init__(self, dim: int, components: int, context: int = 0) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.randn(components, dim))
        self.log_stds = nn.Parameter(torch.full((components, dim), -0.3))
        self.logits = nn.Parameter(torch.zeros(components))
        self.context = nn.Linear(context, components, bias=False) if context else None

    def log_weights(self, context: Tensor | None) -> Tensor:
        """(components,), or (..., components) for contexts (..., c)."""
        logits = self.logits if self.context is None else self.logits + self.context(context)
        return logits.log_softmax(-1)

    def log_prob(self, u: Tensor, context: Tensor | None = None) -> Tensor:
        """u (..., d) -> (...)."""
        precisions = (-2 * self.log_stds).exp()
        # |u - m|^2 / s^2 multiplied out: matrix products instead of a (..., components, d) tensor.
        squares = u.square() @ precisions.T - 2 * u @ (self.means * precisions).T
        squares = squares + (self.means.square() * precisions).sum(-1)
        constants = self.log_stds.sum(-1) + 0.5 * u.shape[-1] * math.log(2 * math.pi)
        return torch.logsumexp(self.log_weights(context) - 0.5 * squares - constants, dim=-1)

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., d + 1) -> draws (..., d): the last number chooses the component."""
        levels = self.log_weights(context).double().exp().cumsum(-1)
        uniform = torch.special.ndtr(noise[..., -1:].double()) * levels[..., -1:]
        chosen = (levels <= uniform).sum(-1).clamp(max=len(self.means) - 1)
        return self.means[chosen] + self.log_stds[chosen].exp() * noise[..., :-1]


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

    @torch.no_grad()
    def start_at(self, z: Tensor) -> None:
        """Put the components at examples (n, d) of what is to be learnt, at least as many as components: a flow begins
        near the identity. Those that begin anywhere must find the clusters first, and a short fit ends before they
        have.
        """
        if self.base is not None:
            self.base.means.copy_(z[: len(self.base.means)])

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., d), and a context (..., c) that goes with it -> (...)."""
        found: Tensor
        if self.base is None:
            found = self.flow(context).log_prob(z)
        else:
            u, stretching = self.flow(context).transform.call_and_ladj(z)
            found = self.base.log_prob(u, context) + stretching
        return found

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., noise_dim) -> a draw for each, (..., d)."""
        u = noise if self.base is None else self.base.from_noise(noise, context)
        drawn: Tensor = self.flow(context).transform.inv(u)
        return drawn


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
