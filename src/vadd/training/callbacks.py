"""What somebody who trains from Python is told on the way, and how they can stop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vadd.core import LatentHealth, Objective

if TYPE_CHECKING:
    from vadd.run.run import Run


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every callback is given."""

    step: int
    """Steps that have been taken."""
    steps: int
    """As many as there will be."""
    _stop: Callable[[], None] = field(repr=False)

    def stop(self) -> None:
        """End the training here: a checkpoint is written, and it can be resumed."""
        self._stop()


@dataclass(frozen=True, kw_only=True)
class Losses(Event):
    _objective: Objective = field(repr=False)

    @property
    def loss(self) -> float:
        """The objective, in nats per position. Asking makes the host wait for a GPU."""
        return float(self._objective.loss.detach())

    @property
    def reconstruction(self) -> float:
        """In nats per example."""
        return float(self._objective.reconstruction.detach())

    @property
    def kl(self) -> float:
        """In nats per example."""
        return float(self._objective.kl.detach())


@dataclass(frozen=True, kw_only=True)
class StepEvent(Losses):
    """After every step; the losses are those of its batch, under the KL weight of the step."""

    steps_per_second: float
    """As of the last line of metrics; 0 before the first."""


@dataclass(frozen=True, kw_only=True)
class EvaluationEvent(Losses):
    """After the averaged weights were judged on held-out examples, at full KL weight."""

    health: LatentHealth | None
    """How much of the latent is used; None for a model without a Gaussian latent."""
    _run: "Run" = field(repr=False)

    def sample(self, n: int = 1, **options: Any) -> Tensor:
        """Samples (n, N) of the averaged weights as they are now; the options of :meth:`vadd.Run.sample`."""
        return self._run.sample(n, **options)

    def texts(self, n: int = 1, **options: Any) -> list[str]:
        """The same as text, where the data are text."""
        return self._run.texts(self.sample(n, **options))


@dataclass(frozen=True, kw_only=True)
class CheckpointEvent(Event):
    """After a checkpoint was written."""

    path: Path
    loss: float | None
    """The held-out objective, if it was measured at this step."""


@dataclass(frozen=True)
class Callbacks:
    """Functions to call; of several processes only the main one calls them."""

    on_step: Callable[[StepEvent], object] | None = None
    on_evaluation: Callable[[EvaluationEvent], object] | None = None
    on_checkpoint: Callable[[CheckpointEvent], object] | None = None


class Told:
    """Tells the callbacks of one training what happens."""

    def __init__(self, callbacks: Callbacks, run: "Run", steps: int, stop: Callable[[], None]) -> None:
        """``run`` has the averaged weights, which go on changing."""
        self.callbacks, self.run, self.steps, self.stop = callbacks, run, steps, stop

    def step(self, step: int, objective: Objective, speed: float) -> None:
        if (call := self.callbacks.on_step) is not None:
            call(StepEvent(step=step, steps=self.steps, steps_per_second=speed, _objective=objective, _stop=self.stop))

    def evaluation(self, step: int, objective: Objective, health: LatentHealth | None) -> None:
        if (call := self.callbacks.on_evaluation) is not None:
            call(
                EvaluationEvent(
                    step=step, steps=self.steps, health=health, _objective=objective, _run=self.run, _stop=self.stop
                )
            )

    def checkpoint(self, step: int, loss: float | None) -> None:
        if (call := self.callbacks.on_checkpoint) is not None:
            path = self.run.directory.checkpoint(step)
            call(CheckpointEvent(step=step, steps=self.steps, path=path, loss=loss, _stop=self.stop))
