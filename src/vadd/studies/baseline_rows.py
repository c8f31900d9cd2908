"""What `vadd reproduce baselines` finds of its models, and how that is kept on disk."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from vadd.parsing import read_json


@dataclass(frozen=True)
class Row:
    """What one model costs and gives with one number of sampling steps."""

    model: str
    name: str
    steps: int
    evaluations: float
    """Calls of the network for a chunk of samples."""
    sequences: float
    """Sequences shown to networks, for each sample."""
    seconds: float
    """Of processor time, for each sample."""
    metrics: dict[str, Any]
    measure: str | None
    """Which of the metrics is the quality; None where texts had no judge."""
    nats: float | None
    """The step bound (AR: the exact value) of held-out examples."""
    nats_stderr: float | None
    bound_valid: bool | None
    training_steps: int
    parameters: int
    exact_sampler: bool
    samples: int = 0
    """That were judged."""
    reference: float | None = None
    """The quality of as many held-out examples, or of all there are."""
    training_seconds: float | None = None
    """Of processor time, the fit of a learned prior included."""
    measuring_seconds: float = 0.0
    """Of processor time, for drawing, judging and bounding."""
    stamp: str = ""
    """Of all that decides the numbers; a row whose stamp has not changed need not be measured again."""

    @property
    def quality(self) -> float | None:
        """The number that figures show; smaller is better."""
        return None if self.measure is None else float(self.metrics[self.measure])

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"quality": self.quality}


@dataclass(frozen=True)
class Absent:
    """A model that has no rows of its own."""

    name: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "absent": self.why}


def to_json(rows: Sequence[Row], absent: Sequence[Absent]) -> list[dict[str, Any]]:
    """For ``results.json``."""
    return [*(row.to_json() for row in rows), *(each.to_json() for each in absent)]


def rows_kept(file: Path) -> dict[tuple[str, int], Row]:
    """Rows that were measured before, by name and number of steps; what cannot be read is measured again."""
    known = {field.name for field in fields(Row)}
    try:
        entries = [dict(entry) for entry in read_json(file)]
        rows = [Row(**{key: entry[key] for key in known if key in entry}) for entry in entries if "absent" not in entry]
    except (OSError, ValueError, TypeError):
        return {}
    return {(row.name, row.steps): row for row in rows}
