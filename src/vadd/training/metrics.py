"""What a training measures and logs: running means between two lines, the averaged weights on held-out examples,
``metrics.jsonl``, TensorBoard and Weights & Biases.
"""

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from vadd.core import Evidence, LatentHealth, Model, Objective, objective
from vadd.core.gaussian import DiagonalGaussian
from vadd.core.health import health_of, posteriors
from vadd.core.host import TEST, step_generator
from vadd.core.masking import BatchPart
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.run.directory import RunDirectory
from vadd.run.status import MetricsLog, forget_after

LOSSES = ("loss", "reconstruction", "kl")
EXAMPLES = 2048
"""Held-out examples that are evaluated, at most."""


@dataclass(frozen=True)
class HeldOutResult:
    objective: Objective
    """At full KL weight."""
    health: LatentHealth | None

    @property
    def loss(self) -> float:
        """In nats per position."""
        return self.objective.loss.item()


@torch.no_grad()
def evaluate_held_out(
    model: Model,
    test: Tensor,
    seed: int,
    rows_at_once: int,
    processes: Processes,
    labels: Tensor | None = None,
    known: Tensor | None = None,
) -> HeldOutResult:
    """How good the averaged weights are on the first of the ``test`` examples (m, N), always with the same masks and
    latents. The examples are divided among the processes; all get the whole answer. A model that was trained with
    labels is given theirs (m,). What is ``known`` (m, N) is not masked.
    """
    total = min(EXAMPLES, len(test))
    # The same at every evaluation, so that differences are those of the weights.
    noise = step_generator(seed, TEST)
    masking = model.held_out_draw(total, test.shape[1], model.schedule, noise)
    masking = masking.sparing(None if known is None else known[:total])
    evidences: list[tuple[Tensor, ...]] = []
    pairs: list[tuple[DiagonalGaussian, DiagonalGaussian]] = []
    for rows in torch.split(processes.padded_share(total), rows_at_once):
        batch = model.batch(test[rows], masking[rows], BatchPart(rows, total), None if labels is None else labels[rows])
        # A copy for every chunk: each draws the latents of all examples and takes its own rows.
        evidence = model(batch, 1.0, noise.clone_state())
        evidences.append((evidence.bound, evidence.reconstruction, evidence.kl))
        if (pair := posteriors(model, batch)) is not None:
            pairs.append(pair)

    def whole(chunks: Sequence[Tensor]) -> Tensor:
        return processes.gather(torch.cat(list(chunks)), total)

    evidence = Evidence(*map(whole, zip(*evidences, strict=True)))
    gaussians = [
        DiagonalGaussian(whole([each.mean for each in chunks]), whole([each.log_std for each in chunks]))
        for chunks in zip(*pairs, strict=True)
    ]
    return HeldOutResult(objective(evidence, test.shape[1]), health_of(*gaussians) if gaussians else None)


class RunningMeans:
    """Means and speed since the last line. The values of the steps stay on the device until they are needed."""

    def __init__(self, processes: Processes, unlogged: Sequence[float] = ()) -> None:
        """``unlogged`` is what :meth:`unlogged` returned when the run was saved."""
        self.speed, self.most_skipped_in_a_row = 0.0, 0
        self._processes, self._in_a_row = processes, 0
        self._sums: list[float]
        """Of the losses, steps taken, steps skipped."""
        self._restart()
        if len(unlogged) == len(self._sums):  # else they are of another version
            self._sums = list(unlogged)

    def _restart(self) -> None:
        self._rows: list[Tensor] = []
        self._sums = [0.0, 0.0, 0.0, 0, 0]
        self._worst = self._timed = 0
        self._since = time.perf_counter()

    def add(self, result: Objective, applied: Tensor) -> None:
        """The objective of this process's rows at one step; ``applied`` is 0 if the step was skipped, else 1."""
        # Not read yet: ``item()`` would make the host wait for the device at every step.
        self._rows.append(torch.stack([result.loss.detach(), result.reconstruction, result.kl, applied]))
        self._timed += 1

    def unlogged(self) -> tuple[float, ...]:
        """The sums so far, for a checkpoint; empty just after a line. All processes must call it together."""
        self._sum_up()
        return tuple(self._sums) if any(self._sums[3:]) else ()

    def close(self) -> dict[str, float]:
        """Of the steps that were taken, NaN if none was, and how many were skipped; the next line begins here."""
        self._sum_up()
        *sums, taken, skipped = self._sums
        means = {name: total / (taken or math.nan) for name, total in zip(LOSSES, sums, strict=True)}
        self.most_skipped_in_a_row = self._worst
        self.speed = self._timed / (time.perf_counter() - self._since)
        self._restart()
        return means | {"skipped": round(skipped)}

    def _sum_up(self) -> None:
        """Step by step, so that a run that was saved in between has the same sums to the last bit."""
        if not self._rows:
            return
        averaged = self._processes.sum(torch.stack(self._rows)) / self._processes.count
        self._rows.clear()
        for *values, applied in averaged.tolist():
            added = (*values, 1, 0) if applied else (0, 0, 0, 0, 1)
            self._sums = [total + value for total, value in zip(self._sums, added, strict=True)]
            self._in_a_row = 0 if applied else self._in_a_row + 1
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
