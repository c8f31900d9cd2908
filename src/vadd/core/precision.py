"""Where sums of logarithms are done."""

import torch
from torch import Tensor


def precise(tensor: Tensor) -> Tensor:
    """As float64, wherever the device has it; Apple's GPUs do not."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def at_least_single(tensor: Tensor) -> Tensor:
    """As float32 where a network worked in half precision: logits, losses and KL need more digits than that."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
