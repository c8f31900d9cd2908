"""The progress of a training: a line about it at the start, then a bar on a terminal or in a notebook, else a line now
and then.
"""

import html
import sys
import threading
import time
import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from vadd.progress import console
from vadd.training.events import Callbacks, EvaluationEvent, StepEvent
from vadd.words import duration

LINE_EVERY = 20.0
"""Seconds without a line, at most, where there is no terminal."""
SLOW_STEP = 1.0
"""Seconds; the first step is often slower than the others, so that the time is estimated by the second one unless the
first takes longer than this.
"""
LONGEST_TITLE = 24
NUMBERS = 50
"""Columns that speed, time left and the objective take, with what stands between all parts; the steps come to it."""
OBJECTIVE = 17
"""Those of the objective, which narrow terminals go without."""


class TrainingDisplay:
    def __init__(self, title: str, about: str, first: int, last: int, *, silent: bool = False) -> None:
        """``about`` tells what is trained; ``silent`` for all processes but the main one."""
        self.title, self.about, self.first, self.last, self.silent = title, about, first, last, silent
        self.step = first
        self._held_out_line = ""
        self._began = self._line_at = self._step_at = time.perf_counter()
        self._introduced = silent
        self._ended = threading.Event()
        self._lines = threading.Thread(target=self._print_lines, daemon=True)
        # On narrow terminals only the title and the bar become shorter: the numbers matter most.
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="ellipsis", no_wrap=True)),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            MofNCompleteColumn(table_column=_whole()),
            TextColumn("{task.fields[speed]}", table_column=_whole()),
            TimeRemainingColumn(table_column=_whole()),
            TextColumn("left", table_column=_whole()),
            TextColumn("{task.fields[objective]}", table_column=_whole()),
            console=console,
            expand=True,
            disable=silent or not console.is_terminal,
        )
        spare = console.width - NUMBERS - 2 * len(str(last))
        self._shows_objective = spare >= 0
        longest = max(0, min(LONGEST_TITLE, spare if self._shows_objective else spare + OBJECTIVE))
        shown = title if len(title) <= longest else f"{title[: longest - 3]}..." if longest > 3 else ""
        self._task = self._progress.add_task(shown, total=last, completed=first, speed="", objective="")

    def __enter__(self) -> "TrainingDisplay":
        self._progress.start()
        if not self.silent and not console.is_terminal:
            self._lines.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._progress.stop()

    def advance(self, step: int) -> None:
        """A step was taken."""
        self.step = step
        self._progress.update(self._task, completed=step)
        now = time.perf_counter()
        took, self._step_at = now - self._step_at, now
        if not self._introduced and (step > self.first + 1 or took > SLOW_STEP or step == self.last):
            self._introduce(f"about {duration(took * (self.last - step))}")

    def show(self, speed: float) -> None:
        """The newest steps per second."""
        self._progress.update(self._task, speed=f"{_rate(speed)} it/s")

    def note(self, objective: float, latent: str) -> None:
        """After an evaluation: the objective on held-out examples, and how the latent is doing."""
        self._held_out_line = f", held-out objective {objective:.4f} nats per position" + (
            f", {latent}" if latent else ""
        )
        if self._shows_objective:
            self._progress.update(self._task, objective=f"held-out {objective:.4g}")
        if not self.silent and not console.is_terminal:
            self._line()

    def _introduce(self, time_needed: str) -> None:
        self._introduced = True
        console.print(f"{self.title}: {self.about}; {time_needed}", soft_wrap=True)
        self._line_at = time.perf_counter()

    def _line(self) -> None:
        elapsed, done = time.perf_counter() - self._began, self.step - self.first
        speed = (
            f", {_rate(done / elapsed)} it/s, {duration(elapsed / done * (self.last - self.step))} left" if done else ""
        )
        console.print(f"{self.title}: {self.step}/{self.last} steps{speed}{self._held_out_line}", soft_wrap=True)
        self._line_at = time.perf_counter()

    def _print_lines(self) -> None:
        """In a thread of its own: a step or an evaluation may take longer than anybody waits for a line."""
        while not self._ended.wait(max(0.0, self._line_at + LINE_EVERY - time.perf_counter())):
            if time.perf_counter() - self._line_at >= LINE_EVERY:
                if not self._introduced:
                    self._introduce("the first step takes long")
                else:
                    self._line()


def _rate(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"


def _whole() -> Column:
    return Column(no_wrap=True, overflow="fold")


SECONDS_BETWEEN = 0.4


def in_notebook() -> bool:
    """Whether this runs in Jupyter, and not in a terminal."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress:
    """Shows a training through its callbacks, which call those of the user too."""

    def __init__(self, title: str, callbacks: Callbacks) -> None:
        self.title, self._theirs = title, callbacks
        self.callbacks = replace(callbacks, on_step=self._step, on_evaluation=self._evaluation)
        self._held_out = ""
        self._began = self._shown = 0.0
        self._first: int | None = None
        self._handle: Any = None
        self._html: Any = None

    def __enter__(self) -> "NotebookProgress":
        # Others' bars miss their widgets, which this one does without.
        warnings.filterwarnings("ignore", message="IProgress not found")
        shown: Any = import_module("IPython.display")
        self._html = shown.HTML
        self._began = time.perf_counter()
        self._handle = shown.display(self._html(self._bar(0, 1, "starting")), display_id=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if kind is not None:
            self._handle.update(self._html(self._bar(0, 1, f"ended with {kind.__name__}")))

    def _step(self, event: StepEvent) -> None:
        if self._first is None:
            self._first = event.step - 1
        now = time.perf_counter()
        if now - self._shown >= SECONDS_BETWEEN or event.step == event.steps:
            self._shown = now
            self._show(event.step, event.steps)
        if self._theirs.on_step is not None:
            self._theirs.on_step(event)

    def _evaluation(self, event: EvaluationEvent) -> None:
        verdict = "" if event.health is None else f"; latent: {event.health.verdict}"
        self._held_out = f"held-out objective {event.loss:.4f} nats per position{verdict}"
        self._show(event.step, event.steps)
        if self._theirs.on_evaluation is not None:
            self._theirs.on_evaluation(event)

    def _show(self, step: int, steps: int) -> None:
        passed = time.perf_counter() - self._began
        speed = (step - (self._first or 0)) / max(passed, 1e-9)
        left = f", {duration((steps - step) / speed)} left" if step < steps else ""
        state = f"{step:,} of {steps:,} steps, {speed:.3g} a second, {duration(passed)}{left}"
        self._handle.update(self._html(self._bar(step, steps, state)))

    def _bar(self, step: int, steps: int, state: str) -> str:
        lines = [f"<b>{html.escape(self.title)}</b> {html.escape(state)}"]
        if self._held_out:
            lines.append(html.escape(self._held_out))
        bar = f'<progress value="{step}" max="{steps}" style="width: 100%"></progress>'
        return f'<div style="max-width: 48em">{"<br>".join(lines)}{bar}</div>'
