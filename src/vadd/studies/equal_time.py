"""Trainings of equal length in processor time: how many steps a recipe takes in so much of it, measured before it
starts. Seconds on the clock would depend on what else the machine is doing.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from vadd.building import build_dataset
from vadd.progress import Progress
from vadd.recipe import Recipe
from vadd.runs.layout import RunDirectory
from vadd.runs.run import Run
from vadd.studies.ensure import ensure_trained
from vadd.training.loop import Trainer

WARM_UP, TIMED = 3, 20
"""Steps of the pilot; the first ones are slower."""
SECONDS_TIMED = 2.0
"""The pilot goes on until it has taken so long."""
LONGEST_PILOT = 0.1
"""Of the training; slow networks are timed by fewer steps."""


def steps_of(step: Callable[[int], object], seconds: float) -> int:
    """How many times ``step``, which is told its number, can be called in so much processor time."""
    for number in range(WARM_UP):
        step(number)
    began, taken, spent = time.process_time(), 0, 0.0
    while taken < 1 or (spent < LONGEST_PILOT * seconds and (taken < TIMED or spent < SECONDS_TIMED)):
        step(WARM_UP + taken)
        taken += 1
        spent = time.process_time() - began
    return max(1, round(seconds * taken / spent))


def steps_in(recipe: Recipe, seconds: float) -> int:
    """How many training steps take so much processor time here, from a pilot of a few."""
    with TemporaryDirectory() as place:
        directory = RunDirectory(Path(place) / "pilot")
        directory.create(recipe)
        return steps_of(Trainer(recipe, directory, build_dataset(recipe)).step, seconds)


def timed_recipe(recipe: Recipe, steps: int) -> Recipe:
    """With so many steps, judged and saved seldom: that takes time too."""
    seldom = max(1, steps // 5)
    changes = {"steps": steps, "evaluate_every": seldom, "checkpoint_every": seldom, "keep_checkpoints": 1}
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})


def trained_for(recipe: Recipe, seconds: float, path: Path, progress: Progress) -> Run:
    """The finished run in ``path``. One that was begun before keeps its number of steps."""
    directory = RunDirectory(path)
    if directory.is_run():
        steps = directory.recipe().training.steps
    else:
        progress(f"how fast {recipe.name} {recipe.model} is")
        steps = steps_in(recipe, seconds)
    return ensure_trained(timed_recipe(recipe, steps), path)
