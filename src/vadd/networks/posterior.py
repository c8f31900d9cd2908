"""The last step of every recognition model."""

import torch
from torch import Tensor


def mean_and_log_std(out: Tensor, low: float = -8.0, high: float = 3.0) -> tuple[Tensor, Tensor]:
    """(..., 2d) -> mean and log standard deviation, (..., d) each.

    A bounded scale keeps one bad step from ending in infinities; no useful posterior comes near the limits.
    """
    mean, log_std = out.chunk(2, dim=-1)
    return mean, torch.clamp(log_std, low, high)
