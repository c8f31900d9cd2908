"""Where sums of logarithms are done."""

import torch
from torch import Tensor

from vadd.core.places import Places, Where, has_float64


def precise(tensor: Tensor) -> Tensor:
    """As float64, wherever the device has it."""
    return tensor.double() if has_float64(tensor.device) else tensor


def at_least_single(tensor: Tensor) -> Tensor:
    """As float32 where a network worked in half precision: logits, losses and KL need more digits than that."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def summed_by_row(each: Tensor, where: Where) -> Tensor:
    """Numbers (M,) at the true entries of ``where`` (B, N), added up for every row: (B,)."""
    places = Places.of(where)
    # Long sums of logarithms: float64 where nothing is trained on them.
    each = each if each.requires_grad else precise(each)
    return each.new_zeros(places.batch).index_add(0, places.rows, each)
