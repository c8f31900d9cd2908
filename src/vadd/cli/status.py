"""``vadd status`` and ``vadd runs``."""

import json as json_lines
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from vadd.cli.console import out_console, print_columns
from vadd.cli.options import JsonOption, OverwriteOption, RunArgument
from vadd.files import write_json
from vadd.run.directory import find_runs
from vadd.run.status import RunStatus, read_status
from vadd.words import duration, shortened


def status(run: RunArgument, json: JsonOption = None, overwrite: OverwriteOption = False) -> None:
    """Show how far a training is, how fast, and how it is doing. Nothing is changed, running or not.

    A run is new, running, stopped (go on with --resume), finished, or unknown where its lock cannot be read.

    \b
    Examples:
      vadd status runs/checkers
      vadd status runs/checkers --json status.json
      watch vadd status runs/checkers
    """
    state = read_status(run)
    out_console.out(f"{run}: {state.recipe} {state.model}, {state.state}")
    print_columns(_lines(state), indent="  ")
    if state.recent:
        out_console.out("last lines of metrics.jsonl:")
        for record in state.recent:
            out_console.out(f"  {shortened(json_lines.dumps(record))}")
    if json is not None:
        write_json(json, state.to_json())


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
    states = [read_status(path, all_lines=False) for path in find_runs(directory)]
    if states:
        header = ["run", "recipe", "model", "step", "state", "test", "latent", "last change"]
        rows = [_row(run, str(Path(run.path).relative_to(directory))) for run in states]
        print_columns([header, *rows], right=frozenset({3, 5}))
        out_console.out("test: held-out objective in nats per position; of VADD it is not a likelihood bound")
    else:
        out_console.out(f"no runs in {directory}")
    if json is not None:
        write_json(json, [run.to_json() for run in states])


def _row(run: RunStatus, name: str) -> list[str]:
    return [
        name,
        run.recipe,
        run.model,
        f"{run.step}/{'?' if run.steps is None else run.steps}",
        run.state,
        _number((run.test or {}).get("loss")),
        run.verdict or "-",
        _ago(run.changed),
    ]


def _lines(run: RunStatus) -> list[list[str]]:
    share = f" of {run.steps} ({100 * run.step / run.steps:.1f} %)" if run.steps else ""
    left = "" if run.seconds_left is None else f", about {duration(run.seconds_left)} left"
    lines = [["step", f"{run.step}{share}"]]
    if run.steps_per_second is not None:
        lines.append(["speed", f"{run.steps_per_second:.3g} steps/s{left}"])
    lines += [[split, _losses(record)] for split, record in (("train", run.train), ("test", run.test)) if record]
    if run.latent:
        kl = f"KL {_number(run.latent.get('kl_all_masked'))} nats at t = 1"
        lines.append(["latent", f"{run.verdict}; {kl}, {_number(run.latent.get('kl_average'))} on average"])
    if run.skipped is not None:
        lines.append(["skipped", f"{run.skipped} steps whose loss or gradient was not finite"])
    lines.append(["checkpoints", _checkpoints(run)])
    lines.append(["last change", _ago(run.changed)])
    return lines


def _losses(record: dict[str, Any]) -> str:
    loss, reconstruction, kl = (_number(record.get(key)) for key in ("loss", "reconstruction", "kl"))
    return (
        f"objective {loss} nats per position; reconstruction {reconstruction} + KL {kl} nats per example "
        f"(step {record['step']})"
    )


def _checkpoints(run: RunStatus) -> str:
    if run.latest is None:
        return "none yet"
    best = "" if run.best is None else f", best {run.best.step} (test objective {_number(run.best.test_loss)})"
    return f"{len(run.checkpoints)} kept: latest {run.latest.step}{best}"


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def _ago(moment: float) -> str:
    return f"{duration(max(0.0, time.time() - moment))} ago" if moment else "-"
