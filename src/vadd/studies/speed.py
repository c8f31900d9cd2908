"""Training speed: iterations per second of MDLM and of VADD, with everything else the same."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from vadd.data import DiscreteDataset
from vadd.parallel import Processes
from vadd.recipe import Recipe, differences
from vadd.recipe.published import how_computed
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, model_label
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.fitting import fitted, trial_trainer
from vadd.studies.study import Published, Request, Study
from vadd.studies.trainings import trainings_of
from vadd.training.loop import Trainer, check_trainable

WARM_UP, ROUNDS = 3, 4
"""Steps before the clock starts, and turns: what else the machine does falls on both models alike."""


def measure_speed(study: Study, request: Request) -> Result:
    """Steps of both models in turns, on random examples of the recipe's format. With ``fit`` both are computed as it
    takes for the larger one to fit into memory (:mod:`vadd.studies.fitting`).
    """
    recipes = [recipe for recipe, _ in trainings_of(study, request)]
    for recipe in recipes:
        check_trainable(recipe)
    data = _examples(recipes[0])
    if request.fit:
        mdlm, vadd = recipes
        chosen = fitted(vadd, data, other=mdlm)
        recipes = [mdlm.with_values((key, new) for key, (_, new) in differences(vadd, chosen).items()), chosen]
    each_round = -(-request.timed_steps // ROUNDS)
    with ExitStack() as stack:
        trainers = [stack.enter_context(trial_trainer(recipe, data)) for recipe in recipes]
        seconds = [0.0 for _ in trainers]
        for trainer in trainers:
            request.progress(f"warming up {model_label(trainer.recipe.model)}")
            _timed(trainer, 0, WARM_UP)
        for turn in range(ROUNDS):
            for number, trainer in enumerate(trainers):
                request.progress(f"round {turn + 1} of {ROUNDS}: {model_label(trainer.recipe.model)}")
                seconds[number] += _timed(trainer, WARM_UP + turn * each_round, each_round)
    speeds = [
        {
            "model": recipe.model,
            "recipe": recipe.name,
            "batch": recipe.training.batch,
            "steps": ROUNDS * each_round,
            "steps_per_second": ROUNDS * each_round / passed,
            "device": Processes().device.type,
            "processes": Processes().count,
            "how_computed": list(how_computed(recipe)),
        }
        for recipe, passed in zip(recipes, seconds, strict=True)
    ]
    section = PageSection("Iterations per second", tables=[speed_table(speeds, study.published)])
    return publish(request.out, Page.of(study), section, speeds)


def _examples(recipe: Recipe) -> DiscreteDataset:
    format = recipe.data.example_kind()
    generator = torch.Generator().manual_seed(0)
    examples = torch.randint(format.vocab_size, (recipe.training.batch, format.positions), generator=generator)
    return DiscreteDataset(recipe.name, format.vocab_size, format.shape, examples, examples[:1], pad=format.pad)


def _timed(trainer: Trainer, first: int, steps: int) -> float:
    began = time.perf_counter()
    for step in range(first, first + steps):
        result = trainer.step(step)
    result.loss.detach().item()  # waits for the device
    return time.perf_counter() - began


def speed_table(speeds: Sequence[dict[str, Any]], published: Published) -> Table:
    """Ours and the paper's, each with its ratio to its own MDLM: the machines are not the same."""
    first = next(speed for speed in speeds if speed["model"] == "mdlm")
    rows: list[list[Cell]] = [
        [
            model_label(speed["model"]),
            f"{speed['steps_per_second']:.3g}",
            f"{speed['steps_per_second'] / first['steps_per_second']:.2f}",
            speed["batch"],
            f"{speed['processes']} x {speed['device']}",
        ]
        for speed in speeds
    ]
    theirs = {name: value for name, (value, *_) in published.rows.items() if value is not None}
    for name, value in theirs.items():
        rows.append([f"{name}, the paper", f"{value:.2f}", f"{value / theirs['MDLM']:.2f}", 512, "not said"])
    note = (
        f"Ours: {first['recipe']}, {first['steps']} steps of each model in turns. The paper's: OpenWebText. Iterations "
        "per second depend on the machine, and the paper does not name its own; the ratios to MDLM are what can be "
        "compared"
    )
    note += "." if first["recipe"] == published.recipe else ", and only for networks of the same size."
    note += f" Computed with {', '.join(first['how_computed'])}." if first["how_computed"] else ""
    return Table("Training speed", ["", "it/s", "of MDLM's", "batch", "devices"], rows, note)
