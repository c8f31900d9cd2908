"""Whether runs have learned from the same data: only then can their numbers be compared."""

from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.run.run import Run

READING = frozenset({"tokenizer", "tokenizer_path", "vocabulary", "length", "wrap", "documents", "field"})
SIZES = frozenset({"train_size", "test_size", "test_fraction"})
"""Keys of the section ``data`` in which runs on the same data may differ."""


def check_same_data(runs: Sequence[Run]) -> None:
    """Refuse runs whose data differ in more than how they are read and divided."""
    first = runs[0]
    for other in runs[1:]:
        if first.fingerprint is not None and first.fingerprint == other.fingerprint:
            continue
        ours, theirs = (_source_of_data(run, first.is_exported or other.is_exported) for run in (first, other))
        different = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if different:
            shown = "; ".join(f"{key} is {ours.get(key)!r} and {theirs.get(key)!r}" for key in different)
            names = f"{first.directory.path} and {other.directory.path}"
            raise UserError(f"{names} have learned from different data: {shown}")


def _source_of_data(run: Run, name_only: bool) -> dict[str, object]:
    """``name_only`` where paths were left out of an export."""
    section = run.recipe.data
    if section.kind == "given":  # made in Python; every run keeps its own copy
        return {"data.kind": "given", "shape": run.kind.shape, "vocab_size": run.kind.vocab_size}
    content = {key: value for key, value in section.model_dump(mode="json").items() if key not in READING | SIZES}
    if content.get("path") and name_only:
        content["path"] = Path(str(content["path"])).name
    return {f"data.{key}": value for key, value in content.items()}
