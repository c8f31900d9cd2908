"""``--fit``: choose accumulation, precision and checkpointing so that a training fits into the memory that is there.

None of them changes what is learnt. The choice is made by the counts of ``vadd plan`` and then proved by a trial step.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.parallel import Processes
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.recipe.counting import model_on_meta, training_cost
from vadd.recipe.loading import how_computed
from vadd.recipe.plan import available_memory, drawn_bytes, held_bytes, rows_of
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer
from vadd.words import size_in_memory

ENOUGH_ROWS = 8
"""Examples at once that keep a device busy; fewer only where nothing else fits."""
RESERVE = 1.25
"""Allocators and temporary results need more than is counted."""
COUNTED = 8
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def fitted(recipe: Recipe, data: DiscreteDataset, other: Recipe | None = None) -> Recipe:
    """The recipe, changed only in how it is computed, so that it fits, also together with the weights of an ``other``
    training; prints what it chose.
    """
    processes = Processes()
    available = available_memory(processes.device)
    if other is not None:
        weights = held_bytes(model_on_meta(other, replace(data.kind, pad=None)), other, processes, 0)
        available = max(0, available - weights)
    counted: dict[bool, float] = {}  # by checkpointing: counting takes seconds for large networks
    for choice in choices(recipe, processes):
        again = bool(getattr(choice.network, "checkpointing", False))
        if again not in counted:
            counted[again] = bytes_of_example(choice, data.kind)
        needed = needed_bytes(choice, data.kind, processes, counted[again])
        # All processes choose alike, whatever each has.
        if processes.any(RESERVE * needed > available)[0]:
            continue
        if trial_step(choice, data):
            chosen = [key for key in how_computed(choice) if key not in how_computed(recipe)]
            if chosen and processes.is_main:
                warn(
                    f"{recipe.name} {recipe.model} fits into {size_in_memory(available)} with {', '.join(chosen)}: "
                    f"{size_in_memory(needed)} counted, and a trial step was taken"
                )
            return choice
    raise UserError(
        f"{recipe.name} {recipe.model} does not fit into the {size_in_memory(available)} that are available, not with "
        "bfloat16, checkpointing and one example at a time; take more devices with training.sharding=full"
    )


def choices(recipe: Recipe, processes: Processes) -> Iterator[Recipe]:
    """The cheapest first: parts of a batch, then bfloat16 where devices are made for it, then checkpointing."""
    ways: list[list[str]] = [[]]
    if processes.device.type == "cuda":
        ways.append(["training.precision=bfloat16"])
    if "checkpointing" in type(recipe.network).model_fields:
        ways.append([*ways[-1], "network.checkpointing=true"])
    batch = recipe.training.batch // processes.count
    parts = [count for count in range(recipe.training.accumulate, batch + 1) if batch % count == 0]
    for few in (False, True):
        for way in ways:
            for count in parts:
                if (batch // count < ENOUGH_ROWS and count != parts[0]) is few:
                    yield recipe.with_overrides([*way, f"training.accumulate={count}"])


def bytes_of_example(recipe: Recipe, kind: Kind) -> float:
    """What the backward pass needs of one example, in float32."""
    return training_cost(model_on_meta(recipe, replace(kind, pad=None)), recipe, COUNTED).remembered


def needed_bytes(recipe: Recipe, kind: Kind, processes: Processes, each: float) -> int:
    """On one device, as ``vadd plan`` counts; what is drawn for the whole batch lies on the host."""
    kind = replace(kind, pad=None)  # whether pads are scored changes nothing here
    model = model_on_meta(recipe, kind)
    drawn = drawn_bytes(recipe, kind) if processes.device.type == "cpu" else 0
    return held_bytes(model, recipe, processes, rows_of(recipe, processes.count) * each) + drawn


def trial_step(recipe: Recipe, data: DiscreteDataset) -> bool:
    """Whether one step of the training finds the memory it needs, in all processes."""
    with trial_trainer(recipe, data) as trainer:
        attempts: list[Callable[[], object]] = [lambda: trainer.step(0).loss.detach().item()]
        if trainer.wrapped is not trainer.model:
            # A process that fails within a step leaves the others waiting for its gradient, so each goes forward and
            # back by itself first. With full sharding none can: the weights are divided.
            attempts.insert(0, trainer.trial)
        return not any(trainer.processes.any(not _finds_memory(attempt))[0] for attempt in attempts)


@contextmanager
def trial_trainer(recipe: Recipe, data: DiscreteDataset) -> Iterator[Trainer]:
    """A training in a directory that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder) / "trial")
        directory.create(recipe)
        try:
            yield Trainer(recipe, directory, data)
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _finds_memory(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in OUT_OF_MEMORY):
            raise
        return False
    return True
