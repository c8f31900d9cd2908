"""Processes that share work: one, or several started with ``torchrun`` or ``accelerate launch``.

Training, evaluation and sampling divide their work through :class:`Processes`; only the main one writes and prints.
Stopping and saving are agreed on by all. A single process never imports what connects processes: it takes a second.
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vadd.errors import UserError
from vadd.words import first_line


def process_count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process is the one that writes."""
    return os.environ.get("RANK", "0") == "0"


def default_device() -> torch.device:
    """Where models are loaded to: Apple's GPUs have no float64, which exact draws and bounds need."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def chosen_device(device: "str | torch.device | None") -> torch.device:
    """The device of that name; by default :func:`default_device`. One that is not here is refused in one line."""
    if device is None:
        return default_device()
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).sum().item()  # a name is always possible: only use tells
    except (RuntimeError, AssertionError, TypeError, ImportError, AttributeError) as error:
        raise UserError(f"the device {str(device)!r} cannot be used here: {first_line(error)}") from None
    return chosen


def accelerator_device() -> torch.device:
    """Where a single process trains."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


HALF_PRECISION = "import torch; torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)"


@cache
def check_half_precision(device: torch.device) -> None:
    """Refuse devices that do not compute in bfloat16, or only by emulating it.

    Some virtual machines announce AMX and then refuse its instructions: a process that uses them ends by a signal,
    without a word. So another process tries first.
    """
    if device.type != "cpu":
        try:
            if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
                raise TypeError("it would be emulated")
            square = torch.ones(8, 8, dtype=torch.bfloat16, device=device)
            float((square @ square).sum())
        except (RuntimeError, TypeError, NotImplementedError) as error:
            why = f"leave training.precision=bfloat16 out ({first_line(error)})"
            raise UserError(f"the device {device} has no bfloat16; {why}") from None
    if device.type == "cpu" and subprocess.run([sys.executable, "-c", HALF_PRECISION]).returncode < 0:
        raise UserError(
            "this processor announces instructions for bfloat16 that it does not have; leave "
            "training.precision=bfloat16 out, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"
        )


WAIT, LONGEST_WAIT = "VADD_TIMEOUT", 1800
"""An environment variable, and its default: the seconds that a process waits for the others, at most."""
LATEST = 60.0
"""Seconds until a network file system shows on one host what another has written, at most."""


def longest_wait() -> float:
    said = os.environ.get(WAIT, str(LONGEST_WAIT))
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UserError(f"{WAIT} is a number of seconds above 0, not {said!r}")
    return seconds


@contextmanager
def _one_line_for_absent_processes() -> Iterator[None]:
    try:
        yield
    except (dist.DistStoreError, dist.DistNetworkError):
        place = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
        raise UserError(
            f"not all of {process_count()} processes came to {place} within {longest_wait():g} seconds ({WAIT}): "
            "is every host running the command, and can it reach that address?"
        ) from None


@contextmanager
def one_line_for_lost_processes() -> Iterator[None]:
    """torch has no class of its own for what gloo reports; it names the file that noticed."""
    try:
        yield
    except RuntimeError as error:
        if process_count() == 1 or not (isinstance(error, dist.DistBackendError) or "gloo" in str(error)):
            raise
        raise UserError(
            "the connection to another process was lost, or it did not answer for "
            f"{longest_wait():g} seconds ({WAIT}); the output of the other hosts may say why. "
            "vadd train --resume goes on from the newest checkpoint"
        ) from None


class Processes:
    """All processes of a command, as one of them sees them; making one waits until all processes have come."""

    def __init__(self, device: torch.device | None = None) -> None:
        """``device`` is where a single process works; several have theirs from what started them."""
        self._accelerator: Any = None
        self.index, self.count, self.device = 0, 1, device or accelerator_device()
        self.asked_to_shard = False
        """By ``accelerate launch --use_fsdp`` or its configuration file."""
        if process_count() > 1 or any(name.startswith("ACCELERATE_") for name in os.environ):
            from accelerate import Accelerator
            from accelerate.utils import DistributedDataParallelKwargs, DistributedType, InitProcessGroupKwargs

            no_gpu = not torch.cuda.is_available() and not torch.xpu.is_available()
            patience = InitProcessGroupKwargs(timeout=timedelta(seconds=longest_wait()))
            with _one_line_for_absent_processes():
                self._accelerator = Accelerator(
                    cpu=process_count() > 1 and no_gpu,  # otherwise processes without a GPU would each train alone
                    mixed_precision="no",  # the loop does that itself, so that losses stay float32
                    kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True), patience],
                )
            self.device = self._accelerator.device
            self.index, self.count = self._accelerator.process_index, self._accelerator.num_processes
            self.asked_to_shard = self._accelerator.distributed_type == DistributedType.FSDP
        self.is_main = self.index == 0
        # Flags and samples go between the hosts, without waiting for the devices.
        self._hosts = dist.new_group(backend="gloo") if self.count > 1 and self.device.type != "cpu" else None

    def check_agreement(self, what: str, content: str, advice: str = "give all of them the same command") -> None:
        """Refuse processes that were started with different ``content``; all must ask together."""
        if self.count == 1:
            return
        digest = int.from_bytes(hashlib.sha256(content.encode()).digest()[:7], "big")
        same = int(self.from_main(torch.tensor([digest]) if self.is_main else None, (1,))) == digest
        if self.any(not same)[0]:
            raise UserError(f"the processes were started with different {what}: {advice}")

    def check_shared(self, file: Path, content: str) -> None:
        """Refuse a ``file`` of the main process that others do not see, or beside which they find other ``content``."""
        end = time.monotonic() + min(LATEST, longest_wait() / 2)
        while self.count > 1 and not file.exists() and time.monotonic() < end:
            time.sleep(0.5)
        advice = f"put {file.parent} on a file system that all hosts share"
        self.check_agreement("run directories", f"{file.exists()} {content}", advice)

    # Training

    def wrap(self, model: nn.Module) -> nn.Module:
        """``model`` so that a backward pass through it averages the gradients of all processes."""
        return model if self.count == 1 else cast(nn.Module, self._accelerator.prepare_model(model))

    def without_sync(self, wrapped: nn.Module) -> AbstractContextManager[object]:
        """In here gradients are collected, not averaged yet."""
        no_sync = getattr(wrapped, "no_sync", None)
        return nullcontext() if no_sync is None else cast(AbstractContextManager[object], no_sync())

    def share(self, total: int, parts: int = 1) -> list[slice]:
        """The rows of this process in a batch of ``total``, in ``parts`` of equal size."""
        return share(total, parts, self.index, self.count)

    # Numbers that all processes get

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
        # As integers: not every backend reduces booleans.
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, op=dist.ReduceOp.MAX, group=self._hosts)
        return [bool(flag) for flag in raised]

    def in_shares(self, sizes: Sequence[int], work: Callable[[int], Tensor]) -> Tensor:
        """The numbers that pieces of work give, one after the other: (sum of ``sizes``,) float64.

        ``work(number)`` gives the ``sizes[number]`` numbers of a piece and must not depend on the others. Of n
        processes each does every n-th; all get all numbers, the very bits that a single process computes.
        """
        pieces = [
            work(number).double() if number % self.count == self.index else torch.zeros(size).double()
            for number, size in enumerate(sizes)
        ]
        # Exactly one process has something other than 0 in each place: the sum changes no bit.
        return self.sum(torch.cat(pieces).to(self.device)).cpu() if self.count > 1 else torch.cat(pieces)

    # Integers that the main process collects

    def to_main(
        self, owner: int, tensors: Sequence[Tensor] | None, shapes: Sequence[Sequence[int]]
    ) -> list[Tensor] | None:
        """Tensors of the process ``owner``, int64 on the CPU, in the main one, which knows only their ``shapes``; None
        in all others.
        """
        if tensors is None:
            tensors = [torch.zeros(tuple(shape), dtype=torch.int64) for shape in shapes]
        for tensor in tensors if owner > 0 and self.index in (0, owner) else ():
            if self.is_main:
                dist.recv(tensor, src=owner, group=self._hosts)
            else:
                dist.send(tensor.contiguous(), dst=0, group=self._hosts)
        return list(tensors) if self.is_main else None

    def from_main(self, rows: Tensor | None, shape: Sequence[int]) -> Tensor:
        """Integers of the main process in all of them; the others know only their ``shape``."""
        held = torch.zeros(*shape, dtype=torch.int64) if rows is None else rows.to(torch.int64).cpu().contiguous()
        if self.count > 1:
            dist.broadcast(held, src=0, group=self._hosts)
        return held


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


def on_main_process(action: Callable[[], object]) -> None:
    """Do it on the main process while the others wait; where it fails there, it fails everywhere."""
    if process_count() == 1:
        action()
        return
    from accelerate.utils import broadcast_object_list

    failure: list[str | None] = [None]
    if Processes().is_main:
        try:
            action()
        except UserError as error:
            failure = [str(error)]
        except OSError as error:
            failure = [f"{error.filename or 'the system'}: {error.strerror or error}"]
    # Sent also where nothing failed: the others wait for it.
    broadcast_object_list(failure)
    if failure[0] is not None:
        raise UserError(failure[0])


@contextmanager
def held_by_main_process(resource: AbstractContextManager[object]) -> Iterator[None]:
    """The main process enters ``resource``; where it cannot, all stop."""
    on_main_process(resource.__enter__)
    try:
        yield
    finally:
        if is_main():
            resource.__exit__(None, None, None)


def leave() -> None:
    """At the end of a command."""
    if process_count() > 1 and dist.is_initialized():
        dist.destroy_process_group()
