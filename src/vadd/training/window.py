"""What one line of metrics sums up."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vadd.core import Objective
from vadd.parallel import Processes

UNLOGGED = 5
"""Numbers that a checkpoint keeps: three sums, steps taken, steps skipped."""


@dataclass(frozen=True)
class Means:
    """Over the steps that were taken; NaN if none was."""

    loss: float
    reconstruction: float
    kl: float
    skipped: int
    most_skipped_in_a_row: int


class Window:
    """Means and speed since the last line. The values of the steps stay on the device until they are wanted."""

    def __init__(self, processes: Processes, unlogged: Sequence[float] = ()) -> None:
        """``unlogged`` is what :meth:`unlogged` said when the run was saved."""
        self.speed = 0.0
        self._processes = processes
        self._in_a_row = 0
        self._restart()
        if len(unlogged) == UNLOGGED:  # else they are of another version
            *self._sums, taken, skipped = unlogged
            self._taken, self._skipped = round(taken), round(skipped)

    def _restart(self) -> None:
        self._rows: list[Tensor] = []
        self._sums = [0.0, 0.0, 0.0]
        self._taken = self._skipped = self._worst = 0
        self._timed = 0
        self._since = time.perf_counter()

    def add(self, result: Objective, applied: Tensor) -> None:
        """The objective of this process's rows at one step; ``applied`` is 0 if the step was skipped, else 1."""
        # Not read yet: ``item()`` would make the host wait for the device at every step.
        self._rows.append(torch.stack([result.loss.detach(), result.reconstruction, result.kl, applied]))
        self._timed += 1

    def unlogged(self) -> tuple[float, ...]:
        """All there is so far, for a checkpoint; nothing just after a line. All processes must ask together."""
        self._sum_up()
        return (*self._sums, self._taken, self._skipped) if self._taken + self._skipped else ()

    def close(self) -> Means:
        self._sum_up()
        loss, reconstruction, kl = (total / self._taken if self._taken else float("nan") for total in self._sums)
        means = Means(loss, reconstruction, kl, self._skipped, self._worst)
        self.speed = self._timed / (time.perf_counter() - self._since)
        self._restart()
        return means

    def _sum_up(self) -> None:
        """Step by step, so that a run that was saved in between comes to the same sums to the last bit."""
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
