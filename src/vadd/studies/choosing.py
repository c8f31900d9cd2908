"""What is left open in a recipe, chosen for every model of a table by one rule: some training examples are set aside,
each candidate is trained on the others for the whole time, and the smallest bound of the likelihood of those set aside
wins, over candidates, lengths of the training and grids of the sampler. The final training has all examples again.

OUT/choosing/NAME/chosen.json, and a run for each candidate
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from vadd.core import Particles
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.likelihood import measure_bounds, some_of
from vadd.files import write_json
from vadd.parallel import on_main_process
from vadd.parsing import read_json
from vadd.progress import Progress
from vadd.recipe import Recipe, build_dataset
from vadd.run.directory import RunDirectory, step_of
from vadd.run.loading import load
from vadd.studies.study import Choice
from vadd.studies.trainings import finished_run

LARGEST_SHARE = 0.1
"""Of the training examples, that are set aside."""
WORDS = {"diffusion.weighting": "{} weights", "sampling.grid": "{} grid", "training.steps": "{:,} steps"}
"""How tables name what was chosen."""


def folder_of(path: Path) -> Path:
    """Where the choice for the run in ``path`` is made."""
    return path.parent / "choosing" / path.name


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
    labels = data.train_labels
    divided = (None, None) if labels is None else (labels[rest], labels[aside])
    return replace(
        data, train=data.train[rest], test=data.train[aside], train_labels=divided[0], test_labels=divided[1]
    )


def _tried(
    recipe: Recipe, path: Path, choice: Choice, data: DiscreteDataset, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Every candidate at every length and with every grid, with the nats of the examples that were set aside."""
    for changes in _candidates(recipe, choice):
        name = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items()) or "recipe"
        # Every length has a checkpoint. The prior of a latent is fitted in the final training alone.
        every = max(1, round(recipe.training.steps / choice.lengths))
        saving = {"training.checkpoint_every": every, "training.keep_checkpoints": 2 * choice.lengths}
        normal = {"latent.prior": "normal"} if recipe.has_latent and recipe.latent.prior != "normal" else {}
        place = folder_of(path) / name
        finished_run(recipe.with_values({**changes, **saving, **normal}.items()), place, data=data)
        for length in sorted({step_of(each) for each in RunDirectory(place).checkpoints()}):
            run = load(place, checkpoint=length)
            for grid in choice.grids:
                progress(f"choosing for {path.name}: {name}, {length:,} steps, {grid} grid")
                at_grid = run.with_sampling(grid=grid)
                settings = BoundSettings(Particles(choice.particles), run.possible_steps(choice.steps))
                bounds = measure_bounds(at_grid, data.test, settings).bounds
                nats = sum(bound.nats for bound in bounds) / len(bounds)
                yield {"values": {**changes, "sampling.grid": grid, "training.steps": length}, "nats": nats}


def _candidates(recipe: Recipe, choice: Choice) -> Iterator[dict[str, Any]]:
    """Combinations of the values, without those that the model cannot be trained with."""
    for values in product(*choice.values.values()):
        changes = dict(zip(choice.values, values, strict=True))
        try:
            recipe.with_values(changes.items())
        except UserError:
            continue
        yield changes
