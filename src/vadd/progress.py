"""How long work reports its progress, and where warnings go."""

import os
from collections.abc import Iterable
from typing import Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from vadd.words import printable


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
