"""What would never end is refused before it begins, with what it would take at least."""

import psutil

from vadd.errors import UserError
from vadd.words import duration, size_in_memory

SECONDS_PER_STEP, SECONDS_PER_ROW = 1e-5, 1e-7
"""Less than any machine needs for a step of a chunk, and for showing a network one more row."""
LONGEST = 86_400.0
"""Seconds. What takes a day at this impossible speed takes months at a real one."""
BYTES_PER_STEP = 16
"""Of each sample: times and plan."""
MOST_BYTES_OF_STEPS = 1 << 28
LARGEST_CHUNK = 1 << 20
"""Samples that are drawn at once, at most, in practice."""


def check_time(what: str, *, steps: int, rows: int) -> None:
    """Refuse ``what`` asks for so many ``steps``, or for so many ``rows`` to be shown to a network, all in all."""
    # Integers first: a float holds only up to 10^308.
    least = max(steps // round(1 / SECONDS_PER_STEP), rows // round(1 / SECONDS_PER_ROW))
    if least > LONGEST:
        told = duration(least) if least < 1e15 else "longer than the universe is old"
        raise UserError(f"{what} would take at least {told}: ask for less")


def check_steps(steps: int) -> None:
    """Before as many times are laid out."""
    check_time(f"a sample in {steps:,} steps", steps=steps, rows=1)
    needed = BYTES_PER_STEP * steps
    if needed > MOST_BYTES_OF_STEPS:
        raise UserError(f"{steps:,} steps would take {size_in_memory(needed)} for each sample alone: ask for fewer")


def check_samples(n: int, steps: int) -> None:
    check_time(f"{n:,} samples in {steps:,} steps", steps=n // LARGEST_CHUNK * steps, rows=n)


def check_held(n: int, positions: int) -> None:
    """``n`` samples in memory at once."""
    needed, available = 8 * n * positions, psutil.virtual_memory().available
    if needed > available:
        raise UserError(
            f"{n:,} samples take {size_in_memory(needed)} of memory, and {size_in_memory(available)} are available: "
            "ask for fewer"
        )
