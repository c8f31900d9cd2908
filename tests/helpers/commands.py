"""The types of the fixture ``vadd_command``."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


Command = Callable[..., Finished]
