"""What a training says of itself as it goes: metrics on disk, and the trackers that somebody asked for."""

import math

from vadd.recipe import Recipe
from vadd.run.directory import RunDirectory
from vadd.run.metrics import MetricsLog, forget_after
from vadd.training.held_out import HeldOut
from vadd.training.trackers import Trackers


class Records:
    """Opened by the main process alone: in all others it takes no notice of what it is told."""

    def __init__(self, recipe: Recipe, directory: RunDirectory) -> None:
        self.recipe, self.directory = recipe, directory
        self.metrics = MetricsLog(directory.metrics_file)
        self.trackers: Trackers | None = None

    def open(self, step: int) -> None:
        """Go on from this step; what was recorded of later ones is forgotten."""
        forget_after(self.directory.metrics_file, step)
        self.trackers = Trackers(self.recipe, self.directory.path, step)

    def add(self, step: int, split: str, **values: float) -> None:
        """NaN, which JSON does not have, becomes null."""
        if self.trackers is not None:
            known = {name: value if math.isfinite(value) else None for name, value in values.items()}
            self.metrics.append({"step": step, "split": split, **known})
            # Trackers take NaN as it is.
            self.trackers.log(step, {f"{split}/{name}": value for name, value in values.items()})

    def add_held_out(self, step: int, found: HeldOut) -> None:
        measured = found.objective
        self.add(
            step,
            "test",
            loss=measured.loss.item(),
            reconstruction=measured.reconstruction.item(),
            kl=measured.kl.item(),
        )
        if (health := found.health) is not None:
            self.add(
                step,
                "latent",
                kl_all_masked=health.kl_all_masked,
                kl_average=health.kl_average,
                active_units=health.active_units,
                dimensions=health.dimensions,
            )

    def flush_to_disk(self) -> None:
        self.metrics.flush_to_disk()

    def finish(self) -> None:
        if self.trackers is not None:
            self.trackers.finish()
