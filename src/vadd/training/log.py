"""What a training logs: running means between two lines, ``metrics.jsonl``, TensorBoard and Weights & Biases."""

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from vadd.core import Objective
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.run.directory import RunDirectory
from vadd.run.status import MetricsLog, forget_after
from vadd.training.held_out import HeldOutResult

LOSSES = ("loss", "reconstruction", "kl")
UNLOGGED = 5
"""Numbers that a checkpoint keeps: three sums, steps taken, steps skipped."""


class RunningMeans:
    """Means and speed since the last line. The values of the steps stay on the device until they are needed."""

    def __init__(self, processes: Processes, unlogged: Sequence[float] = ()) -> None:
        """``unlogged`` is what :meth:`unlogged` returned when the run was saved."""
        self.speed, self.most_skipped_in_a_row = 0.0, 0
        self._processes = processes
        self._in_a_row = 0
        self._restart()
        if len(unlogged) == UNLOGGED:  # else they are of another version
            *self._sums, taken, skipped = unlogged
            self._taken, self._skipped = round(taken), round(skipped)

    def _restart(self) -> None:
        self._rows: list[Tensor] = []
        self._sums = [0.0, 0.0, 0.0]
        self._taken = self._skipped = self._worst = self._timed = 0
        self._since = time.perf_counter()

    def add(self, result: Objective, applied: Tensor) -> None:
        """The objective of this process's rows at one step; ``applied`` is 0 if the step was skipped, else 1."""
        # Not read yet: ``item()`` would make the host wait for the device at every step.
        self._rows.append(torch.stack([result.loss.detach(), result.reconstruction, result.kl, applied]))
        self._timed += 1

    def unlogged(self) -> tuple[float, ...]:
        """The sums so far, for a checkpoint; empty just after a line. All processes must call it together."""
        self._sum_up()
        return (*self._sums, self._taken, self._skipped) if self._taken + self._skipped else ()

    def close(self) -> dict[str, float]:
        """Of the steps that were taken, NaN if none was, and how many were skipped; the next line begins here."""
        self._sum_up()
        taken = self._taken or math.nan
        means = {name: total / taken for name, total in zip(LOSSES, self._sums, strict=True)}
        means["skipped"], self.most_skipped_in_a_row = self._skipped, self._worst
        self.speed = self._timed / (time.perf_counter() - self._since)
        self._restart()
        return means

    def _sum_up(self) -> None:
        """Step by step, so that a run that was saved in between has the same sums to the last bit."""
        if not self._rows:
            return
        averaged = self._processes.sum(torch.stack(self._rows)) / self._processes.count
        self._rows.clear()
        for *values, applied in averaged.tolist():
            if applied:
                self._sums = [total + value for total, value in zip(self._sums, values, strict=True)]
                self._taken += 1
                self._in_a_row = 0
            else:
                self._skipped += 1
                self._in_a_row += 1
                self._worst = max(self._worst, self._in_a_row)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time spent inside."""
        began = time.perf_counter()
        yield
        self._since += time.perf_counter() - began


class TrainingLog:
    """``metrics.jsonl`` and trackers. Only the main process opens it; in the others :meth:`add` does nothing."""

    def __init__(self, recipe: Recipe, directory: RunDirectory) -> None:
        self.recipe, self.directory = recipe, directory
        self.metrics = MetricsLog(directory.metrics_file)
        self._open = False
        self._trackers: list[Any] = []

    def open(self, step: int) -> None:
        """Continue from this step; what was logged of later ones is removed."""
        forget_after(self.directory.metrics_file, step)
        self._trackers = start_trackers(self.recipe, self.directory, step)
        self._open = True

    def add(self, step: int, split: str, **values: float) -> None:
        if not self._open:
            return
        self.check_place()
        # JSON has no NaN; trackers take it as it is.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self.metrics.append({"step": step, "split": split, **finite})
        named = {f"{split}/{name}": value for name, value in values.items()}
        for tracker in list(self._trackers):
            try:
                tracker.log(named, step=step)
            except Exception as error:  # a tracker must never end a run
                self._trackers.remove(tracker)
                warn(f"{tracker.name} gets no more metrics: {error}")

    def add_held_out(self, step: int, result: HeldOutResult) -> None:
        self.add(step, "test", **{name: getattr(result.objective, name).item() for name in LOSSES})
        if result.health is not None:
            health = ("kl_all_masked", "kl_average", "active_units", "dimensions")
            self.add(step, "latent", **{name: getattr(result.health, name) for name in health})

    def check_place(self) -> None:
        """Refuse to go on where the run's folder was removed: a new one would hold half of a run."""
        if not self.directory.recipe_file.exists():
            self._trackers.clear()  # they would fail to write what they still hold
            raise UserError(f"{self.directory.path} was removed or renamed during its training, which ends here")

    def finish(self) -> None:
        for tracker in self._trackers:
            try:
                tracker.finish()
            except Exception as error:
                warn(f"{tracker.name} did not end well: {error}")
        self._trackers.clear()


def check_trackers(recipe: Recipe) -> None:
    if "wandb" in recipe.training.trackers and not _is_installed("wandb"):
        raise UserError("training.trackers names wandb, which is not installed: pip install wandb")


def start_trackers(recipe: Recipe, directory: RunDirectory, start: int) -> list[Any]:
    """Of those that the recipe names the installed ones, for a training that continues from the step ``start``."""
    check_trackers(recipe)
    trackers: list[Any] = []
    warnings.filterwarnings("ignore", message="IProgress not found")  # of tqdm in notebooks, which is not used here
    for name in filter(_is_installed, recipe.training.trackers):
        from accelerate.tracking import TensorBoardTracker, WandBTracker  # takes seconds

        if name == "wandb":
            place = {"name": directory.path.resolve().name, "dir": str(directory.path)}
            trackers.append(WandBTracker("vadd", config=recipe.model_dump(mode="json"), **place))
        else:
            # What an interrupted run logged beyond its checkpoint comes again.
            again = {"purge_step": start + 1} if start else {}
            trackers.append(TensorBoardTracker("tensorboard", directory.path, **again))
    for tracker in trackers:
        tracker.start()
    return trackers


def _is_installed(tracker: str) -> bool:
    names = ("tensorboard", "tensorboardX") if tracker == "tensorboard" else (tracker,)
    return any(find_spec(name) is not None for name in names)
