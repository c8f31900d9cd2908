"""How long work reports its progress, and where warnings go."""

import os
from typing import Protocol

from rich.console import Console

console = Console(stderr=True, highlight=False, quiet=os.environ.get("RANK", "0") != "0")
"""Of several processes only the first one prints."""


def warn(text: str) -> None:
    """One line about something that costs little and does not stop the work."""
    console.print(f"warning: {text}", soft_wrap=True, markup=False)


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
