"""Train what is missing: a study that is run again reuses finished runs and continues interrupted ones.

``--fit`` chooses accumulation, precision and checkpointing so that a training fits into the available memory. None
of them changes what is learnt. The choice is made by the counts of ``vadd plan`` and then proved by a trial step.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import torch

from vadd.core import Particles
from vadd.data import DiscreteDataset
from vadd.errors import Interrupted, UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.evaluate import MOST_SAMPLES
from vadd.files import write_json
from vadd.kinds import Kind
from vadd.parallel import Processes, is_main, on_main_process
from vadd.parsing import read_json
from vadd.progress import warn
from vadd.recipe import Recipe, build_dataset, differences, load_recipe
from vadd.recipe.counting import model_on_meta, training_cost
from vadd.recipe.loading import how_computed
from vadd.recipe.plan import available_memory, held_bytes, needed_bytes
from vadd.recipe.recipe import COMPUTING, same_learning
from vadd.run.directory import RunDirectory, step_of
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.run.sampling import SamplingOptions, check_time
from vadd.studies.study import Measuring, Request, Study
from vadd.training.loop import Trainer, train
from vadd.training.prior import fit_priors_of_recipe
from vadd.training.start import check_trainable
from vadd.words import size_in_memory, why_too_large

COMPARED = ("model", "name", "data.kind", "data.name", "latent.prior", "sampling.latent_policy")
"""Keys of the recipe that every study sets itself."""
WITHOUT_IMAGES = ("text", "toy", "copies", "table")
ENOUGH_ROWS = 8
"""Examples at once that keep a device busy; fewer only where nothing else fits."""
RESERVE = 1.25
"""Allocators and temporary results need more than is counted."""
COUNTED = 8
SPENT = "processor-time.json"


def check_overrides(overrides: Iterable[str], fixed: Sequence[str] = (), compared: Sequence[str] = COMPARED) -> None:
    """Refuse what would make the rows of a comparison the same, or change what they are called."""
    for override in overrides:
        key = override.partition("=")[0]
        if key in (*compared, *fixed):
            raise UserError(f"{override} contradicts what is compared: `vadd reproduce` sets {key} for each row itself")


def check_judges(request: Request, recipe: Recipe) -> None:
    """Refuse what evaluates other examples than the recipe's."""
    if request.judge is not None and recipe.data.kind != "text":
        raise UserError(f"--judge reads texts; {recipe.name} has none")
    if request.inception is not None and recipe.data.kind in WITHOUT_IMAGES:
        raise UserError(f"--inception evaluates images; {recipe.name} has none")


def trainings_of(study: Study, request: Request) -> list[tuple[Recipe, Path]]:
    """The recipe and the directory of each training."""
    check_overrides(request.overrides, study.fixed)
    trainings = []
    for entry in study.entries_of(request.setting):
        if entry.control and not request.control:
            continue
        recipe = load_recipe(request.recipe or entry.recipe)
        text = recipe.data.kind == "text"
        if study.only_text and not text:
            raise UserError(f"the recipe {recipe.name} is not one for text; `vadd recipes` lists them")
        if text and request.data is not None and not request.data.exists():
            raise UserError(f"there is no file {request.data}")
        key = "data.path" if text else "data.directory"
        place = [] if request.data is None else [f"{key}={request.data.resolve()}"]
        recipe = recipe.with_overrides([*entry.changes, *place, *request.overrides])
        check_judges(request, recipe)
        if entry.time_ratio != 1 and recipe.network.kind == "short-transformer":
            recipe = recipe.with_values([("training.steps", round(entry.time_ratio * recipe.training.steps))])
        folder = entry.folder.format(name=recipe.name.removesuffix("-paper"), model=recipe.model)
        trainings += [of_seed(recipe, request.out / folder, seed) for seed in range(request.seeds)]
    return trainings


def of_seed(recipe: Recipe, path: Path, number: int) -> tuple[Recipe, Path]:
    """The same training with other random numbers, and its directory."""
    if number == 0:
        return recipe, path
    return recipe.with_values([("seed", recipe.seed + number)]), path.with_name(f"{path.name}-seed-{number}")


def finished_run(recipe: Recipe, path: Path, *, fit: bool = False, data: DiscreteDataset | None = None) -> Run:
    """The run in ``path``, trained if it is missing and continued if it is unfinished; of several processes the main
    one writes, also the processor time that it took. With ``fit`` it is computed so that it fits into memory. It learns
    from ``data``, by default the recipe's.
    """
    directory = RunDirectory(path)

    def check() -> None:
        changes = differences(directory.recipe(), recipe) if directory.is_run() else {}
        if changes := {key: values for key, values in changes.items() if not same_learning(key)}:
            listed = ", ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in changes.items())
            raise UserError(f"{path} was trained with another recipe ({listed}); choose another --out")

    def complete() -> None:
        # How a finished run is sampled may change, how it was computed does not; its prior may be missing.
        computed = {key: old for key, (old, _) in differences(directory.recipe(), recipe).items() if key in COMPUTING}
        directory.write_recipe(recipe.with_values(computed.items()))
        fit_priors_of_recipe(path)

    on_main_process(check)
    if directory.is_run() and recipe.training.steps in map(step_of, directory.checkpoints()):
        on_main_process(complete)
        run = load(path)
        if run.step == recipe.training.steps:  # otherwise the last checkpoint is damaged
            return run
    before, began = processor_seconds(path) or 0.0, time.process_time()
    check_trainable(recipe)
    data = build_dataset(recipe) if data is None else data
    recipe = fitted(recipe, data) if fit else recipe
    on_main_process(lambda: None if directory.is_run() else directory.create(recipe))
    try:
        outcome = train(recipe, directory, data, resume=True)
        if outcome.stopped or not outcome.finished:
            raise Interrupted(f"stopped at step {outcome.step}, saved in {path}")
        on_main_process(lambda: fit_priors_of_recipe(path))
    finally:
        if is_main():
            write_json(path / SPENT, {"seconds": before + time.process_time() - began})
    return load(path)


def processor_seconds(path: Path) -> float | None:
    """What the training in ``path`` took, its start, its evaluation and the fit of a prior included."""
    try:
        return float(read_json(path / SPENT)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measuring_of(study: Study, request: Request) -> Measuring:
    """Refuses what would never end."""
    measuring = study.settings[request.setting].measuring.model_copy(update=dict(request.measuring))
    if measuring.samples > MOST_SAMPLES:
        raise UserError(f"a comparison takes at most {MOST_SAMPLES:,} samples, not {measuring.samples:,}")
    for steps in (*measuring.steps, *measuring.bound_steps):
        SamplingOptions().changed({"steps": steps})
    examples, in_delbo = max(1, measuring.limit), max(measuring.delbo_particles, default=measuring.particles)
    for name, rows in (("step bounds", measuring.particles), ("the DELBO", measuring.draws * in_delbo)):
        check_time(f"{name} of {examples:,} examples", steps=1, rows=rows * examples)
    return measuring


def bound_settings(measuring: Measuring) -> BoundSettings:
    same = measuring.model_dump(include={"delbo_particles", "choose_proposals", "brackets", "paths", "conventions"})
    particles, limit = Particles(measuring.particles), measuring.limit or None
    return BoundSettings(particles, measuring.bound_steps, delbo_draws=measuring.draws, limit=limit, **same)


def fitted(recipe: Recipe, data: DiscreteDataset, other: Recipe | None = None) -> Recipe:
    """The recipe, changed only in how it is computed, so that it fits, also together with the weights of an ``other``
    training; prints what it chose.
    """
    processes = Processes()
    available = available_memory(processes.device)
    if other is not None:
        available = max(0, available - held_bytes(model_on_meta(other, data.kind), other, processes, 0))
    counted: dict[bool, float] = {}  # by checkpointing: counting takes seconds for large networks
    for choice in choices(recipe, processes):
        again = bool(getattr(choice.network, "checkpointing", False))
        if again not in counted:
            counted[again] = bytes_of_example(choice, data.kind)
        needed = needed_bytes(choice, data.kind, processes, counted[again])
        # All processes choose alike, whatever each has.
        if processes.any(RESERVE * needed > available)[0] or not trial_step(choice, data):
            continue
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
    for few, way, count in product((False, True), ways, parts):
        if (batch // count < ENOUGH_ROWS and count != parts[0]) is few:
            yield recipe.with_overrides([*way, f"training.accumulate={count}"])


def bytes_of_example(recipe: Recipe, kind: Kind) -> float:
    """What the backward pass needs of one example, in float32."""
    return training_cost(model_on_meta(recipe, kind), recipe, COUNTED).remembered


def trial_step(recipe: Recipe, data: DiscreteDataset) -> bool:
    """Whether one step of the training finds the memory it needs, in all processes."""

    def finds_memory(attempt: Callable[[], object]) -> bool:
        try:
            attempt()
        except (MemoryError, RuntimeError) as error:
            if why_too_large(error) is None:
                raise
            return False
        return True

    with trial_trainer(recipe, data) as trainer:
        attempts: list[Callable[[], object]] = [lambda: trainer.step(0).loss.detach().item()]
        if trainer.wrapped is not trainer.model or trainer.processes.count == 1:
            # A process that fails within a step leaves the others waiting for its gradient, so each goes forward and
            # back by itself first. With full sharding none can: the weights are divided.
            attempts.insert(0, trainer.trial)
        found = not any(trainer.processes.any(not finds_memory(attempt))[0] for attempt in attempts)
        return found and len(trainer.parts) == recipe.training.accumulate


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
