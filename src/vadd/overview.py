"""How runs are doing, told by their files alone. No model is built, torch is not imported, and nothing is written."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import yaml

from vadd.errors import UserError
from vadd.training.lock import TAKEN, RunLock

RECIPE, METRICS, CHECKPOINTS, MANIFEST = "recipe.yaml", "metrics.jsonl", "checkpoints", "checkpoint.json"
"""The layout of :class:`vadd.run.RunDirectory`, which cannot be imported without torch."""

EXPORTED = "config.json"
"""What exported models have beside a recipe, see :mod:`vadd.exported`."""
TAIL_BYTES = 2**16
"""Where only the newest lines are wanted; hundreds of them."""
SPEED_LINES = 10
RECENT_LINES = 5

State = Literal["running", "finished", "stopped", "new", "unknown"]
Record = dict[str, Any]


@dataclass(frozen=True)
class SavedStep:
    step: int
    test_loss: float | None
    """The held-out objective in nats per position, if it was measured at this step."""


@dataclass(frozen=True)
class RunStatus:
    path: str
    recipe: str
    model: str
    state: State
    step: int
    """The last one that was logged or saved."""
    steps: int | None
    """As many as the recipe asks for; None where the recipe cannot be read."""
    steps_per_second: float | None
    train: Record | None
    """The newest line of metrics of each kind."""
    test: Record | None
    latent: Record | None
    skipped: int | None
    """Steps whose loss or gradient was not finite; None where that was not recorded, or not all lines were read."""
    checkpoints: tuple[SavedStep, ...]
    """Those that are kept, oldest first."""
    changed: float
    """When the run was last written to, in seconds since 1970."""
    recent: tuple[Record, ...] = field(default=(), repr=False)

    @property
    def seconds_left(self) -> float | None:
        """At the present speed, without the time that evaluating and saving take."""
        if self.state == "finished" or self.steps is None or not self.steps_per_second:
            return None
        return max(0, self.steps - self.step) / self.steps_per_second

    @property
    def latest(self) -> SavedStep | None:
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def best(self) -> SavedStep | None:
        """The lowest held-out objective; the older one of equals."""
        measured = [(saved.test_loss, saved.step, saved) for saved in self.checkpoints if saved.test_loss is not None]
        return min(measured)[-1] if measured else None

    @property
    def verdict(self) -> str | None:
        return None if self.latent is None else latent_verdict(self.latent)

    def to_json(self) -> Record:
        return {
            **asdict(self),
            "seconds_left": self.seconds_left,
            "latest": self.latest and self.latest.step,
            "best": self.best and self.best.step,
            "verdict": self.verdict,
        }


def read_status(path: Path, *, all_lines: bool = True) -> RunStatus:
    """Of one run. Without ``all_lines`` only the newest metrics are read, however long the file is."""
    problem = None
    if not path.is_dir():
        problem = "it is not a directory" if path.exists() else "there is no such directory"
    elif not (path / RECIPE).is_file():
        problem = f"it has no {RECIPE}"
    elif (path / EXPORTED).is_file():
        problem = "it is an exported model, which does not tell of its training"
    if problem is not None:
        raise UserError(f"{path} is not a run: {problem}")
    name, model, steps = _recipe(path)
    records = read_records(path / METRICS, None if all_lines else TAIL_BYTES)
    if not all_lines and not any(record["split"] == "test" for record in records):
        records = read_records(path / METRICS)  # evaluated rarely: the newest one lies further back
    by_split = {split: [r for r in records if r["split"] == split] for split in ("train", "test", "latent")}
    newest = {split: found[-1] if found else None for split, found in by_split.items()}
    saved = tuple(_checkpoints(path / CHECKPOINTS))
    step = max([record["step"] for record in records[-1:]] + [one.step for one in saved[-1:]], default=0)
    counted = [record["skipped"] for record in by_split["train"] if isinstance(record.get("skipped"), int)]
    return RunStatus(
        path=str(path),
        recipe=name,
        model=model,
        state=_state(path, step, steps, saved),
        step=step,
        steps=steps,
        steps_per_second=_speed(by_split["train"]),
        train=newest["train"],
        test=newest["test"],
        latent=newest["latent"],
        skipped=sum(counted) if counted and all_lines else None,
        checkpoints=saved,
        changed=_last_change(path),
        recent=tuple(records[-RECENT_LINES:]),
    )


def latent_verdict(record: Mapping[str, Any]) -> str | None:
    """On a line of metrics, in the words of :class:`vadd.core.LatentHealth`."""
    active, dimensions = record.get("active_units"), record.get("dimensions")
    if not isinstance(active, int) or not isinstance(dimensions, int):
        return None
    if active == 0:
        return f"collapsed: none of {dimensions} dimensions varies with the data"
    return f"{active} of {dimensions} dimensions active"


def find_runs(root: Path) -> list[Path]:
    """All runs in ``root`` and below, sorted. Nothing is looked for inside a run."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}")
    found = []
    for folder, below, files in os.walk(root):
        if RECIPE in files and CHECKPOINTS in below and EXPORTED not in files:
            found.append(Path(folder))
            below.clear()
        below[:] = [name for name in below if not name.startswith(".")]
    return sorted(found)


def read_records(file: Path, most_bytes: int | None = None) -> list[Record]:
    """The lines of a ``metrics.jsonl``, of the last ``most_bytes`` if given. Torn and foreign lines are passed over."""
    try:
        with file.open("rb") as stream:
            skipped = 0 if most_bytes is None else max(0, stream.seek(0, os.SEEK_END) - most_bytes)
            stream.seek(skipped)
            lines = stream.read().split(b"\n")
    except OSError:
        return []
    return [record for line in lines[bool(skipped) : -1] if (record := _record(line)) is not None]


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(record, dict) and type(record.get("step")) is int and isinstance(record.get("split"), str)
    return record if whole else None


def _recipe(path: Path) -> tuple[str, str, int | None]:
    """Name, model and steps, also of recipes that this version could not train any more."""
    try:
        content = yaml.safe_load((path / RECIPE).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        content = None
    content = content if isinstance(content, dict) else {}
    training = content.get("training")
    steps = training.get("steps") if isinstance(training, dict) else None
    return str(content.get("name", "?")), str(content.get("model", "?")), steps if type(steps) is int else None


def _checkpoints(root: Path) -> Iterator[SavedStep]:
    numbers = [path.name.removeprefix("step-") for path in root.glob("step-*")]
    for number in sorted((number for number in numbers if number.isdigit()), key=int):
        try:
            loss = json.loads((root / f"step-{number}" / MANIFEST).read_text())["test_loss"]
        except (OSError, ValueError, KeyError, TypeError):
            loss = None
        finite = isinstance(loss, int | float) and math.isfinite(loss)
        yield SavedStep(int(number), float(loss) if finite else None)


def _speed(train: Sequence[Record]) -> float | None:
    """Steps per second over the newest lines: all their steps over all their time."""
    steps = seconds = 0.0
    for before, record in pairwise(train[-SPEED_LINES - 1 :]):
        speed, done = record.get("steps_per_second"), record["step"] - before["step"]
        if isinstance(speed, int | float) and speed > 0 and done > 0:
            steps, seconds = steps + done, seconds + done / speed
    if seconds:
        return steps / seconds
    only = train[-1].get("steps_per_second") if train else None
    return float(only) if isinstance(only, int | float) else None


def _state(path: Path, step: int, steps: int | None, saved: Sequence[SavedStep]) -> State:
    running = is_locked(path)
    if running:
        return "running"
    if steps is not None and saved and saved[-1].step >= steps:
        return "finished"
    if running is None:
        return "unknown"
    return "stopped" if step else "new"


def _last_change(path: Path) -> float:
    times = []
    for file in (path / RECIPE, path / METRICS, path / CHECKPOINTS):
        with contextlib.suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times, default=0.0)


def is_locked(directory: Path) -> bool | None:
    """Whether a training holds the lock of a run; None where the file system does not tell."""
    try:
        descriptor = os.open(directory / RunLock.NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        _try(descriptor)
    except OSError as error:
        return True if error.errno in TAKEN else None
    else:
        return False
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try(descriptor: int) -> None:
        # Shared: two who look at the same time do not take each other for a training. Closing the file gives it back,
        # and a training that starts at this very moment tries again.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
