"""The processes that train together: one, or several started with ``torchrun`` or ``accelerate launch``.

Only the main one writes and speaks. What all must do alike (stopping, saving) is agreed on.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

import torch
import torch.distributed as dist
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, broadcast_object_list
from torch import Tensor, nn

from vadd.errors import UserError


class Processes:
    def __init__(self) -> None:
        self._accelerator = Accelerator(
            cpu=_several_on_cpu(),
            mixed_precision="no",  # the loop does that itself, so that losses stay float32
            kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
        )
        self.device: torch.device = self._accelerator.device
        self.index: int = self._accelerator.process_index
        self.count: int = self._accelerator.num_processes
        self.is_main: bool = self._accelerator.is_main_process
        self.asked_to_shard = self._accelerator.distributed_type == DistributedType.FSDP
        """By ``accelerate launch --use_fsdp`` or its configuration file."""
        # Flags are agreed on between the hosts, without waiting for the devices.
        self._hosts = dist.new_group(backend="gloo") if self.count > 1 and self.device.type != "cpu" else None

    def wrap(self, model: nn.Module) -> nn.Module:
        """``model`` so that a backward pass through it averages the gradients of all processes."""
        return cast(nn.Module, self._accelerator.prepare_model(model))

    def without_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:
        """In here gradients are collected, not averaged yet."""
        no_sync = getattr(wrapped, "no_sync", None)
        return nullcontext() if no_sync is None else cast(AbstractContextManager[object], no_sync())

    def share(self, total: int, parts: int = 1) -> list[slice]:
        """The rows of this process in a batch of ``total``, in ``parts`` of equal size."""
        return share(total, parts, self.index, self.count)

    def padded_share(self, total: int) -> Tensor:
        """The rows of this process among ``total``, as many for every process; the last row fills up."""
        return padded_share(total, self.index, self.count)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """The rows of all processes that have computed their :meth:`padded_share`: (total, ...)."""
        return cast(Tensor, self._accelerator.gather(rows.contiguous()))[:total] if self.count > 1 else rows

    def sum(self, tensor: Tensor) -> Tensor:
        return cast(Tensor, self._accelerator.reduce(tensor, "sum")) if self.count > 1 else tensor

    def any(self, *flags: bool) -> list[bool]:
        """Whether any process raises each of the flags; all must ask together."""
        if self.count == 1:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=self._hosts)
        return [bool(flag) for flag in raised]


def share(total: int, parts: int, process: int, processes: int) -> list[slice]:
    pieces = processes * parts
    if total % pieces:
        raise UserError(
            f"training.batch={total} must be divisible by {processes} processes x "
            f"training.accumulate={parts} = {pieces}"
        )
    size = total // pieces
    return [slice(size * piece, size * (piece + 1)) for piece in range(process * parts, (process + 1) * parts)]


def padded_share(total: int, process: int, processes: int) -> Tensor:
    size = -(-total // processes)
    return (torch.arange(size) + process * size).clamp(max=total - 1)


def _several_on_cpu() -> bool:
    """Accelerate wants to be told: without it, processes without a GPU would each train alone."""
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return launched and not torch.cuda.is_available() and not torch.xpu.is_available()


def on_main_process(action: Callable[[], object]) -> None:
    """Do it on the main process while the others wait; where it fails there, it fails everywhere."""
    failure: list[str | None] = [None]
    if PartialState(cpu=_several_on_cpu()).is_main_process:
        try:
            action()
        except UserError as error:
            failure = [str(error)]
        except OSError as error:
            failure = [f"{error.filename or 'the system'}: {error.strerror or error}"]
    broadcast_object_list(failure)
    if failure[0] is not None:
        raise UserError(failure[0])


@contextmanager
def held_by_main_process(resource: AbstractContextManager[object]) -> Iterator[None]:
    """The main process enters ``resource``; where it cannot, nobody goes on."""
    on_main_process(resource.__enter__)
    try:
        yield
    finally:
        if PartialState().is_main_process:
            resource.__exit__(None, None, None)


def leave() -> None:
    """At the end of a command."""
    PartialState().destroy_process_group()
