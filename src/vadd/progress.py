"""How long work reports its progress, and where warnings go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from vadd.words import duration


def _write(line: str) -> None:
    from vadd.terminal import console  # rich: who only loads a model needs none of it

    console.print(line, soft_wrap=True)


def warn(text: str) -> None:
    """One line about something that costs little and does not stop the work."""
    _write(f"warning: {text}")


def note(text: str) -> None:
    """One line about a choice that was made for the user."""
    _write(f"note: {text}")


class Progress(Protocol):
    """What all long work is given to report how far it is."""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        """``what`` is under way; where it can be counted, ``done`` of ``total``."""


def silent(what: str, done: int = 0, total: int | None = None) -> None:
    """The default: nothing is reported."""


def named(progress: Progress, name: str) -> Progress:
    """Progress of one among several: every line begins with its name."""

    def report(what: str, done: int = 0, total: int | None = None) -> None:
        progress(f"{name}: {what}", done, total)

    return report


FIRST_LINE, LINE_EVERY = 5.0, 20.0
"""Seconds of work without a line, at most, where there is no terminal."""


class Lines:
    """Progress where there is no terminal."""

    def __init__(self) -> None:
        self._what, self._first, self._began = "", 0, 0.0
        self._due = time.monotonic() + FIRST_LINE

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._first, self._began = what, done, now
        if now < self._due:
            return
        self._due = now + LINE_EVERY
        count = "" if total is None else f": {done:,} of {total:,}"
        left = ""
        if total is not None and done > self._first:
            left = f", {duration((now - self._began) * (total - done) / (done - self._first))} left"
        _write(f"{what}{count}{left}")


@contextmanager
def progress_bar(*, hidden: bool = False) -> Iterator[Progress]:
    """What is being done and how far it is: a bar on a terminal, elsewhere a line now and then."""
    from vadd.terminal import console

    if hidden or not console.is_terminal:
        yield silent if hidden else Lines()
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int = 0, total: int | None = None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
