"""What a training will take, before it is started: parameters, arithmetic, memory, disk and time.

A training that does not fit into memory is refused in one line. What it needs at least is counted as for a plan, which
takes seconds; most recipes fit by far, as an upper bound from their numbers alone shows.
"""

import math
import os
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import torch

from vadd.core import Model
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.parallel import Processes, default_device, share
from vadd.recipe import counting
from vadd.recipe.recipe import Recipe
from vadd.words import duration, size_in_memory

EXAMPLES = 16
"""Counted to see whether a training fits; masks and latents are real."""
COPIES = 5
"""Of every weight: itself, its gradient, two moments, the average."""
SQUARES, SQUARES_WITH_ATTENTION = 8, 80
"""Upper bounds: weights of a block over its width squared."""
KEPT = 60
"""Likewise: numbers that a block keeps for the backward pass over its width, for every vector that it works on."""
CONTROL_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


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
    parameters: counting.Parameters
    flops_per_step: float
    """Forward and backward of the whole batch, on all devices together."""
    flops_per_sample: int
    """One sampling step of one sample, all positions revealed at once; revealing fewer may take less."""
    memory: tuple[counting.Memory, ...]
    checkpoint_bytes: int
    checkpoints_kept: int
    """At most: the newest ones and the best."""
    rate: float | None
    """FLOP per second and device that ``hours`` assume; None for several devices of which nothing is known."""

    @property
    def hours(self) -> float | None:
        """Arithmetic alone, at ``rate`` on every device all the time."""
        return None if self.rate is None else self.flops_per_step * self.steps / (self.rate * self.devices) / 3600

    @property
    def time(self) -> str:
        return "unknown" if self.hours is None else duration(3600 * self.hours)

    def to_json(self) -> dict[str, Any]:
        content = asdict(self) | {"values": self.vocab_size, "hours": self.hours}
        del content["vocab_size"]  # the key that earlier versions wrote stays
        content["memory"] = [asdict(memory) | {"total": memory.total} for memory in self.memory]
        return content


def make_plan(recipe: Recipe, *, devices: int = 1, rate: float | None = None, kind: Kind | None = None) -> Plan:
    """``rate`` is measured on this machine unless given, for one device; the ``kind`` of the examples is looked up."""
    settings = recipe.training
    if devices < 1:
        raise UserError(f"the number of devices must be at least 1, not {devices}")
    if rate is not None and not 0 < rate < float("inf"):
        raise UserError(f"the rate must be a positive number of FLOP per second, not {rate:g}")
    share(settings.batch, settings.accumulate, 0, devices)  # refuses a batch that cannot be divided
    kind = recipe.data.example_kind() if kind is None else kind
    model = counting.model_on_meta(recipe, kind)
    cost = counting.training_cost(model, recipe)
    rows = rows_of(recipe, devices)
    layouts: tuple[counting.Layout, ...] = ("one device",) if devices == 1 else ("DDP", "full sharding")
    precisions: tuple[counting.Precision, ...] = ("float32", "bfloat16")
    return Plan(
        recipe=recipe.name,
        model=recipe.model,
        shape=kind.shape,
        vocab_size=kind.vocab_size,
        batch=settings.batch,
        accumulate=settings.accumulate,
        steps=settings.steps,
        devices=devices,
        parameters=counting.count_parameters(model),
        flops_per_step=cost.flops * settings.batch,
        flops_per_sample=counting.sampling_flops(model),
        memory=tuple(
            counting.planned_memory(model, recipe, rows, devices, *how) for how in product(layouts, precisions)
        ),
        checkpoint_bytes=counting.checkpoint_bytes(model),
        checkpoints_kept=settings.keep_checkpoints + 1,
        rate=measured_rate() if rate is None and devices == 1 else rate,
    )


def measured_rate(seconds: float = 0.5, size: int = 1024) -> float:
    """FLOP per second of float32 matrix products here: what no training exceeds and good ones reach a part of."""
    factor = torch.ones(size, size, device=default_device())
    products = 0
    float((factor @ factor)[0, 0])  # the first one starts threads and compiles kernels
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        float((factor @ factor)[0, 0])  # reading one number waits for the device
        products += 1
    return 2 * size**3 * products / passed


def check_memory(recipe: Recipe, kind: Kind) -> None:
    """Refuse a training that these processes do not have the memory for."""
    processes = Processes()
    available = available_memory(processes.device)
    if upper_bound(recipe, kind, processes.count) <= available:
        return

    needed, smaller = "more memory than any machine has", "make the network, the latent or the vocabulary smaller"
    try:
        model = counting.model_on_meta(recipe, kind)
    except (RuntimeError, TypeError):  # tensors of more numbers than 63 bits can count
        least = math.inf
    else:
        least = held_bytes(model, recipe, processes, 0)
        if least <= available:
            each = counting.training_cost(model, recipe, EXAMPLES).remembered
            least = needed_bytes(recipe, kind, processes, each)
            smaller = "lower training.batch or the sizes of the network, or raise training.accumulate"
        needed = f"at least {size_in_memory(least)}"
    if least > available:
        raise UserError(f"this training needs {needed}, and {size_in_memory(available)} are available: {smaller}")


def available_memory(device: torch.device) -> int:
    """Bytes that a process may hope for on its ``device``; on a CPU the processes of a machine share what there is."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    # Inside a container the limit of its control group counts, not the machine's memory.
    free = psutil.virtual_memory().available + psutil.swap_memory().free
    limits = [int(file.read_text()) for file in CONTROL_GROUPS if file.is_file() and file.read_text().strip().isdigit()]
    return int(min([free, *limits])) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def upper_bound(recipe: Recipe, kind: Kind, devices: int) -> int:
    """Bytes on one device that a training never exceeds, from the numbers in its recipe."""
    values = kind.positions * (kind.vocab_size + 1)
    parts, latent, particles = ["denoiser"], 0, 1
    if recipe.has_latent:
        section = recipe.latent
        parts.append("recognizer")
        latent, particles = section.width(kind.shape), section.particles * max(1, section.codes)
    weights = kept = 0
    for part in parts:
        network = recipe.network.values_of(part)
        blocks = int(network.get("depth") or network["blocks"]) + 2
        width = max(value for name, value in network.items() if type(value) is int and name not in ("depth", "blocks"))
        squares, vectors = (SQUARES_WITH_ATTENTION, kind.positions) if "heads" in network else (SQUARES, 1)
        features = latent * (1 + 2 * len(network.get("latent_frequencies", ())))
        weights += squares * blocks * width**2 + 4 * width * (values + features)
        kept += KEPT * blocks * vectors * width + 8 * (values + features)
    activations = rows_of(recipe, devices) * particles * kept
    return counting.FLOAT32 * (COPIES * weights + activations) + drawn_bytes(recipe, kind)


def rows_of(recipe: Recipe, devices: int) -> int:
    """Examples that a device works on at once."""
    return -(-recipe.training.batch // (devices * recipe.training.accumulate))


def drawn_bytes(recipe: Recipe, kind: Kind) -> int:
    """What every process draws for the whole batch: coins and masks of all positions, and the noise of the latent."""
    latent = recipe.latent.particles * recipe.latent.size(kind.shape) if recipe.has_latent else 0
    return recipe.training.batch * (9 * kind.positions + counting.FLOAT32 * latent)


def held_bytes(model: Model, recipe: Recipe, processes: Processes, remembered: float) -> int:
    """Bytes on one device that a training takes at least, where its activations take so many in float32.

    Gradients come when activations go: of the two only the larger counts. Compiled networks may keep half.
    """
    settings, devices = recipe.training, processes.count
    sharded = settings.sharding == "full" or processes.asked_to_shard
    layout: counting.Layout = "one device" if devices == 1 else "full sharding" if sharded else "DDP"
    activations = round(remembered / (2 if settings.compile else 1))
    memory = counting.training_memory(model, activations, devices, layout, settings.precision)
    return memory.total - min(memory.gradients, memory.activations)


def needed_bytes(recipe: Recipe, kind: Kind, processes: Processes, each: float) -> int:
    """The same where the backward pass needs ``each`` of one example; what is drawn for a batch lies on the host."""
    drawn = drawn_bytes(recipe, kind) if processes.device.type == "cpu" else 0
    activations = rows_of(recipe, processes.count) * each
    return held_bytes(counting.model_on_meta(recipe, kind), recipe, processes, activations) + drawn
