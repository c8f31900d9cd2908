"""``vadd status``."""

import json as json_lines
import time
from typing import TYPE_CHECKING, Any

from vadd.cli.console import out_console, print_columns
from vadd.cli.options import JsonOption, OverwriteOption, RunArgument, check_json
from vadd.words import duration, shortened

if TYPE_CHECKING:
    from vadd.run.status import RunStatus


def status(run: RunArgument, json: JsonOption = None, overwrite: OverwriteOption = False) -> None:
    """Tell how far a training is, how fast, and how it is doing. Nothing is changed, running or not.

    A run is new, running, stopped (go on with --resume), finished, or unknown where its lock cannot be read.

    \b
    Examples:
      vadd status runs/checkers
      vadd status runs/checkers --json status.json
      watch vadd status runs/checkers
    """
    check_json(json, overwrite)
    from vadd.files import write_json
    from vadd.run.status import read_status

    found = read_status(run)
    out_console.out(f"{run}: {found.recipe} {found.model}, {found.state}")
    print_columns(_lines(found), indent="  ")
    if found.recent:
        out_console.out("last lines of metrics.jsonl:")
        for record in found.recent:
            out_console.out(f"  {shortened(json_lines.dumps(record))}")
    if json is not None:
        write_json(json, found.to_json())


def _lines(run: "RunStatus") -> list[list[str]]:
    share = f" of {run.steps} ({100 * run.step / run.steps:.1f} %)" if run.steps else ""
    left = "" if run.seconds_left is None else f", about {duration(run.seconds_left)} left"
    lines = [["step", f"{run.step}{share}"]]
    if run.steps_per_second is not None:
        lines.append(["speed", f"{run.steps_per_second:.3g} steps/s{left}"])
    lines += [[split, _losses(record)] for split, record in (("train", run.train), ("test", run.test)) if record]
    if run.latent:
        kl = f"KL {show_number(run.latent.get('kl_all_masked'))} nats at t = 1"
        lines.append(["latent", f"{run.verdict}; {kl}, {show_number(run.latent.get('kl_average'))} on average"])
    if run.skipped is not None:
        lines.append(["skipped", f"{run.skipped} steps whose loss or gradient was not finite"])
    lines.append(["checkpoints", _checkpoints(run)])
    lines.append(["last change", show_ago(run.changed)])
    return lines


def _losses(record: dict[str, Any]) -> str:
    loss, reconstruction, kl = (show_number(record.get(key)) for key in ("loss", "reconstruction", "kl"))
    return (
        f"objective {loss} nats per position; reconstruction {reconstruction} + KL {kl} nats per example "
        f"(step {record['step']})"
    )


def _checkpoints(run: "RunStatus") -> str:
    if run.latest is None:
        return "none yet"
    best = "" if run.best is None else f", best {run.best.step} (test objective {show_number(run.best.test_loss)})"
    return f"{len(run.checkpoints)} kept: latest {run.latest.step}{best}"


def show_number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def show_ago(moment: float) -> str:
    return f"{duration(max(0.0, time.time() - moment))} ago" if moment else "-"
