"""Normalising flows over vectors: densities that can be evaluated and drawn from, given a context or not."""

from collections.abc import Callable

import torch
import zuko
from torch import Tensor, nn


class CouplingFlow(nn.Module):
    """Affine couplings (RealNVP) from N(0, I) to a density over d numbers; both directions cost one pass.

    ``context`` is the width of a vector that the couplings read, 0 for none.
    """

    def __init__(self, dim: int, *, context: int = 0, transforms: int = 8, width: int = 256) -> None:
        super().__init__()
        self.dim = dim
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

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        """z (..., d), and a context (..., c) that goes with it -> (...)."""
        found: Tensor = self.flow(context).log_prob(z)
        return found

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor:
        """Standard normal numbers (..., d) -> a draw for each, (..., d)."""
        drawn: Tensor = self.flow(context).transform.inv(noise)
        return drawn


class StateReader(nn.Module):
    """A state xt (B, N) -> a context (B, c), by the network that recognises latents, shown xt alone."""

    def __init__(self, recognizer: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.recognizer = recognizer

    def forward(self, xt: Tensor) -> Tensor:
        return torch.cat(self.recognizer(xt, xt, torch.ones(len(xt), device=xt.device)), dim=-1)
