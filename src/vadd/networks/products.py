"""Linear layers whose large products are computed by oneDNN, on the CPUs on which MKL leaves half of the rate unused.

torch computes products in float32 by MKL, which uses the wide registers (AVX-512) of Intel's CPUs only. On others with
such registers oneDNN, which torch computes convolutions by, takes half the time. Numbers differ in the last bits.
"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEAST = 1 << 21
"""Multiplications from which oneDNN is faster."""


class Linear(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What :func:`torch.nn.functional.linear` computes."""
    if inputs.numel() * len(weight) < LEAST or not by_onednn(inputs, weight):
        return F.linear(inputs, weight, bias)
    rows = inputs.reshape(-1, inputs.shape[-1])
    product: Tensor = (
        _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
        if torch.is_grad_enabled()
        else _product(rows, weight, bias)
    )
    return product.view(*inputs.shape[:-1], -1)


def by_onednn(inputs: Tensor, weight: Tensor) -> bool:
    plain = (
        not torch.compiler.is_compiling()
        and type(inputs) in (Tensor, nn.Parameter)
        and type(weight) in (Tensor, nn.Parameter)
        and inputs.is_cpu
        and inputs.dtype == weight.dtype == torch.float32
        # Who counts operations, or casts them, is to see the usual ones.
        and not torch._C._is_torch_function_mode_enabled()
        and not torch._C._len_torch_dispatch_stack()
        and not torch.is_autocast_enabled("cpu")
    )
    return plain and bool(torch.backends.mkldnn.enabled) and mkl_is_slow()


@cache
def mkl_is_slow() -> bool:
    """Decided by the kind of CPU and not by a trial: results must be the same every time."""
    if not (torch._C.has_mkl and torch._C._has_mkldnn):
        return False
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    try:
        return wide and "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows (M, K), weight (N, K) -> (M, N)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = context.saved_tensors
        of_rows, of_weight, of_bias = context.needs_input_grad
        return (
            _product(gradient, weight.t()) if of_rows else None,
            _product(gradient.t(), rows.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )
