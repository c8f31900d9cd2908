"""``metrics.jsonl``: one line per logged step, whole lines only."""

import json
import os
from collections.abc import Mapping
from pathlib import Path


def append_metrics(file: Path, record: Mapping[str, object]) -> None:
    """Append one line in a single write, so that a reader or a crash never sees half of it."""
    with file.open("a") as stream:
        stream.write(json.dumps(record) + "\n")


def forget_after(file: Path, step: int) -> None:
    """Drop what was logged after ``step``: a resumed run logs it again. A last line that was cut off goes too."""
    if not file.exists():
        return
    kept = []
    for line in file.read_text().splitlines(keepends=True):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if line.endswith("\n") and record["step"] <= step:
            kept.append(line)
    beside = file.with_suffix(".partial")
    beside.write_text("".join(kept))
    os.replace(beside, file)
