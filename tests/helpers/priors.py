"""Flows that are far from where they start, and integrals over what they say."""

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from tests.helpers.networks import flat_settings
from vadd.core import FlowPrior
from vadd.networks import SiameseMlpRecognizer
from vadd.networks.autoregressive import AutoregressiveMixture
from vadd.networks.flows import CouplingFlow, GaussianMixture, StateReader


def bent(module: nn.Module, seed: int, by: float = 0.3) -> nn.Module:
    """The same network with its weights moved, so that it is no longer near the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    return module


def bent_flow(
    dim: int, context: int = 0, *, seed: int = 0, by: float = 0.3, components: int = 1
) -> CouplingFlow | AutoregressiveMixture:
    """With no components an autoregressive mixture."""
    flow: CouplingFlow | AutoregressiveMixture
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if components == 0:
            flow = AutoregressiveMixture(dim, context=context, width=12, blocks=1, components=3)
        else:
            flow = CouplingFlow(dim, context=context, transforms=4, width=12, components=components)
    bent(flow, seed, by)
    return flow


def bent_mixture(dim: int, components: int, context: int = 0, *, seed: int = 0, centre: float = 0.0) -> GaussianMixture:
    """Of different weights and scales, in float64; its means lie around ``centre`` in every dimension."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mixture = GaussianMixture(dim, components, context).double()
    bent(mixture, seed)
    with torch.no_grad():
        mixture.means.add_(centre)
    return mixture


def mixture_weights(mixture: GaussianMixture, context: Tensor | None = None) -> Tensor:
    """By hand: softmax(b + W c), (components,) or (..., components)."""
    state = mixture.state_dict()
    scores = state["logits"] if context is None else state["logits"] + context @ state["context.weight"].T
    weights: Tensor = scores.exp() / scores.exp().sum(-1, keepdim=True)
    return weights


def mixture_log_density(mixture: GaussianMixture, u: Tensor, context: Tensor | None = None) -> Tensor:
    """By torch.distributions, whose methods are not typed."""
    state = mixture.state_dict()
    each = Independent(Normal(state["means"], state["log_stds"].exp()), 1)
    weights = mixture_weights(mixture, context)
    if context is not None:
        each = each.expand(weights.shape)  # type: ignore[no-untyped-call]
    whole = MixtureSameFamily(Categorical(weights), each)
    result: Tensor = whole.log_prob(u)  # type: ignore[no-untyped-call]
    return result


def conditional_prior(positions: int, values: int, dim: int, *, seed: int = 0, components: int = 1) -> FlowPrior:
    """p(z | xt), far from N(0, I) and another one in every state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = StateReader(
            SiameseMlpRecognizer(positions, values, flat_settings("mlp", width=16, depth=1), latent_dim=2)
        )
    # The means of an autoregressive mixture should stay where the integrals look.
    flow = bent_flow(dim, context=4, seed=seed, by=0.3 if components else 0.03, components=components)
    return FlowPrior(flow, bent(reader, seed)).requires_grad_(False)


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


def unit_squares(z: Tensor) -> Tensor:
    """For points (n, 2) the number of the square of side 1 within [-4, 4]^2 that each lies in; 64 outside of them."""
    place = (z + 4).floor().long()
    inside = ((place >= 0) & (place < 8)).all(1)
    return torch.where(inside, place[:, 0] * 8 + place[:, 1], 64)
