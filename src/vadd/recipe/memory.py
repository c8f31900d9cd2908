"""Whether a training fits into memory, asked before it is started: what does not is refused in one line instead of
taking all that the machine has.

What a training needs at least is counted as ``vadd plan`` does it, which takes seconds. Most recipes are spared that:
they fit by far, as an upper bound from their numbers alone shows.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from vadd.core import Model
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.parallel import Processes
from vadd.recipe import Recipe, flatten
from vadd.recipe.counting import model_on_meta, training_cost
from vadd.recipe.plan import FLOAT32, Layout, count_parameters, training_memory
from vadd.words import size_in_memory

EXAMPLES = 16
"""Counted; the arithmetic on the meta device costs nothing, but masks and latents are real."""
COPIES = 5
"""Of every weight: itself, its gradient, two moments, the average."""
SQUARES, SQUARES_WITH_ATTENTION = 8, 80
"""Upper bounds: weights of a block over its width squared."""
KEPT = 60
"""Likewise: numbers that a block keeps for the backward pass over its width, for every vector that it works on."""
CONTROL_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
LATENTS = ("latent.dim", "latent.codes")
VOCABULARIES = ("data.vocab_size", "data.levels", "data.vocabulary")


def check_memory(recipe: Recipe, format: Kind) -> None:
    """Refuse a training that these processes cannot have the memory for."""
    processes = Processes()
    available = available_memory(processes.device)
    if upper_bound(recipe, format, processes.count) <= available:
        return
    format = replace(format, pad=None)  # whether pads are scored changes nothing here
    model = _counted(recipe, format)
    if model is None:
        raise too_much("more memory than any machine has", available, heaviest_key(recipe, format))
    held = partial(held_bytes, model, recipe, processes)
    if held(0) > available:
        raise too_much(f"at least {size_in_memory(held(0))}", available, heaviest_key(recipe, format))
    each = training_cost(model, recipe, EXAMPLES).remembered
    drawn = drawn_bytes(recipe, format) if processes.device.type == "cpu" else 0
    needed = held(rows_of(recipe, processes.count) * each) + drawn
    if needed > available:
        of_batch = "training.batch" if drawn > available else "training.batch, or raise training.accumulate"
        key = of_batch if held(each) <= available else heaviest_key(recipe, format)
        raise too_much(f"at least {size_in_memory(needed)}", available, key)


def too_much(needed: str, available: int, key: str) -> UserError:
    return UserError(f"this training needs {needed}, and {size_in_memory(available)} are available: lower {key}")


def available_memory(device: torch.device) -> int:
    """Bytes that a process may hope for on its ``device``; on a CPU the processes of a machine share what there is."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    # Inside a container the limit of its control group counts, not the machine's memory.
    there = psutil.virtual_memory().available + psutil.swap_memory().free
    limits = [int(file.read_text()) for file in CONTROL_GROUPS if file.is_file() and file.read_text().strip().isdigit()]
    return int(min([there, *limits])) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def upper_bound(recipe: Recipe, format: Kind, devices: int) -> int:
    """Bytes on one device that a training never exceeds, from the numbers in its recipe."""
    values = format.positions * (format.vocab_size + 1)
    section = recipe.latent
    latent, particles = (
        (section.width(format.shape), section.particles * max(1, section.codes)) if recipe.has_latent else (0, 1)
    )
    networks = [recipe.network.values_of("denoiser")]
    if recipe.has_latent:
        networks.append(recipe.network.values_of("recognizer"))
    weights = kept = 0
    for network in networks:
        width, blocks = _width(network), int(network.get("depth") or network["blocks"]) + 2
        squares, vectors = (SQUARES_WITH_ATTENTION, format.positions) if "heads" in network else (SQUARES, 1)
        features = latent * (1 + 2 * len(network.get("latent_frequencies", ())))
        weights += squares * blocks * width**2 + 4 * width * (values + features)
        kept += KEPT * blocks * vectors * width + 8 * (values + features)
    activations = rows_of(recipe, devices) * particles * kept
    return FLOAT32 * (COPIES * weights + activations) + drawn_bytes(recipe, format)


def _width(network: dict[str, Any]) -> int:
    """The largest number that is not one of blocks; booleans and shares are none."""
    return max(value for name, value in network.items() if type(value) is int and name not in ("depth", "blocks"))


def rows_of(recipe: Recipe, devices: int) -> int:
    """Examples that a device works on at once."""
    return -(-recipe.training.batch // (devices * recipe.training.accumulate))


def drawn_bytes(recipe: Recipe, format: Kind) -> int:
    """What every process draws for the whole batch: coins and masks of all positions, and the noise of the latent."""
    latent = recipe.latent.particles * recipe.latent.size(format.shape) if recipe.has_latent else 0
    return recipe.training.batch * (9 * format.positions + FLOAT32 * latent)


def held_bytes(model: Model, recipe: Recipe, processes: Processes, remembered: float) -> int:
    """Bytes on one device that a training takes at least, where its activations take so many in float32.

    Gradients come when activations go: of the two only the larger counts. Compiled networks may keep half.
    """
    settings, devices = recipe.training, processes.count
    sharded = settings.sharding == "full" or processes.asked_to_shard
    layout: Layout = "one device" if devices == 1 else "full sharding" if sharded else "DDP"
    activations = round(remembered / (2 if settings.compile else 1))
    memory = training_memory(model, activations, devices, layout, settings.precision)
    return memory.total - min(memory.gradients, memory.activations)


def _counted(recipe: Recipe, format: Kind) -> Model | None:
    """The model on the meta device; None where its tensors have more numbers than can be counted."""
    try:
        return model_on_meta(recipe, format)
    except (RuntimeError, TypeError):  # beyond 63 bits, for all numbers together or for one
        return None


def heaviest_key(recipe: Recipe, format: Kind) -> str:
    """The key of the recipe that, halved, saves most weights."""
    found = {}
    for key, value in _sizes(recipe):
        smaller = replace(format, vocab_size=max(2, format.vocab_size // 2)) if key in VOCABULARIES else format
        changed = recipe if key in VOCABULARIES else recipe.with_overrides([f"{key}={value // 2}"])
        try:
            model = _counted(changed, smaller)
        except UserError:  # not every half fits the other keys
            continue
        found[key] = (float("inf") if model is None else count_parameters(model).trained, -value)
    return min(found, key=lambda key: found[key])


def _sizes(recipe: Recipe) -> Iterator[tuple[str, int]]:
    """Keys that say how large networks, latent and vocabulary are."""
    chosen = recipe.network.values_of("denoiser")
    for key, value in flatten(recipe.model_dump(mode="json")):
        size = chosen.get(key.removeprefix("network.")) if value is None else value
        if type(size) is int and size > 1 and (key.startswith("network.") or key in (*LATENTS, *VOCABULARIES)):
            yield key, size
