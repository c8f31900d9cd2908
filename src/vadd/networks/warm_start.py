"""A denoiser with a latent that begins as a trained one without: the same function, whatever z is.

Every weight that both have is taken over; the latent's input layer, the last map on the way from z into the network,
starts at zero. Its gradient is not zero, so the latent is learnt from there.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from vadd.errors import UserError


@runtime_checkable
class TakesOver(Protocol):
    """A denoiser that can begin as one without a latent."""

    def latent_input_weights(self) -> list[nn.Parameter]:
        """What is to be zero for z to be without effect."""
        ...

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The weights of the same network without a latent, under the names that this one has for them."""
        ...


def take_over(denoiser: nn.Module, weights: Mapping[str, Tensor]) -> list[str]:
    """Begin as the denoiser without a latent that has these ``weights``. Returns the names that were taken over."""
    if not isinstance(denoiser, TakesOver):
        raise UserError(f"{type(denoiser).__name__} cannot begin as a network without a latent")
    found = dict(denoiser.translated(weights))
    own = dict(denoiser.named_parameters())
    missing = sorted(own.keys() - found.keys() - latents_own(denoiser))
    extra = sorted(found.keys() - own.keys())
    wrong = sorted(name for name in found.keys() & own.keys() if found[name].shape != own[name].shape)
    if missing or extra or wrong:
        raise UserError(f"the weights to start from do not fit: {_described(missing, extra, wrong)}")
    with torch.no_grad():
        for parameter in denoiser.latent_input_weights():
            parameter.zero_()
        for name, tensor in found.items():
            own[name].copy_(tensor)
    return sorted(found)


def latents_own(denoiser: nn.Module) -> set[str]:
    """The names of the parameters that the same network without a latent does not have."""
    inputs = {id(p) for p in denoiser.latent_input_weights()} if isinstance(denoiser, TakesOver) else set()
    return {
        name
        for name, parameter in denoiser.named_parameters()
        if id(parameter) in inputs or name.split(".")[0] == "latent" or ".latent." in name
    }


def _described(missing: Sequence[str], extra: Sequence[str], wrong: Sequence[str]) -> str:
    def listed(names: Sequence[str]) -> str:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return ", ".join(names[:3]) + more

    parts = {"missing": missing, "unknown": extra, "of another shape": wrong}
    return "; ".join(f"{what}: {listed(names)}" for what, names in parts.items() if names)
