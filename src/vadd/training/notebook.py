"""A progress bar in a notebook: a piece of HTML that is replaced as the training goes on, without widgets."""

import html
import sys
import time
import warnings
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import Any

from vadd.training.callbacks import Callbacks, EvaluationEvent, StepEvent
from vadd.words import duration

SECONDS_BETWEEN = 0.4


def in_notebook() -> bool:
    """Whether somebody looks at this through Jupyter, and not through a terminal."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress:
    """Listens to a training beside the callbacks of whoever started it."""

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
        shown: Any = import_module("IPython.display")  # there, or nobody would ask
        self._html = shown.HTML
        self._began = time.perf_counter()
        self._handle = shown.display(self._html(self._bar(0, 1, "starting")), display_id=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._handle.update(self._html(self._bar(0, 1, f"ended with {type(error).__name__}")))

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
