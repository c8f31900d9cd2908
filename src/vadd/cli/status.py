"""``vadd status``, ``vadd runs`` and ``vadd recipes``: from files alone, without torch."""

import json
import time
from pathlib import Path
from typing import Any

import vadd
from vadd.cli.console import out_console, print_columns
from vadd.cli.syntax import Recipes, Runs, Status
from vadd.presets import recipe_about, recipe_names
from vadd.run.directory import find_runs
from vadd.run.status import RunStatus, read_status
from vadd.words import duration, shortened

DEFAULT = Path("runs")


def status(options: Status) -> None:
    state = read_status(options.run)
    fitting = "".join(f", the {name} prior is being fitted" for name in state.fitting)
    out_console.out(f"{options.run}: {state.recipe} {state.model}, {state.state}{fitting}")
    print_columns(_lines(state), indent="  ")
    if state.recent:
        out_console.out("last lines of metrics.jsonl:")
        for record in state.recent:
            out_console.out(f"  {shortened(json.dumps(record), 200)}")
    options.write(state.to_json())


def runs(options: Runs) -> None:
    there = options.directory != DEFAULT or DEFAULT.is_dir()  # in a fresh folder it does not exist yet
    states = [read_status(path, all_lines=False) for path in find_runs(options.directory)] if there else []
    if states:
        header = ["run", "recipe", "model", "step", "state", "test", "latent", "last change"]
        rows = [_row(run, str(Path(run.path).relative_to(options.directory))) for run in states]
        print_columns([header, *rows], right=(3, 5))
        out_console.out("test: held-out objective in nats per position; of VADD it is not a likelihood bound")
    else:
        out_console.out(f"no runs in {options.directory}; those of another folder: vadd runs DIR")
        out_console.out("to train one: vadd demo, vadd train RECIPE (see `vadd recipes`), or vadd train --data FILE")
    options.write([run.to_json() for run in states])


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


def recipes(options: Recipes) -> None:
    if options.name is None:
        print_columns([[name, recipe_about(name)] for name in recipe_names()])
    else:
        out_console.out(vadd.load_recipe(options.name).to_yaml(), end="")
