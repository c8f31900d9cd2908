"""How runs are doing, from their files alone. No model is built, torch is not imported, and nothing is written."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from vadd.files import flush_to_disk, write_whole
from vadd.parsing import parse_yaml, read_small_text
from vadd.progress import warn
from vadd.run.directory import PriorName, Record, RunDirectory, SavedStep, best_of, parse_record, read_records

TAIL_BYTES = 2**16
"""Where only the newest lines are wanted; hundreds of them."""
SPEED_LINES = 10
RECENT_LINES = 5

State = Literal["running", "finished", "stopped", "new", "unknown"]


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
    fitting: tuple[PriorName, ...] = ()
    """Priors that a process is fitting now."""

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
        return best_of(self.checkpoints)

    @property
    def verdict(self) -> str | None:
        return latent_verdict(self.latent or {})

    def to_json(self) -> Record:
        saved = [{"step": one.step, "test_loss": one.test_loss} for one in self.checkpoints]
        return {
            **asdict(self),
            "checkpoints": saved,
            "seconds_left": self.seconds_left,
            "latest": self.latest and self.latest.step,
            "best": self.best and self.best.step,
            "verdict": self.verdict,
        }


def read_status(path: Path, *, all_lines: bool = True) -> RunStatus:
    """Of one run. Without ``all_lines`` only the newest metrics are read, however long the file is."""
    directory = RunDirectory.open(path)
    name, model, steps = _recipe(directory)
    records = read_records(directory.metrics_file, None if all_lines else TAIL_BYTES)
    if not all_lines and not any(record["split"] == "test" for record in records):
        records = read_records(directory.metrics_file)  # evaluated rarely: the newest one lies further back
    by_split = {split: [r for r in records if r["split"] == split] for split in ("train", "test", "latent")}
    newest = {split: lines[-1] if lines else None for split, lines in by_split.items()}
    saved = tuple(directory.saved_steps())
    files = (directory.recipe_file, directory.metrics_file, directory.checkpoints_directory)
    # After a crash the metrics may be ahead of the newest checkpoint; on a full disk they may be behind it.
    step = max([record["step"] for record in records[-1:]] + [one.step for one in saved[-1:]], default=0)
    counted = [record["skipped"] for record in by_split["train"] if isinstance(record.get("skipped"), int)]
    return RunStatus(
        path=str(path),
        recipe=name,
        model=model,
        state=_state(directory, step, steps, saved),
        step=step,
        steps=steps,
        steps_per_second=_speed(by_split["train"]),
        train=newest["train"],
        test=newest["test"],
        latent=newest["latent"],
        skipped=sum(counted) if counted and all_lines else None,
        checkpoints=saved,
        changed=max((file.stat().st_mtime for file in files if file.exists()), default=0.0),
        recent=tuple(records[-RECENT_LINES:]),
        fitting=tuple(name for name in get_args(PriorName) if directory.fit_lock(name).is_held()),
    )


def latent_verdict(record: Mapping[str, Any]) -> str | None:
    """On a line of metrics, in the words of :class:`vadd.core.LatentHealth`."""
    active, dimensions = record.get("active_units"), record.get("dimensions")
    if not isinstance(active, int) or not isinstance(dimensions, int):
        return None
    collapsed = f"collapsed: none of {dimensions} dimensions varies with the data"
    return f"{active} of {dimensions} dimensions active" if active else collapsed


def _recipe(directory: RunDirectory) -> tuple[str, str, int | None]:
    """Name, model and steps, also of recipes that this version could not train any more."""
    try:
        content = parse_yaml(read_small_text(directory.recipe_file))
    except (OSError, ValueError):
        content = None
    content = content if isinstance(content, dict) else {}
    training = content.get("training")
    steps = training.get("steps") if isinstance(training, dict) else None
    return str(content.get("name", "?")), str(content.get("model", "?")), steps if type(steps) is int else None


def _speed(train: Sequence[Record]) -> float | None:
    """Steps per second over the newest lines: all their steps over all their time."""
    newest = train[-SPEED_LINES - 1 :]
    steps, seconds = timed(newest[1:], newest[0]["step"]) if len(newest) > 1 else timed(newest)
    return steps / seconds if seconds else None


def timed(records: Iterable[Mapping[str, Any]], before: int = 0) -> tuple[int, float]:
    """The steps after ``before`` of which the speed was logged, and their seconds; evaluations and pauses left out."""
    steps, seconds = 0, 0.0
    for record in records:
        if record["split"] == "train":
            speed, done = record.get("steps_per_second"), record["step"] - before
            if isinstance(speed, int | float) and speed > 0 and done > 0:  # not NaN either
                steps, seconds = steps + done, seconds + done / speed
            before = record["step"]
    return steps, seconds


def _state(directory: RunDirectory, step: int, steps: int | None, saved: Sequence[SavedStep]) -> State:
    running = directory.lock.is_held()
    if running:
        return "running"
    if steps is not None and saved and saved[-1].step >= steps:
        return "finished"
    if running is None:
        return "unknown"
    return "stopped" if step else "new"


class MetricsLog:
    """Appends lines, each in a single write. What a full disk refuses is kept and written with the next line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._waiting: list[bytes] = []

    def append(self, record: Mapping[str, object]) -> None:
        self._waiting.append(json.dumps(record).encode() + b"\n")
        try:
            _append_whole(self.file, b"".join(self._waiting))
        except OSError as error:
            # One warning, not one at every step.
            if len(self._waiting) == 1:
                warn(f"cannot write to {self.file}: {error.strerror or error}; its lines wait in memory")
        else:
            self._waiting.clear()

    def flush_to_disk(self) -> None:
        """Before a checkpoint claims that the lines up to its step are there."""
        try:
            if self.file.exists():
                flush_to_disk(self.file)
        except OSError as error:
            warn(f"cannot flush {self.file}: {error.strerror or error}")


def _append_whole(file: Path, content: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # A single write to a file opened with O_APPEND: readers see whole lines, whenever they look.
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, content) < len(content):  # the disk became full in the middle
            os.ftruncate(descriptor, before)
            raise OSError("only a part could be written")
    finally:
        os.close(descriptor)


def training_seconds(records: Iterable[Mapping[str, Any]]) -> float | None:
    """What the steps of a ``metrics.jsonl`` took; None where no speed was logged."""
    return timed(records)[1] or None


def forget_after(file: Path, step: int) -> None:
    """Drop what was logged after ``step``: a resumed run logs it again. A last line that was cut off goes too."""
    if not file.exists():
        return
    content = file.read_bytes()
    lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    kept = b"".join(line for line in lines if (record := parse_record(line)) is not None and record["step"] <= step)
    if kept != content:
        write_whole(file, kept)
