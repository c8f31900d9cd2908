"""The ways in which a command ends early because of what the user did, and the checks that all input shares."""

import re
from collections.abc import Collection
from importlib import import_module
from typing import Any

LONGEST_ECHO = 80
"""Characters of a value in quotes that a message repeats, before three dots."""
_LONG_QUOTE = re.compile(rf"""(?<!\w)(['"])((?:(?!\1).){{{LONGEST_ECHO + 4},}})\1(?!\w)""")


class UserError(ValueError):
    """Bad input, described in one line. The command line prints it and exits with code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(_LONG_QUOTE.sub(_shortened, message))


def _shortened(quoted: re.Match[str]) -> str:
    mark, value = quoted.groups()
    return f"{mark}{value[:LONGEST_ECHO]}...{mark} ({len(value):,} characters)"


def refuse_if(*cases: tuple[object, str]) -> None:
    """The first case that holds, with the reason beside it."""
    for holds, reason in cases:
        if holds:
            raise UserError(reason)


def optional(package: str, needed: str, extra: str) -> Any:
    """A package that not everybody has. An error begins with what it is ``needed`` for and names the ``extra``."""
    try:
        return import_module(package)
    except ImportError:
        raise UserError(f"{needed}: pip install 'vadd[{extra}]'") from None


class Interrupted(Exception):  # noqa: N818  # an outcome, not an error
    """The user stopped a training; its checkpoint is saved and it can go on."""


def check_range(low: int, high: int, size: int, subject: str, *, also: Collection[int] = ()) -> None:
    """Refuse integers from ``low`` to ``high`` unless both ends are in 0..size-1 or among the values ``also`` allowed.

    The error begins with ``subject``, "codes.npy holds the value" say, and goes on with the value that is wrong and the
    limits: "9, outside 0..3".
    """
    for value in (low, high):
        if not 0 <= value < size and value not in also:
            raise UserError(f"{subject} {value}, outside 0..{size - 1}")
