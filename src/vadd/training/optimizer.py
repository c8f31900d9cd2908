"""The optimiser, its learning rate, steps that are skipped, the moving average of the weights, and weights that are
divided among processes (FSDP2).

Divided, every process holds a part of every parameter, a ``DTensor``. The optimiser and the averaged weights work on
the parts, which are plain tensors; the networks gather whole blocks as they need them. Checkpoints know nothing of it:
they hold whole tensors. All functions leave plain tensors as they are. What they import of torch takes seconds to load,
so it is imported where weights are really divided.
"""

import copy
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from vadd.parallel import Processes
from vadd.recipe import Training

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Model = TypeVar("Model", bound=nn.Module)


def learning_rate(step: int, training: Training) -> float:
    """At ``step`` (counted from 0): a linear warm-up, then constant or a cosine down to zero at the end of the run."""
    warmup = min(1.0, (step + 1) / training.warmup_steps) if training.warmup_steps else 1.0
    if training.learning_rate_schedule == "constant":
        return training.learning_rate * warmup
    return training.learning_rate * warmup * 0.5 * (1 + math.cos(math.pi * step / training.steps))


class Stepper:
    """Clips and steps; a step whose loss or gradient is not finite leaves weights and moments as they are.

    That is decided on the device, in the optimiser's own kernel: the host never waits for the answer.
    """

    def __init__(self, model: nn.Module, training: Training, processes: Processes) -> None:
        self.training = training
        self.processes = processes
        self._sources = dict(model.named_parameters())
        self._parts = {
            name: parameter if local(parameter) is parameter else nn.Parameter(local(parameter.detach()))
            for name, parameter in self._sources.items()
        }
        self._sharded = any(part is not self._sources[name] for name, part in self._parts.items())
        kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
        decay, parts = training.weight_decay, self._parts.values()
        # Fused, one kernel for all parameters: a third of a small model's step otherwise.
        self.optimizer = kind(parts, lr=training.learning_rate, betas=training.betas, weight_decay=decay, fused=True)

    def zero_grad(self) -> None:
        for parameter in self._sources.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self, step: int, loss: Tensor) -> Tensor:
        """After the backward pass of ``loss``. Returns 1 if the step was taken and 0 if not."""
        for name, part in self._parts.items():
            gradient = self._sources[name].grad
            # The optimiser works on plain tensors; a divided gradient must be handed over to them.
            if part is not self._sources[name] and gradient is not None:
                part.grad = local(gradient)
        gradients = [part.grad for part in self._parts.values() if part.grad is not None]
        norm, finite = self._norm(gradients, loss.detach())
        if self.training.clip is not None:
            # By 1 where nothing is to be clipped: to decide that on the host would mean to wait for the device. As in
            # torch.nn.utils.clip_grad_norm_, 1e-6 keeps a norm of 0 harmless.
            torch._foreach_mul_(gradients, torch.clamp(self.training.clip / (norm + 1e-6), max=1.0))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, self.training)
        # The switch by which mixed-precision training skips steps; every fused optimiser has it.
        self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        return finite.float()

    def _norm(self, gradients: list[Tensor], loss: Tensor) -> tuple[Tensor, Tensor]:
        """The norm of the whole gradient, and whether it and every process's loss are finite."""
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.processes.count > 1:
            # With full sharding every process has the norm of its parts only. Otherwise all have the same, averaged
            # gradient, and only the losses differ.
            squares, loss = self.processes.sum(torch.stack([norm.square(), loss]))
            norm = squares.sqrt() if self._sharded else norm
        # The sum is infinite or NaN if either is.
        return norm, torch.isfinite(norm + loss)

    def parts(self) -> Iterable[Tensor]:
        """What lives here of the weights."""
        return self._parts.values()

    def tensors(self) -> Iterable[tuple[str, Tensor]]:
        """The whole state under the names of the parameters it belongs to, ``exp_avg/denoiser.tokens.table`` and
        so on. All processes must ask together.
        """
        for name, part in self._parts.items():
            for key, value in self.optimizer.state.get(part, {}).items():
                yield f"{key}/{name}", whole(value, self._sources[name])

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for full_name, value in tensors.items():
            key, _, name = full_name.partition("/")
            part = self._parts[name]
            # A fused optimiser wants its moments on the parameter's device; ``step`` too.
            self.optimizer.state[part][key] = part_of(value.to(part.device), self._sources[name]).clone()


class Ema(Generic[Model]):
    """The moving average of the weights, which sampling and evaluation use:
    averaged = decay * averaged + (1 - decay) * model.

    Early on the decay is capped at (1 + n) / (10 + n), so that the random initial weights are forgotten at once.
    """

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model = model
        self.averaged: Model = copy.deepcopy(model).requires_grad_(False).eval()

    @cached_property
    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """What lives here of the averaged and of the trained weights; both may be sharded after the copy is made."""
        return [local(p) for p in self.averaged.parameters()], [local(p.detach()) for p in self.model.parameters()]

    @torch.no_grad()
    def update(self, step: int, applied: Tensor | float = 1.0) -> None:
        """After optimisation step number ``step``, counted from 0; with ``applied`` 0 nothing changes."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averaged, trained = self._pairs
        weight = torch.as_tensor(applied, device=averaged[0].device).to(averaged[0].dtype) * (1 - decay)
        # A weight of 0 leaves the average as it is, so a skipped step needs no decision on the host.
        torch._foreach_lerp_(averaged, trained, [weight] * len(averaged))


def shard(model: nn.Module, device: torch.device, processes: int) -> None:
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
