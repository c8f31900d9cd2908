"""What is left open in a recipe: the length of a training in processor time, and what one rule chooses for every model.

Length: how many steps a recipe makes in so much processor time, measured before it starts. Seconds on the clock would
depend on what else the machine is doing. A prior that is fitted after the training has its share: :data:`FIT_SHARE`.

Choice: some training examples are set aside, each candidate is trained on the others for the whole time, and the
smallest bound of the likelihood of those set aside wins, over candidates, lengths of the training and grids of the
sampler. The final training has all examples again. OUT/choosing/NAME/chosen.json, and a run for each candidate
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from vadd.core import Model, Particles
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.likelihood import measure_bounds, some_of
from vadd.files import write_json
from vadd.parallel import on_main_process
from vadd.parsing import read_json
from vadd.progress import Progress
from vadd.recipe import MODELS, Recipe, build_dataset
from vadd.run.directory import RunDirectory, step_of
from vadd.run.loading import load
from vadd.run.run import Run
from vadd.studies.study import Choice
from vadd.studies.trainings import finished_run, trial_trainer
from vadd.training.prior import JUDGED, posteriors_of

WARM_UP, TIMED = 3, 20
"""Steps of the pilot; the first ones are slower."""
SECONDS_TIMED = 2.0
"""The pilot goes on until it has taken so long."""
LONGEST_PILOT = 0.1
"""Of the training; slow networks are timed by fewer steps."""
FIT_SHARE = 0.2
"""Of the whole time, for a recipe whose prior is learned: reading the examples, and the steps of the fit."""
READING_SHARE = 0.5
"""Of the fit's time, at most: where there are many examples, only so many of them are read."""
FEWEST_FIT_STEPS, FEWEST_EXAMPLES = 50, 1000
LARGEST_SHARE = 0.1
"""Of the training examples, that are set aside."""
WEIGHTING = "diffusion.weighting"
WORDS = {WEIGHTING: "{} weights", "sampling.grid": "{} grid", "training.steps": "{:,} steps"}
"""How tables name what was chosen."""


def seconds_each(step: Callable[[int], object], seconds: float) -> float:
    """Processor time of one call of ``step``, which gets its number; ``seconds`` are those of the whole work."""
    for number in range(WARM_UP):
        step(number)
    began, taken, spent = time.process_time(), 0, 0.0
    while taken < 1 or (spent < LONGEST_PILOT * seconds and (taken < TIMED or spent < SECONDS_TIMED)):
        step(WARM_UP + taken)
        taken += 1
        spent = time.process_time() - began
    return spent / taken


def steps_in(step: Callable[[int], object], seconds: float) -> int:
    """How many times ``step`` can be called in so much processor time."""
    return max(1, round(seconds / seconds_each(step, seconds)))


def lengths_in(recipe: Recipe, seconds: float) -> dict[str, Any]:
    """The values of the recipe that make it take so much processor time here, from a pilot of a few steps."""
    data = build_dataset(recipe)
    fits = recipe.has_latent and recipe.latent.prior != "normal"
    with trial_trainer(recipe, data) as trainer:
        lengths = timed(steps_in(trainer.step, seconds * (1 - FIT_SHARE) if fits else seconds))
        return lengths | (_fit_in(recipe, trainer.ema.averaged, data, seconds * FIT_SHARE) if fits else {})


def timed(steps: int) -> dict[str, Any]:
    """A training of this length, saved seldom and evaluated at the end only: that takes time too."""
    seldom = {"evaluate_every": steps, "checkpoint_every": max(1, steps // 5), "keep_checkpoints": 1}
    return {f"training.{key}": value for key, value in {"steps": steps, **seldom}.items()}


def _fit_in(recipe: Recipe, model: Model, data: DiscreteDataset, seconds: float) -> dict[str, Any]:
    """How many steps the fit of a prior makes in so much processor time, and how many examples it reads before."""
    settings, rows = recipe.latent.flow, recipe.network.rows_at_once
    some = data.train[:rows]
    each = seconds_each(lambda _: posteriors_of(model, some, rows), seconds) / len(some)
    held_out = min(len(data.test), JUDGED)
    examples = min(max(FEWEST_EXAMPLES, round(READING_SHARE * seconds / each) - held_out), settings.examples)
    with torch.random.fork_rng(devices=[]):
        prior = recipe.latent.build_prior(recipe.network, data.kind, conditional=False).to(model.device)
    optimizer = torch.optim.AdamW(prior.parameters(), lr=settings.learning_rate)
    hidden = torch.full((settings.batch, model.positions), model.mask_value, device=model.device)
    z = torch.randn(1, settings.batch, prior.dim, generator=torch.Generator().manual_seed(0)).to(model.device)

    def step(number: int) -> None:
        optimizer.zero_grad()
        (-prior.log_prob(z, hidden).mean() / prior.dim).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    left = seconds - each * (min(len(data.train), examples) + held_out)
    steps = max(FEWEST_FIT_STEPS, round(left / seconds_each(step, seconds)))
    return {"latent.flow.steps": steps, "latent.flow.examples": examples}


def trained_for(recipe: Recipe, seconds: float, path: Path, progress: Progress, choice: Choice | None = None) -> Run:
    """The finished run in ``path``, with what ``choice`` leaves open chosen. One that was begun before keeps its
    lengths.
    """
    candidates = [] if choice is None else candidate_runs(path)
    begun = [directory for directory in (*candidates, RunDirectory(path)) if directory.is_run()]
    if begun:
        known = begun[0].recipe()
        flow = known.latent.flow
        lengths = timed(known.training.steps) | {"latent.flow.steps": flow.steps, "latent.flow.examples": flow.examples}
    else:
        progress(f"how fast {recipe.name} {recipe.model} is")
        lengths = lengths_in(recipe, seconds)
    recipe = recipe.with_values(lengths.items())
    if choice is not None:
        recipe = chosen_recipe(recipe, path, choice, progress)
        recipe = recipe.with_values(timed(recipe.training.steps).items())
    return finished_run(recipe, path)


def default_run(recipe: Recipe, seconds: float, path: Path) -> Run:
    """Trained as long as the default says, at most so many ``seconds`` of processor time."""
    directory = RunDirectory(path)
    if directory.is_run():
        return finished_run(recipe.with_values([("training.steps", directory.recipe().training.steps)]), path)
    with trial_trainer(recipe, build_dataset(recipe)) as trainer:
        steps = min(recipe.training.steps, steps_in(trainer.step, seconds))
    return finished_run(recipe.with_values([("training.steps", steps)]), path)


def folder_of(path: Path) -> Path:
    """Where the choice for the run in ``path`` is made: once for all seeds."""
    return path.parent / "choosing" / path.name.partition("-seed-")[0]


def candidate_runs(path: Path) -> list[RunDirectory]:
    """Those that were begun before."""
    return [RunDirectory(file.parent) for file in sorted(folder_of(path).glob("*/recipe.yaml"))]


def chosen_recipe(recipe: Recipe, path: Path, choice: Choice, progress: Progress) -> Recipe:
    """The recipe of the run in ``path`` with what was chosen for it, now or before."""
    file = folder_of(path) / "chosen.json"
    if not file.is_file():
        if RunDirectory(path).is_run():
            raise UserError(f"{path} was trained without a choice; give --no-choose, or another --out")
        data = build_dataset(recipe)
        aside = some_of(len(data.train), max(1, min(choice.set_aside, int(LARGEST_SHARE * len(data.train)))), seed=1)
        tried = list(_tried(recipe, path, choice, without(data, aside), progress))
        best = min(tried, key=lambda each: each["nats"])
        written = {"chosen": best["values"], "set_aside": len(aside), "tried": tried}
        on_main_process(lambda: write_json(file, written))
    return recipe.with_values(read_json(file)["chosen"].items())


def chosen_words(path: Path) -> str | None:
    """What was chosen for the run in ``path``, for tables; None where nothing was."""
    file = folder_of(path) / "chosen.json"
    if not file.is_file():
        return None
    return ", ".join(WORDS.get(key, key + " {}").format(value) for key, value in read_json(file)["chosen"].items())


def without(data: DiscreteDataset, aside: torch.Tensor) -> DiscreteDataset:
    """The same data with some of the training examples held out, in place of the held-out ones."""
    rest = torch.ones(len(data.train), dtype=torch.bool)
    rest[aside] = False
    parts: dict[str, Any] = {}
    for what in ("", "_labels", "_known"):
        if (train := getattr(data, f"train{what}")) is not None:
            parts |= {f"train{what}": train[rest], f"test{what}": train[aside]}
    return replace(data, **parts)


def _tried(
    recipe: Recipe, path: Path, choice: Choice, data: DiscreteDataset, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Every candidate that the model can be trained with, at every length and with every grid, and the nats of the
    examples that were set aside.
    """
    # Every length has a checkpoint. The prior of a latent is fitted in the final training alone.
    every = max(1, round(recipe.training.steps / choice.lengths))
    fixed: dict[str, Any] = {"training.checkpoint_every": every, "training.keep_checkpoints": 2 * choice.lengths}
    fixed |= {"latent.prior": "normal"} if recipe.has_latent and recipe.latent.prior != "normal" else {}
    keys = [key for key in choice.values if key != WEIGHTING or recipe.weighs_masks]
    for values in product(*(choice.values[key] for key in keys)):
        changes = dict(zip(keys, values, strict=True))
        try:
            recipe.with_values(changes.items())
        except UserError:
            continue
        name = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items()) or "recipe"
        place = folder_of(path) / name
        finished_run(recipe.with_values({**changes, **fixed}.items()), place, data=data)
        lengths = sorted({step_of(each) for each in RunDirectory(place).checkpoints()})
        grids = [{"grid": grid} for grid in choice.grids] if MODELS[recipe.model].chosen_steps else [{}]
        for length, grid in product(lengths, grids):
            progress(f"choosing for {path.name}: {name}, {length:,} steps, {grid.get('grid', 'no')} grid")
            run = load(place, checkpoint=length).with_sampling(**grid)
            settings = BoundSettings(Particles(choice.particles), run.possible_steps(choice.steps))
            bounds = measure_bounds(run, data.test, settings).bounds
            nats = sum(bound.nats for bound in bounds) / len(bounds)
            sampled = {f"sampling.{key}": value for key, value in grid.items()}
            yield {"values": {**changes, **sampled, "training.steps": length}, "nats": nats}
