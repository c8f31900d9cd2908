"""How long work tells what it is doing."""

from typing import Protocol


class Progress(Protocol):
    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        """``what`` is under way; where it can be counted, ``done`` of ``total``."""


def silent(what: str, done: int = 0, total: int | None = None) -> None:
    pass
