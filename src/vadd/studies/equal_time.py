"""Trainings of equal length in processor time: how many steps a recipe makes in so much of it, measured before it
starts. Seconds on the clock would depend on what else the machine is doing.

A prior that is fitted after the training has its share of the time: see :data:`FIT_SHARE`.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vadd.core import Model
from vadd.data import DiscreteDataset
from vadd.files import write_json
from vadd.parallel import Processes
from vadd.parsing import read_json
from vadd.progress import Progress
from vadd.recipe import Recipe, Training, build_dataset
from vadd.run.directory import RunDirectory, step_of
from vadd.run.run import Run
from vadd.studies.fitting import trial_trainer
from vadd.studies.trainings import finished_run
from vadd.training.optimizer import Ema, Stepper
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
SPENT = "processor-time.json"
READ_TIMED = 2
"""Calls of the recognition model that measure how fast it reads."""


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
    return {
        "training.steps": steps,
        "training.evaluate_every": steps,
        "training.checkpoint_every": max(1, steps // 5),
        "training.keep_checkpoints": 1,
    }


def _fit_in(recipe: Recipe, model: Model, data: DiscreteDataset, seconds: float) -> dict[str, Any]:
    """How many steps the fit of a prior makes in so much processor time, and how many examples it reads before."""
    settings, rows = recipe.latent.flow, recipe.network.rows_at_once
    some = data.train[: READ_TIMED * rows]
    posteriors_of(model, some[:1], rows)
    began = time.process_time()
    posteriors_of(model, some, rows)
    each = (time.process_time() - began) / len(some)
    held_out = min(len(data.test), JUDGED)
    examples = min(max(FEWEST_EXAMPLES, round(READING_SHARE * seconds / each) - held_out), settings.examples)
    with torch.random.fork_rng(devices=[]):
        prior = recipe.latent.build_prior(recipe.network, data.kind, conditional=False).to(model.device)
    stepper = Stepper(prior, Training(learning_rate=settings.learning_rate, clip=5.0), Processes())
    ema = Ema(prior, 0.995)
    hidden = torch.full((settings.batch, model.positions), model.mask_value, device=model.device)
    generator = torch.Generator().manual_seed(recipe.seed)

    def step(number: int) -> None:
        z = torch.randn(1, settings.batch, prior.dim, generator=generator).to(model.device)
        loss = -prior.log_prob(z, hidden).mean() / prior.dim
        stepper.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        ema.update(number, stepper.step(0, loss))

    left = seconds - each * (min(len(data.train), examples) + held_out)
    steps = max(FEWEST_FIT_STEPS, round(left / seconds_each(step, seconds)))
    return {"latent.flow.steps": steps, "latent.flow.examples": examples}


def trained_for(recipe: Recipe, seconds: float, path: Path, progress: Progress) -> Run:
    """The finished run in ``path``. One that was begun before keeps its lengths."""
    directory, finished = RunDirectory(path), False
    if directory.is_run():
        known = directory.recipe()
        flow = known.latent.flow
        lengths = timed(known.training.steps) | {"latent.flow.steps": flow.steps, "latent.flow.examples": flow.examples}
        finished = known.training.steps in map(step_of, directory.checkpoints())
    else:
        progress(f"how fast {recipe.name} {recipe.model} is")
        lengths = lengths_in(recipe, seconds)
    before, began = processor_seconds(path) or 0.0, time.process_time()
    try:
        return finished_run(recipe.with_values(lengths.items()), path)
    finally:
        if directory.is_run() and not finished:
            write_json(path / SPENT, {"seconds": before + time.process_time() - began})


def processor_seconds(path: Path) -> float | None:
    """What the training in ``path`` took, its start, its evaluation and the fit of a prior included."""
    try:
        return float(read_json(path / SPENT)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
