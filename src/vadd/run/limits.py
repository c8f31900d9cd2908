"""How many samples fit into memory at once, and which jobs are refused because no machine could finish them."""

import weakref
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vadd.core import Model, Noise
from vadd.core.randomness import BLOCK
from vadd.errors import UserError
from vadd.models import Autoregressive
from vadd.words import duration, size_in_memory

STEPS_PER_SECOND, ROWS_PER_SECOND = 100_000, 10_000_000
"""More than any machine reaches: sampling steps of a chunk, and sequences shown to a network."""
LONGEST = 86_400
"""Seconds. What takes a day at this impossible speed takes months at a real one."""
CPU_MEMORY = 1 << 28
"""Bytes that one chunk's tensors may take on a CPU; kernels and allocators need about as much again."""
CPU_ROWS = 2048
"""Of a chunk: more at once are no faster on a CPU, but slower."""
GPU_SHARE = 0.25
"""Of the memory that is free on a GPU."""
LARGEST_CHUNK = 1 << 20


def check_time(what: str, *, steps: int, rows: int) -> None:
    """Refuse ``what`` needs so many ``steps``, or shows a network so many ``rows``, if that takes absurdly long."""
    # Integers, because a float ends at 10^308.
    least = max(steps // STEPS_PER_SECOND, rows // ROWS_PER_SECOND)
    if least > LONGEST:
        time = duration(least) if least < 10**15 else "longer than the universe is old"
        raise UserError(f"{what} would take at least {time}: ask for less")


def check_held(n: int, positions: int) -> None:
    """Refuse ``n`` samples that do not fit into memory together."""
    needed, available = 8 * n * positions, psutil.virtual_memory().available
    if needed > available:
        raise UserError(
            f"{n:,} samples take {size_in_memory(needed)} of memory, and {size_in_memory(available)} are available: "
            "ask for fewer"
        )


def chunk_size(bytes_of_row: int, model: Model, steps: int, memory: int | None = None) -> int:
    """Rows in a chunk, from what a row takes in the network and in the sampler; whole blocks if it can be.

    ``memory`` in bytes is what a chunk may take, by default what suits the model's device.
    """
    allowed = memory_for_samples(model.device) if memory is None else memory
    # A dozen numbers of 8 bytes for each position (state, plan, keys to sort by), and two for each step.
    row = bytes_of_row + 8 * (12 * model.positions + 2 * (steps + 1))
    size = max(1, allowed // row)
    if model.device.type == "cpu":
        size = min(size, CPU_ROWS)
    # A generator draws for its whole block: a block cut in two would be drawn twice.
    return size - size % BLOCK if size > BLOCK else size


def memory_for_samples(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_MEMORY
    free, _ = torch.cuda.mem_get_info(device)
    return max(CPU_MEMORY, int(GPU_SHARE * free))


@torch.no_grad()
def bytes_per_row(model: Model) -> int:
    """The most that is alive at once while the network predicts one position of one sequence, weights left out, and
    what it remembers of the sequence. More positions cost their logits, which the sampler limits by itself.
    """
    x = torch.full((1, model.positions), model.mask_value, device=model.device)
    t = torch.ones(1, device=model.device)
    where = torch.zeros_like(x, dtype=torch.bool)
    where[0, 0] = True
    z = model.latent.draw(x, t, Noise.of(torch.Generator().manual_seed(0), 1))
    alive = _Alive(model)
    with alive:
        model.predict(x, z, t, where)
    return alive.most + (model.cache_bytes if isinstance(model, Autoregressive) else 0)


class _Alive(TorchFunctionMode):
    """Follows the memory of all tensors that are made in here, by their storages: views share one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.most = 0
        self._now = 0
        weights = [*model.parameters(), *model.buffers()]
        self._known = {tensor.untyped_storage()._cdata for tensor in weights}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        # Else looking at a tensor would be followed as well.
        with torch._C.DisableTorchFunction():
            for tensor in made if isinstance(made, tuple | list) else (made,):
                if isinstance(tensor, Tensor):
                    self._allocated(tensor.untyped_storage())
        self.most = max(self.most, self._now)
        return made

    def _allocated(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self._now += storage.nbytes()
            # Called when the last tensor on this storage is gone.
            weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._now -= size
