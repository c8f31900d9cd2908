"""What the commands share: parsing, files that must not be lost, and something to look at while waiting."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.progress import Progress
    from vadd.runs.layout import CheckpointName

# Of the processes of a distributed training only the first one speaks.
_silent = os.environ.get("RANK", "0") != "0"
out_console = Console(highlight=False, markup=False, quiet=_silent)
err_console = Console(stderr=True, highlight=False, markup=False, quiet=_silent)

JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the numbers to this file.", metavar="FILE")]
StepsOption = Annotated[
    str, typer.Option("--steps", help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")
]
RunArgument = Annotated[Path, typer.Argument(help="A run directory.", show_default=False)]
CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", help="Whose averaged weights: latest, best or a step.", metavar="WHICH")
]
ParticlesOption = Annotated[int, typer.Option("--particles", help="Latents drawn for each likelihood estimate.")]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        "--samples",
        help="Samples to compare with the data, for each number of steps. [default: 100000; texts: 256]",
        show_default=False,
    ),
]


def parse_steps(text: str, option: str = "--steps") -> list[int]:
    """ "1,2,5" -> [1, 2, 5]."""
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} takes whole numbers separated by commas, like 1,2,5; not {text!r}") from None
    if min(steps) < 1:
        raise UserError(f"{option} takes numbers of at least 1, not {min(steps)}")
    return sorted(set(steps))


def parse_checkpoint(text: str) -> "CheckpointName":
    """ "latest", "best" or a step, as :func:`vadd.runs.run.load` takes them."""
    match text:
        case "latest" | "best":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UserError(f"--checkpoint takes latest, best or a step, not {text!r}")


def refuse_existing(file: Path, overwrite: bool) -> None:
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists; name another file or add --overwrite")
    if not file.parent.is_dir():
        raise UserError(f"there is no directory {file.parent} to write {file.name} into")


def check_json(file: Path | None) -> None:
    """Before hours of work, not after: can the numbers be written there?"""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        raise UserError(f"--json: cannot write a file {file}")


@contextmanager
def progress_bar() -> "Iterator[Progress]":
    """What is being done and how far it is, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=err_console, disable=not err_console.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int = 0, total: int | None = None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield tell


class Narrator:
    """One line for each new piece of work, where training shows its own progress in between."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, what: str, done: int = 0, total: int | None = None) -> None:
        if what != self._last:
            err_console.print(what, soft_wrap=True)
            self._last = what
