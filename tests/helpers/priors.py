"""Flows that are far from where they start, and integrals over what they say."""

import torch
from torch import Tensor, nn

from vadd.core import FlowPrior
from vadd.networks import CouplingFlow, SiameseMlpRecognizer, StateReader


def bent(module: nn.Module, seed: int, by: float = 0.3) -> nn.Module:
    """The same network with its weights moved, so that it is no longer near the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    return module


def bent_flow(dim: int, context: int = 0, *, seed: int = 0, by: float = 0.3) -> CouplingFlow:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        flow = CouplingFlow(dim, context=context, transforms=4, width=12)
    bent(flow, seed, by)
    return flow


def informed_prior(positions: int, values: int, dim: int, *, seed: int = 0) -> FlowPrior:
    """p(z | xt), far from N(0, I) and another one in every state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = StateReader(SiameseMlpRecognizer(positions, values, latent_dim=2, width=16, depth=1))
    return FlowPrior(bent_flow(dim, context=4, seed=seed), bent(reader, seed)).requires_grad_(False)


def line(points: int = 40_000, reach: float = 10.0) -> tuple[Tensor, float]:
    """The middles z (points, 1) of equal steps, and the length of one; sums over them are integrals, where the density
    vanishes beyond their ends.
    """
    step = 2 * reach / points
    return ((torch.arange(points, dtype=torch.float64) + 0.5) * step - reach)[:, None], step


def plane(points: int = 480, reach: float = 12.0) -> tuple[Tensor, float]:
    """The same in two dimensions, (points ** 2, 2)."""
    z, step = line(points, reach)
    return torch.cartesian_prod(z[:, 0], z[:, 0]), step**2
