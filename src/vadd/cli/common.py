"""What the commands share: parsing, files that must not be lost, and something to look at while waiting."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vadd.errors import UserError

out_console = Console(highlight=False)
err_console = Console(stderr=True, highlight=False)

JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the numbers to this file.", metavar="FILE")]
StepsOption = Annotated[
    str, typer.Option("--steps", help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")
]
SamplesOption = Annotated[
    int, typer.Option("--samples", help="Samples to compare with the data, for each number of steps.")
]


def parse_steps(text: str) -> list[int]:
    """ "1,2,5" -> [1, 2, 5]."""
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--steps takes whole numbers separated by commas, like 1,2,5; not {text!r}") from None
    if min(steps) < 1:
        raise UserError(f"--steps takes numbers of at least 1, not {min(steps)}")
    return sorted(set(steps))


def refuse_existing(file: Path, overwrite: bool) -> None:
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists; name another file or add --overwrite")
    if not file.parent.is_dir():
        raise UserError(f"there is no directory {file.parent} to write {file.name} into")


@contextmanager
def waiting(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, on a terminal only."""
    with err_console.status(first) as status:
        yield status.update


def narrate(text: str) -> None:
    """One line per piece of work, where training shows its own progress in between."""
    err_console.print(text, soft_wrap=True)
