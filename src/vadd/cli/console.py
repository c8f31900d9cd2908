"""What the commands say and show: two consoles, aligned columns, and something to look at while waiting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vadd.progress import PlainConsole

if TYPE_CHECKING:
    from vadd.progress import Progress

out_console = PlainConsole()
err_console = PlainConsole(stderr=True)


def print_columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: str = "") -> None:
    """Aligned and never broken, so that lines can be searched and piped; the columns ``right`` end evenly."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(row)]
        out_console.out(indent + "  ".join(cells).rstrip())


@contextmanager
def progress_bar() -> "Iterator[Progress]":
    """What is being done and how far it is, on a terminal only."""
    if not err_console.is_terminal:
        from vadd.progress import silent

        yield silent
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=err_console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(what: str, done: int = 0, total: int | None = None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


class Narrator:
    """One line for each new piece of work, where training shows its own progress in between."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        if what != self._last:
            err_console.print(what, soft_wrap=True)
            self._last = what
