"""The ways in which a command ends early because of what the user did, and the one check that all input shares."""

from collections.abc import Collection


class UserError(ValueError):
    """Bad input, described in one line. The command line prints it and exits with code 2."""


class Interrupted(Exception):  # noqa: N818  # an outcome, not an error
    """The user stopped a training; its checkpoint is saved and it can go on."""


def check_range(
    low: int, high: int, size: int, subject: str, *, also: Collection[int] = (), limits: str = ", outside"
) -> None:
    """Refuse integers from ``low`` to ``high`` unless both ends are in 0..size-1 or among the values ``also`` allowed.

    The error begins with ``subject``, "codes.npy holds the value" say, and goes on with the value that is wrong and the
    limits: "9, outside 0..3".
    """
    for value in (low, high):
        if not 0 <= value < size and value not in also:
            raise UserError(f"{subject} {value}{limits} 0..{size - 1}")
