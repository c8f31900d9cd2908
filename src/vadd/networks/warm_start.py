"""A denoiser with a latent that begins as a trained one without: the same function, whatever z is.

Every weight that both have is taken over; the latent's input layer, the last map on the way from z into the network,
starts at zero. Its gradient is not zero, so the latent is learnt from there.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.networks.layers import DenoiserBase


def take_over(denoiser: nn.Module, weights: Mapping[str, Tensor]) -> list[str]:
    """Begin as the denoiser without a latent that has these ``weights``. Returns the names that were taken over."""
    if not isinstance(denoiser, DenoiserBase):
        raise UserError(f"{type(denoiser).__name__} cannot begin as a network without a latent")
    given = dict(denoiser.translated(weights))
    own = dict(denoiser.named_parameters())
    problems = {
        "missing": sorted(own.keys() - given.keys() - latents_own(denoiser)),
        "unknown": sorted(given.keys() - own.keys()),
        "of another shape": sorted(name for name in given.keys() & own.keys() if given[name].shape != own[name].shape),
    }
    if any(problems.values()):
        shown = "; ".join(f"{what}: {_listed(names)}" for what, names in problems.items() if names)
        raise UserError(f"the weights to start from do not fit: {shown}")
    with torch.no_grad():
        for parameter in denoiser.latent_input_weights():
            parameter.zero_()
        for name, tensor in given.items():
            own[name].copy_(tensor)
    return sorted(given)


def latents_own(denoiser: nn.Module) -> set[str]:
    """The names of the parameters that the same network without a latent does not have."""
    inputs = {id(p) for p in denoiser.latent_input_weights()} if isinstance(denoiser, DenoiserBase) else set()
    return {
        name
        for name, parameter in denoiser.named_parameters()
        if id(parameter) in inputs or name.split(".")[0] == "latent" or ".latent." in name
    }


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
