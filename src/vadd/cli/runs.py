"""``vadd runs``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.console import out_console, print_columns
from vadd.cli.options import JsonOption, OverwriteOption, check_json
from vadd.cli.status import show_ago, show_number

if TYPE_CHECKING:
    from vadd.run.status import RunStatus


def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look, at any depth.")] = Path("runs"),
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """List all runs below a directory: how far they are and how they are doing.

    \b
    Examples:
      vadd runs
      vadd runs ~/experiments --json runs.json
    """
    check_json(json, overwrite)
    from vadd.files import write_json
    from vadd.run.directory import find_runs
    from vadd.run.status import read_status

    found = [read_status(path, all_lines=False) for path in find_runs(directory)]
    if found:
        header = ["run", "recipe", "model", "step", "state", "test", "latent", "last change"]
        rows = [_row(run, str(Path(run.path).relative_to(directory))) for run in found]
        print_columns([header, *rows], right=frozenset({3, 5}))
        out_console.out("test: held-out objective in nats per position; of VADD it is not a likelihood bound")
    else:
        out_console.out(f"no runs in {directory}")
    if json is not None:
        write_json(json, [run.to_json() for run in found])


def _row(run: "RunStatus", name: str) -> list[str]:
    return [
        name,
        run.recipe,
        run.model,
        f"{run.step}/{'?' if run.steps is None else run.steps}",
        run.state,
        show_number((run.test or {}).get("loss")),
        run.verdict or "-",
        show_ago(run.changed),
    ]
