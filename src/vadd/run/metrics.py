"""``metrics.jsonl``: one line per logged step, whole lines only."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vadd.files import write_whole
from vadd.progress import warn
from vadd.run.directory import parse_record


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
            descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
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
    """What the steps of a ``metrics.jsonl`` took, evaluations and pauses left out; None where no speed was logged."""
    seconds, before = 0.0, 0
    for record in records:
        if record["split"] == "train":
            speed = record.get("steps_per_second")
            if speed is not None and speed > 0:  # not NaN either
                seconds += (record["step"] - before) / speed
            before = record["step"]
    return seconds or None


def forget_after(file: Path, step: int) -> None:
    """Drop what was logged after ``step``: a resumed run logs it again. A last line that was cut off goes too."""
    if not file.exists():
        return
    kept = []
    content = file.read_bytes()
    for line in content.splitlines(keepends=True):
        record = parse_record(line)
        if record is not None and line.endswith(b"\n") and record["step"] <= step:
            kept.append(line)
    if b"".join(kept) != content:
        write_whole(file, b"".join(kept))
