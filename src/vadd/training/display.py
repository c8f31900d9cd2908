"""The progress of a training: a line about it at the start, then a bar on a terminal or in a notebook, else a line now
and then.
"""

import html
import sys
import threading
import time
from importlib import import_module
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from vadd.progress import LINE_EVERY, console
from vadd.words import duration

BAR_EVERY = 0.4
"""Seconds between two states of a notebook's bar."""
SLOW_STEP = 1.0
"""Seconds; the first step is often slower than the others, so that the time is estimated by the second one unless the
first takes longer than this.
"""


class TrainingDisplay:
    def __init__(
        self, title: str, about: str, first: int, last: int, *, fit: float = 0.0, silent: bool = False
    ) -> None:
        """``about`` tells what is trained; ``fit`` is how many seconds that of a prior will take after it; ``silent``
        for all processes but the main one.
        """
        self.title, self.about, self.first, self.last = title, about, first, last
        self._then = f", then {duration(fit)} for the prior" if fit else ""
        self.step = first
        self._held_out = ""
        self._began = self._line_at = self._step_at = time.perf_counter()
        self._notebook = None if silent else _notebook()
        self._handle: Any = None
        self._introduced = silent or self._notebook is not None
        self._prints_lines = not self._introduced and not console.is_terminal
        self._ended = threading.Event()
        # On a narrow terminal only the bar becomes shorter.
        whole: dict[str, Any] = {"table_column": Column(no_wrap=True)}
        self._bar = Progress(
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            MofNCompleteColumn(**whole),
            TextColumn("{task.fields[speed]}", **whole),
            TimeRemainingColumn(**whole),
            TextColumn("left {task.fields[objective]}", **whole),
            console=console,
            expand=True,
            disable=self._introduced or self._prints_lines,
        )
        self._task = self._bar.add_task(title, total=last, completed=first, speed="", objective="")

    def __enter__(self) -> "TrainingDisplay":
        self._bar.start()
        if self._notebook is not None:
            self._handle = self._notebook.display(self._page(), display_id=True)
        if self._prints_lines:
            threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._bar.stop()

    def advance(self, step: int) -> None:
        """A step was taken."""
        self.step = step
        self._bar.update(self._task, completed=step)
        now = time.perf_counter()
        took, self._step_at = now - self._step_at, now
        if not self._introduced and (step > self.first + 1 or took > SLOW_STEP or step == self.last):
            self._introduce(f"about {duration(took * (self.last - step))}{self._then}")
        if self._handle is not None and (now - self._line_at >= BAR_EVERY or step == self.last):
            self._show()

    def show(self, speed: float) -> None:
        """The newest steps per second."""
        self._bar.update(self._task, speed=f"{_rate(speed)} it/s")

    def note(self, objective: float, latent: str) -> None:
        """After an evaluation: the objective on held-out examples, and how the latent is doing."""
        latent = f", {latent}" if latent else ""
        self._held_out = f", held-out objective {objective:.4f} nats per position{latent}"
        self._bar.update(self._task, objective=f"held-out {objective:.4g}")
        if self._prints_lines or self._handle is not None:
            self._show()

    def _introduce(self, time_needed: str) -> None:
        self._introduced = True
        console.print(f"{self.title}: {self.about}; {time_needed}", soft_wrap=True)
        self._line_at = time.perf_counter()

    def _state(self) -> str:
        elapsed, done = time.perf_counter() - self._began, self.step - self.first
        speed = ""
        if done:
            left = f"{duration(elapsed / done * (self.last - self.step))} left{self._then}"
            speed = f", {_rate(done / elapsed)} it/s, {left}"
        return f"{self.step}/{self.last} steps{speed}{self._held_out}"

    def _page(self) -> Any:
        assert self._notebook is not None
        state = f"<b>{html.escape(self.title)}</b> {html.escape(self._state())}"
        bar = f'<progress value="{self.step}" max="{self.last}" style="width: 100%"></progress>'
        return self._notebook.HTML(f'<div style="max-width: 48em">{state}{bar}</div>')

    def _show(self) -> None:
        if self._handle is not None:
            self._handle.update(self._page())
        else:
            console.print(f"{self.title}: {self._state()}", soft_wrap=True)
        self._line_at = time.perf_counter()

    def _print_lines(self) -> None:
        """In a thread of its own: a step or an evaluation may take longer than anybody waits for a line."""
        while not self._ended.wait(max(0.0, self._line_at + LINE_EVERY - time.perf_counter())):
            if time.perf_counter() - self._line_at >= LINE_EVERY:
                if not self._introduced:
                    self._introduce("the first step takes long")
                else:
                    self._show()


def _rate(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"


def _notebook() -> Any:
    """The module that shows things in Jupyter; None elsewhere."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
