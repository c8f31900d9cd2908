"""Where metrics go besides ``metrics.jsonl``: TensorBoard, Weights & Biases, through Accelerate's trackers."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vadd.errors import UserError
from vadd.progress import warn
from vadd.recipe import Recipe


def is_installed(tracker: str) -> bool:
    names = ("tensorboard", "tensorboardX") if tracker == "tensorboard" else (tracker,)
    return any(find_spec(name) is not None for name in names)


class Trackers:
    """Made and used by the main process only. A tracker that fails is dropped with a warning, never the run."""

    def __init__(self, recipe: Recipe, directory: Path, start: int) -> None:
        """For a training that goes on from the step ``start``."""
        self.check(recipe)
        self._trackers: list[Any] = []
        for name in filter(is_installed, recipe.training.trackers):
            from accelerate.tracking import TensorBoardTracker, WandBTracker  # takes seconds

            if name == "wandb":
                settings = {"name": directory.resolve().name, "dir": str(directory)}
                self._trackers.append(WandBTracker("vadd", config=recipe.model_dump(mode="json"), **settings))
            else:
                # What an interrupted run logged beyond its checkpoint comes again.
                again = {"purge_step": start + 1} if start else {}
                self._trackers.append(TensorBoardTracker("tensorboard", directory, **again))
        for tracker in self._trackers:
            tracker.start()

    @staticmethod
    def check(recipe: Recipe) -> None:
        if "wandb" in recipe.training.trackers and not is_installed("wandb"):
            raise UserError("training.trackers names wandb, which is not installed: pip install wandb")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for tracker in list(self._trackers):
            try:
                tracker.log(dict(values), step=step)
            except Exception as error:
                self._trackers.remove(tracker)
                warn(f"{tracker.name} gets no more metrics: {error}")

    def finish(self) -> None:
        for tracker in self._trackers:
            try:
                tracker.finish()
            except Exception as error:
                warn(f"{tracker.name} did not end well: {error}")
        self._trackers.clear()
