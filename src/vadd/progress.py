"""How long work reports its progress, and where warnings go."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from vadd.words import duration, printable


class PlainConsole(Console):
    """Prints what it is given as it is, no markup in it. A terminal gets no character that would steer it: names, texts
    and samples may come from anywhere. Of several processes only the first one prints.
    """

    def __init__(self, **options: Any) -> None:
        silent = os.environ.get("RANK", "0") != "0"
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, "quiet": silent, **options})

    def on_broken_pipe(self) -> None:
        """Rich would end the process here, with code 1."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            steers = self.is_terminal and segment.control is None
            yield segment._replace(text=printable(segment.text)) if steers else segment


console = PlainConsole(stderr=True)


def warn(text: str) -> None:
    """One line about something that costs little and does not stop the work."""
    console.print(f"warning: {text}", soft_wrap=True)


def note(text: str) -> None:
    """One line about a choice that was made for the user."""
    console.print(f"note: {text}", soft_wrap=True, markup=False)


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
        console.print(f"{what}{count}{left}", soft_wrap=True)


@contextmanager
def progress_bar(*, hidden: bool = False) -> Iterator[Progress]:
    """What is being done and how far it is: a bar on a terminal, elsewhere a line now and then."""
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
