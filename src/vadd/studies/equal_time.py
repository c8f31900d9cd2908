"""Trainings of equal length in processor time: how many steps a recipe makes in so much of it, measured before it
starts. Seconds on the clock would depend on what else the machine is doing.

A prior that is fitted after the training has its share of the time: see :data:`FIT_SHARE`.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from vadd.core import Model
from vadd.data import DiscreteDataset
from vadd.files import write_json
from vadd.parallel import Processes
from vadd.parsing import read_json
from vadd.progress import Progress
from vadd.recipe import Recipe, build_dataset, differences
from vadd.recipe.loading import how_computed
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, model_label
from vadd.run.directory import RunDirectory, step_of
from vadd.run.run import Run
from vadd.studies.choosing import candidate_runs, chosen_recipe
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.fitting import fitted, trial_trainer
from vadd.studies.study import Choice, Published, Request, Study
from vadd.studies.trainings import finished_run, trainings_of
from vadd.training.loop import Trainer
from vadd.training.prior import JUDGED, posteriors_of
from vadd.training.start import check_trainable

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
ROUNDS = 4
"""Turns of the study of speed: what else the machine does falls on both models alike."""


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
    return timed_run(recipe, path)


def timed_run(recipe: Recipe, path: Path) -> Run:
    """The finished run in ``path``, and what it took beside it: see :func:`processor_seconds`."""
    directory, finished = RunDirectory(path), False
    if directory.is_run():
        finished = directory.recipe().training.steps in map(step_of, directory.checkpoints())
    before, began = processor_seconds(path) or 0.0, time.process_time()
    try:
        return finished_run(recipe, path)
    finally:
        if directory.is_run() and not finished:
            write_json(path / SPENT, {"seconds": before + time.process_time() - began})


def processor_seconds(path: Path) -> float | None:
    """What the training in ``path`` took, its start, its evaluation and the fit of a prior included."""
    try:
        return float(read_json(path / SPENT)["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measure_speed(study: Study, request: Request) -> Result:
    """Steps of both models in turns, on random examples of the recipe's format. With ``fit`` both are computed as it
    takes for the larger one to fit into memory (:mod:`vadd.studies.fitting`).
    """
    recipes = [recipe for recipe, _ in trainings_of(study, request)]
    for recipe in recipes:
        check_trainable(recipe)
    data, processes = _examples(recipes[0]), Processes()
    if request.fit:
        mdlm, vadd = recipes
        chosen = fitted(vadd, data, other=mdlm)
        recipes = [mdlm.with_values((key, new) for key, (_, new) in differences(vadd, chosen).items()), chosen]
    each_round = -(-request.timed_steps // ROUNDS)
    with ExitStack() as stack:
        trainers = [stack.enter_context(trial_trainer(recipe, data)) for recipe in recipes]
        seconds = [0.0 for _ in trainers]
        for turn in range(ROUNDS + 1):  # the first is to warm up
            for number, trainer in enumerate(trainers):
                request.progress(f"round {turn} of {ROUNDS}: {model_label(trainer.recipe.model)}")
                spent = _timed(trainer, turn * each_round, each_round)
                seconds[number] += spent if turn else 0.0
    speeds = [
        {
            "model": recipe.model,
            "recipe": recipe.name,
            "batch": recipe.training.batch,
            "steps": ROUNDS * each_round,
            "steps_per_second": ROUNDS * each_round / passed,
            "device": processes.device.type,
            "processes": processes.count,
            "how_computed": list(how_computed(recipe)),
        }
        for recipe, passed in zip(recipes, seconds, strict=True)
    ]
    section = PageSection("Iterations per second", tables=[speed_table(speeds, study.published)])
    return publish(request.out, Page.of(study), section, speeds)


def _examples(recipe: Recipe) -> DiscreteDataset:
    kind = recipe.data.example_kind()
    generator = torch.Generator().manual_seed(0)
    examples = torch.randint(kind.vocab_size, (recipe.training.batch, kind.positions), generator=generator)
    return DiscreteDataset(recipe.name, kind.vocab_size, kind.shape, examples, examples[:1], pad=kind.pad)


def _timed(trainer: Trainer, first: int, steps: int) -> float:
    began = time.perf_counter()
    for step in range(first, first + steps):
        result = trainer.step(step)
    result.loss.detach().item()  # waits for the device
    return time.perf_counter() - began


def speed_table(speeds: Sequence[dict[str, Any]], published: Published) -> Table:
    """Ours and the paper's, each with its ratio to its own MDLM: the machines are not the same."""
    ours = {model_label(speed["model"]): speed for speed in speeds}
    theirs = {name: value for name, (value, *_) in published.rows.items() if value is not None}
    first = ours["MDLM"]
    rows: list[dict[str, Cell]] = [
        {
            "": name,
            "it/s": f"{speed['steps_per_second']:.3g}",
            "of MDLM's": f"{speed['steps_per_second'] / first['steps_per_second']:.2f}",
            "batch": speed["batch"],
            "devices": f"{speed['processes']} x {speed['device']}",
        }
        for name, speed in ours.items()
    ]
    for name, value in theirs.items():
        papers: dict[str, Cell] = {"it/s": f"{value:.2f}", "of MDLM's": f"{value / theirs['MDLM']:.2f}", "batch": 512}
        rows.append({"": f"{name}, the paper", **papers, "devices": "not said"})
    note = NOTES["speed"].format(**first)
    note += f" Computed with {', '.join(first['how_computed'])}." if first["how_computed"] else ""
    return Table.of("Training speed", rows, note)
