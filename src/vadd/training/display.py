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

from vadd.progress import LINE_EVERY
from vadd.terminal import console
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
            self._show()
        if self._prints_lines:
            threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._bar.stop()

    def advance(self, step: int) -> None:
        """A step was taken."""
        self.step, now = step, time.perf_counter()
        self._bar.update(self._task, completed=step, speed=self._speed())
        took, self._step_at = now - self._step_at, now
        if not self._introduced and (step > self.first + 1 or took > SLOW_STEP or step == self.last):
            self._introduce(f"about {duration(took * (self.last - step))}{self._then}")
        if self._notebook is not None and (now - self._line_at >= BAR_EVERY or step == self.last):
            self._show()

    def note(self, objective: float, latent: str) -> None:
        """After an evaluation: the objective on held-out examples, and how the latent is doing."""
        latent = f", {latent}" if latent else ""
        self._held_out = f", held-out objective {objective:.4f} nats per position{latent}"
        self._bar.update(self._task, objective=f"held-out {objective:.4g}")
        if self._prints_lines or self._notebook is not None:
            self._show()

    def _introduce(self, time_needed: str) -> None:
        self._introduced = True
        console.print(f"{self.title}: {self.about}; {time_needed}", soft_wrap=True)
        self._line_at = time.perf_counter()

    def _speed(self) -> str:
        """Since the training began here."""
        speed = (self.step - self.first) / (time.perf_counter() - self._began)
        return f"{speed:.0f} it/s" if speed >= 10 else f"{speed:.2g} it/s"

    def _show(self) -> None:
        elapsed, done = time.perf_counter() - self._began, self.step - self.first
        left = duration(elapsed / done * (self.last - self.step)) if done else ""
        speed = f", {self._speed()}, {left} left{self._then}" if done else ""
        state = f"{self.step}/{self.last} steps{speed}{self._held_out}"
        if self._notebook is None:
            console.print(f"{self.title}: {state}", soft_wrap=True)
        else:
            bar = f'<progress value="{self.step}" max="{self.last}" style="width: 100%"></progress>'
            text = f"<b>{html.escape(self.title)}</b> {html.escape(state)}"
            page = self._notebook.HTML(f'<div style="max-width: 48em">{text}{bar}</div>')
            if self._handle is None:
                self._handle = self._notebook.display(page, display_id=True)
            else:
                self._handle.update(page)
        self._line_at = time.perf_counter()

    def _print_lines(self) -> None:
        """In a thread of its own: a step or an evaluation may take longer than anybody waits for a line."""
        while not self._ended.wait(max(0.0, self._line_at + LINE_EVERY - time.perf_counter())):
            if time.perf_counter() - self._line_at >= LINE_EVERY:
                if not self._introduced:
                    self._introduce("the first step takes long")
                else:
                    self._show()


def _notebook() -> Any:
    """The module that shows things in Jupyter; None elsewhere."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
