"""Weights divided among processes (FSDP2), and back into whole ones.

Every process holds a part of every parameter, a ``DTensor``. The optimiser and the averaged weights work on the parts,
which are plain tensors; the networks gather whole blocks as they need them. Checkpoints know nothing of it: they hold
whole tensors. All functions leave plain tensors as they are.

What this imports of torch takes seconds to load, so it is imported where weights are really divided.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from vadd.core import Model

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def shard(model: Model, device: torch.device, processes: int) -> None:
    """Divide the parameters of ``model`` in place, block by block: the members of every ``ModuleList`` are blocks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (processes,))
    blocks = [block for part in model.modules() if isinstance(part, nn.ModuleList) for block in part]
    # The averaged model never sees a backward pass, which would drop the gathered weights: drop them after the forward.
    for module in (*blocks, model):
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
    # Weights are gathered for ``forward`` only, unless another method is registered as an entry.
    register_fsdp_forward_method(model, "posterior")


def local(tensor: Tensor) -> Tensor:
    """The part that lives in this process; shares memory."""
    return tensor.to_local() if _is_divided(tensor) else tensor


def whole(part: Tensor, like: Tensor) -> Tensor:
    """The whole of which every process holds a ``part``, divided as ``like`` is. All processes must ask together."""
    if not _is_divided(like) or part.dim() == 0:
        return part
    from torch.distributed.tensor import DTensor

    divided = DTensor.from_local(local(part), like.device_mesh, like.placements, shape=like.shape, stride=like.stride())
    return divided.full_tensor()


def whole_state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The state of ``model`` under its names, one whole tensor after the other."""
    for name, value in model.state_dict().items():
        yield name, whole(value, value)


def part_of(full: Tensor, like: Tensor) -> Tensor:
    """This process's part of ``full``, divided as ``like`` is."""
    if not _is_divided(like) or full.dim() == 0:
        return full
    from torch.distributed.tensor import distribute_tensor

    # Every process has the whole tensor: nothing needs to be sent.
    return distribute_tensor(full, like.device_mesh, like.placements, src_data_rank=None).to_local()


def _is_divided(tensor: Tensor) -> "TypeGuard[DTensor]":
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)
