"""The one place where attention is computed, by torch's fused kernels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.nn.functional as F
from torch import Tensor

Kernel = Callable[..., Tensor]
"""Queries, keys and values -> what is attended to; for causal attention with the keyword ``is_causal``."""

_kernel: Kernel = F.scaled_dot_product_attention


def attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
    """softmax(query key^T / sqrt(D)) value, all (..., N, D); ``causal``: the n-th query sees the first n keys only."""
    return _kernel(query, key, value, is_causal=True) if causal else _kernel(query, key, value)


@contextmanager
def attention_kernel(kernel: Kernel) -> Iterator[None]:
    """In here attention is computed by ``kernel``, also where blocks are recomputed in a backward pass."""
    global _kernel  # a backward pass runs in other contexts, so a context variable would be lost
    before, _kernel = _kernel, kernel
    try:
        yield
    finally:
        _kernel = before
