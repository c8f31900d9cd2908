"""Training speed: iterations per second of MDLM and of VADD, with everything else the same."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from vadd.data import DiscreteDataset
from vadd.parallel import Processes
from vadd.progress import Progress
from vadd.recipe import Recipe, differences, how_computed
from vadd.recipe.building import example_format
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, model_label
from vadd.run.directory import RunDirectory
from vadd.studies.ensure import both_models
from vadd.studies.fitting import fitted
from vadd.studies.measuring import Scale, command_line
from vadd.studies.paper import TRAINING_SPEED
from vadd.studies.publishing import publish
from vadd.studies.text import RECIPES
from vadd.training.loop import Trainer, check_trainable

WARM_UP, ROUNDS = 3, 4
"""Steps before the clock starts, and turns: what else the machine does falls on both models alike."""
PUBLISHED = "openwebtext"


@dataclass(frozen=True)
class Speed:
    model: str
    recipe: str
    batch: int
    steps: int
    steps_per_second: float
    device: str
    processes: int
    how_computed: tuple[str, ...]


@dataclass(frozen=True)
class Speeds:
    speeds: list[Speed]
    page: Path

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(speed) for speed in self.speeds]


def reproduce_speed(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    recipe: str | None = None,
    steps: int = 20,
    overrides: Sequence[str] = (),
    fit: bool = False,
) -> Speeds:
    """Steps of both models in turns, on random examples of the recipe's format. With ``fit`` both are computed as it
    takes for the larger one to fit into memory (:mod:`vadd.studies.fitting`).
    """
    recipes = both_models(recipe or RECIPES["text"][scale], overrides)
    for each in recipes:
        check_trainable(each)
    data = _examples(recipes[0])
    if fit:
        mdlm, vadd = recipes
        chosen = fitted(vadd, data, beside=mdlm)
        recipes = [mdlm.with_values((key, new) for key, (_, new) in differences(vadd, chosen).items()), chosen]
    with tempfile.TemporaryDirectory() as folder:
        trainers = [_trainer(each, data, Path(folder)) for each in recipes]
        seconds = [0.0 for _ in trainers]
        each_round = -(-steps // ROUNDS)
        for trainer in trainers:
            progress(f"warming up {model_label(trainer.recipe.model)}")
            _timed(trainer, 0, WARM_UP)
        for turn in range(ROUNDS):
            for number, trainer in enumerate(trainers):
                progress(f"round {turn + 1} of {ROUNDS}: {model_label(trainer.recipe.model)}")
                seconds[number] += _timed(trainer, WARM_UP + turn * each_round, each_round)
    taken = ROUNDS * each_round
    speeds = [
        Speed(
            each.model,
            each.name,
            each.training.batch,
            taken,
            taken / passed,
            trainer.device.type,
            Processes().count,
            how_computed(each),
        )
        for each, trainer, passed in zip(recipes, trainers, seconds, strict=True)
    ]
    command = command_line("speed", scale, overrides, {"steps": steps}, recipe=recipe)
    section = PageSection("Iterations per second", tables=[speed_table(speeds)], commands=[command])
    found = Speeds(speeds, out / "report.html")
    publish(out, "Training speed: MDLM and VADD", "Both models in turns, the same batch.", [section], found.to_json())
    return found


def _examples(recipe: Recipe) -> DiscreteDataset:
    format = example_format(recipe)
    generator = torch.Generator().manual_seed(0)
    examples = torch.randint(format.vocab_size, (recipe.training.batch, format.positions), generator=generator)
    return DiscreteDataset(recipe.name, format.vocab_size, format.shape, examples, examples[:1], pad=format.pad)


def _trainer(recipe: Recipe, data: DiscreteDataset, folder: Path) -> Trainer:
    directory = RunDirectory(folder / recipe.model)
    directory.create(recipe)
    return Trainer(recipe, directory, data)


def _timed(trainer: Trainer, first: int, steps: int) -> float:
    began = time.perf_counter()
    for step in range(first, first + steps):
        result = trainer.step(step)
    result.loss.detach().item()  # waits for the device
    return time.perf_counter() - began


def speed_table(speeds: Sequence[Speed]) -> Table:
    """Ours and the paper's, each with its ratio to its own MDLM: the machines are not the same."""
    first = next(speed for speed in speeds if speed.model == "mdlm")
    rows: list[list[Cell]] = [
        [
            model_label(speed.model),
            f"{speed.steps_per_second:.3g}",
            f"{speed.steps_per_second / first.steps_per_second:.2f}",
            speed.batch,
            f"{speed.processes} x {speed.device}",
        ]
        for speed in speeds
    ]
    rows += [
        [f"{name}, the paper", f"{value:.2f}", f"{value / TRAINING_SPEED['MDLM']:.2f}", 512, "not said"]
        for name, value in TRAINING_SPEED.items()
    ]
    note = (
        f"Ours: {first.recipe}, {first.steps} steps of each model in turns. The paper's: OpenWebText. Iterations per "
        "second depend on the machine, and the paper does not name its own; the ratios to MDLM are what can be compared"
    )
    note += "." if first.recipe == PUBLISHED else ", and only for networks of the same size."
    computed = [f"Computed with {', '.join(first.how_computed)}."] if first.how_computed else []
    columns = ["", "it/s", "of MDLM's", "batch", "devices"]
    return Table("Training speed", columns, rows, " ".join([note, *computed]))
