"""What the tests of several networks share."""

import torch
from torch import Tensor, nn


def awaken(network: nn.Module) -> None:
    """Draw the weights that start at zero, as if the network had been trained for a while."""
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.normal_(std=0.3)


def weights_of(network: nn.Module, part: str = "") -> int:
    """How many numbers the parameters hold whose name contains ``part``."""
    return sum(parameter.numel() for name, parameter in network.named_parameters() if part in name)


def gradients(network: nn.Module) -> list[Tensor]:
    """Of every parameter; all must have one."""
    found = []
    for parameter in network.parameters():
        assert parameter.grad is not None
        found.append(parameter.grad)
    return found
