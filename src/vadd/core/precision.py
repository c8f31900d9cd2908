"""Where sums of logarithms are done."""

from torch import Tensor


def precise(tensor: Tensor) -> Tensor:
    """As float64, wherever the device has it; Apple's GPUs do not."""
    return tensor if tensor.device.type == "mps" else tensor.double()
