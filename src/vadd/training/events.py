"""Callbacks of a training with their events, and requests to stop it."""

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from vadd.core import LatentHealth, Objective

if TYPE_CHECKING:
    from vadd.run.run import Run


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every callback is given."""

    step: int
    """The number of steps taken so far."""
    steps: int
    """The number of steps of the whole training."""
    _stop: Callable[[], None] = field(repr=False)

    def stop(self) -> None:
        """End the training after this step. A checkpoint is written, so the training can be resumed."""
        self._stop()


@dataclass(frozen=True, kw_only=True)
class Losses(Event):
    _objective: Objective = field(repr=False)

    @property
    def loss(self) -> float:
        """The objective, in nats per position. On a GPU, reading it waits for the device."""
        return float(self._objective.loss.detach())

    @property
    def reconstruction(self) -> float:
        """The reconstruction term, in nats per example."""
        return float(self._objective.reconstruction.detach())

    @property
    def kl(self) -> float:
        """The KL term, in nats per example."""
        return float(self._objective.kl.detach())


@dataclass(frozen=True, kw_only=True)
class StepEvent(Losses):
    """After every step. The losses are those of its batch, with the KL weight of the step."""

    steps_per_second: float
    """The speed at the last logged step; 0 before the first one."""


@dataclass(frozen=True, kw_only=True)
class EvaluationEvent(Losses):
    """After the averaged weights were evaluated on held-out examples, at full KL weight."""

    health: LatentHealth | None
    """How much of the latent is used; None for a model without a Gaussian latent."""
    _run: "Run" = field(repr=False)

    def sample(self, n: int = 1, **options: Any) -> Tensor:
        """Draw samples (n, N) with the current averaged weights; the options are those of :meth:`vadd.Run.sample`."""
        return self._run.sample(n, **options)

    def texts(self, n: int = 1, **options: Any) -> list[str]:
        """The same for data that are text: the texts of the samples."""
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


class StopRequest:
    """Ctrl-C and SIGTERM end a training at the end of its step. While active, the first SIGINT or SIGTERM sets
    ``asked``; a second Ctrl-C interrupts at once.
    """

    def __init__(self) -> None:
        self.asked = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        # Python lets no other thread set signal handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def ask(self) -> None:
        self.asked = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
