"""What a training will take, before it is started: parameters, arithmetic, memory, disk and time."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import nn

from vadd.core import Model
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.parallel import default_device
from vadd.recipe import Recipe
from vadd.recipe.building import example_kind
from vadd.recipe.counting import checkpoint_bytes, model_on_meta, sampling_flops, training_cost

FLOAT32 = 4
BFLOAT16 = 2

Precision = Literal["float32", "bfloat16"]
Layout = Literal["one device", "DDP", "full sharding"]


@dataclass(frozen=True)
class Parameters:
    denoiser: int
    """All that sampling uses."""
    recognition: int
    trained: int


@dataclass(frozen=True)
class Memory:
    """Bytes on one device during training, by what they hold."""

    layout: Layout
    precision: Precision
    weights: int
    gradients: int
    moments: int
    """The two running means of Adam."""
    averaged: int
    gathered: int
    """Full sharding: the weights outside the blocks and of two blocks, with the gradients of one and of those
    outside.
    """
    copies: int
    """Weights in bfloat16, which autocast makes and the backward pass needs."""
    activations: int
    """An estimate: what autograd saves, half of it in bfloat16; allocators and temporary results need more."""

    @property
    def total(self) -> int:
        parts = (self.weights, self.gradients, self.moments, self.averaged)
        return sum(parts) + self.gathered + self.copies + self.activations


@dataclass(frozen=True)
class Plan:
    recipe: str
    model: str
    shape: tuple[int, ...]
    vocab_size: int
    batch: int
    accumulate: int
    steps: int
    devices: int
    parameters: Parameters
    flops_per_step: float
    """Forward and backward of the whole batch, on all devices together."""
    flops_per_sample: int
    """One sampling step of one sample, all positions revealed at once; revealing fewer may take less."""
    memory: tuple[Memory, ...]
    checkpoint_bytes: int
    checkpoints_kept: int
    """At most: the newest ones and the best."""
    rate: float
    """FLOP per second and device that ``hours`` assume."""

    @property
    def hours(self) -> float:
        """Arithmetic alone, at ``rate`` on every device all the time."""
        return self.flops_per_step * self.steps / (self.rate * self.devices) / 3600

    def to_json(self) -> dict[str, Any]:
        content = asdict(self) | {"values": self.vocab_size, "hours": self.hours}
        del content["vocab_size"]  # the key that earlier versions wrote stays
        content["memory"] = [asdict(memory) | {"total": memory.total} for memory in self.memory]
        return content


def make_plan(recipe: Recipe, *, devices: int = 1, rate: float | None = None, format: Kind | None = None) -> Plan:
    """``rate`` is measured on this machine unless given; the ``format`` of the examples is looked up."""
    settings = recipe.training
    if devices < 1:
        raise UserError(f"the number of devices must be at least 1, not {devices}")
    if rate is not None and not 0 < rate < float("inf"):
        raise UserError(f"the rate must be a positive number of FLOP per second, not {rate:g}")
    if settings.batch % (devices * settings.accumulate):
        raise UserError(
            f"training.batch={settings.batch} must be divisible by {devices} devices x "
            f"training.accumulate={settings.accumulate} = {devices * settings.accumulate}"
        )
    format = example_kind(recipe) if format is None else format
    model = model_on_meta(recipe, format)
    parameters = count_parameters(model)
    cost = training_cost(model, recipe)
    activations = round(cost.remembered * settings.batch / (devices * settings.accumulate))
    layouts: tuple[Layout, ...] = ("one device",) if devices == 1 else ("DDP", "full sharding")
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    return Plan(
        recipe=recipe.name,
        model=recipe.model,
        shape=format.shape,
        vocab_size=format.vocab_size,
        batch=settings.batch,
        accumulate=settings.accumulate,
        steps=settings.steps,
        devices=devices,
        parameters=parameters,
        flops_per_step=cost.flops * settings.batch,
        flops_per_sample=sampling_flops(model),
        memory=tuple(
            training_memory(model, activations, devices, layout, precision)
            for layout in layouts
            for precision in precisions
        ),
        checkpoint_bytes=checkpoint_bytes(model),
        checkpoints_kept=settings.keep_checkpoints + 1,
        rate=measured_rate() if rate is None else rate,
    )


def count_parameters(model: Model) -> Parameters:
    assert isinstance(model.denoiser, nn.Module)
    denoiser = _count(model.denoiser.parameters())
    recognition = _count(model.parameters()) - denoiser  # or whatever else learns
    return Parameters(denoiser, recognition, denoiser + recognition)


def training_memory(model: Model, activations: int, devices: int, layout: Layout, precision: Precision) -> Memory:
    """``activations`` are those of one device in float32."""
    total = _count(model.parameters())
    share = -(-total // devices) if layout == "full sharding" else total
    half = precision == "bfloat16"
    return Memory(
        layout=layout,
        precision=precision,
        weights=FLOAT32 * share,
        gradients=FLOAT32 * share,
        moments=2 * FLOAT32 * share,
        averaged=FLOAT32 * share,
        gathered=FLOAT32 * _gathered(model) if layout == "full sharding" else 0,
        # Autocast keeps whole copies, also of weights that are divided among devices.
        copies=BFLOAT16 * total if half else 0,
        activations=activations // 2 if half else activations,
    )


def _gathered(model: Model) -> int:
    """Numbers that full sharding holds whole for a moment; blocks are the members of lists, as in training."""
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    blocks = [_count(block.parameters()) for members in lists for block in members]
    outside = _count(model.parameters()) - sum(blocks)
    return 2 * outside + 3 * max(blocks, default=0)


def _count(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def measured_rate(seconds: float = 0.5, size: int = 1024) -> float:
    """FLOP per second of float32 matrix products here: what no training exceeds and good ones reach a part of."""
    device = default_device()
    factor = torch.ones(size, size, device=device)
    products = 0
    float((factor @ factor)[0, 0])  # the first one starts threads and compiles kernels
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        float((factor @ factor)[0, 0])  # reading one number waits for the device
        products += 1
    return 2 * size**3 * products / passed
