"""Studies of rows that are measured one after the other, each once.

OUT/report.html  OUT/results.json  OUT/tables.md  OUT/figures, and a run for each training

All of it is written anew after each part. What was trained and measured before is kept; a part that fails is named in
the tables and does not stop the others.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vadd.errors import UserError
from vadd.files import write_json
from vadd.parsing import read_json
from vadd.progress import note, warn
from vadd.report.page import PageSection
from vadd.run.directory import MANIFEST, PRIORS
from vadd.run.run import Run
from vadd.studies.comparison import Page, Result, publish
from vadd.studies.ddpm import Ddpm
from vadd.studies.study import Request, Study
from vadd.studies.trainings import measuring_of


class Row(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    seed: int = 0
    """Of the training."""
    stamp: str = ""
    """Of all that decides the numbers; a row whose stamp has not changed is not measured again."""

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


R = TypeVar("R", bound=Row)


class RowsOfStudy(ABC, Generic[R]):
    row_type: type[R]

    def __init__(self, study: Study, request: Request) -> None:
        self.study, self.request, self.setting = study, request, study.settings[request.setting]
        self.measuring = measuring_of(study, request)
        self.seconds = 60 * (self.setting.minutes if request.minutes is None else request.minutes)
        self.choice = study.choose if request.choose else None
        self.rows: list[R] = []
        self.absent: dict[str, str] = {}
        """Why a part has no rows."""
        try:
            kept = read_json(request.out / "results.json")
            rows = [self.row_type(**entry) for entry in kept if "absent" not in entry]
            self.kept = {row.stamp: row for row in rows}
        except (OSError, ValueError, TypeError, ValidationError):  # what cannot be read is measured again
            self.kept = {}

    def leave_out(self, name: str, why: str) -> None:
        note(f"{name} is left out: {why}")
        self.absent[name] = why

    def attempt(self, name: str, rows: Iterator[R]) -> None:
        """Rows as they are measured or, where that fails, why."""
        try:
            for row in rows:
                self.rows.append(row)
                write_json(self.request.out / "results.json", self.numbers())
        except (UserError, RuntimeError, ArithmeticError, MemoryError) as error:
            warn(f"{name} failed: {error}")
            self.absent[name] = f"failed: {next(iter(str(error).splitlines()), repr(error))}"
        if self.rows:
            self.publish()

    def once(self, decides: Sequence[object], measure: Callable[[], R]) -> R:
        """What was measured when all that ``decides`` was the same, or is measured now."""
        stamp = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
        return self.kept[stamp] if stamp in self.kept else measure().model_copy(update={"stamp": stamp})

    def numbers(self) -> list[dict[str, Any]]:
        return [*(row.to_json() for row in self.rows), *({"name": n, "absent": why} for n, why in self.absent.items())]

    @abstractmethod
    def section(self) -> PageSection: ...

    def publish(self) -> Result:
        if not self.rows:
            raise UserError(f"nothing could be trained and measured: {list(self.absent.values())[-1]}")
        return publish(self.request.out, Page.of(self.study, **self.names()), self.section(), self.numbers())

    def names(self) -> dict[str, str]:
        """What the texts of the study's page mention."""
        return {"setting": self.request.setting}


def absent_notes(absent: Mapping[str, str]) -> str:
    return "".join(f" {name}: {why}." for name, why in absent.items())


def checksum(*runs: "Run | Ddpm | None") -> str:
    """Of all weights and priors."""
    places = [run.place if isinstance(run, Ddpm) else run.directory.checkpoint(run.step or 0) for run in runs if run]
    files = [place / name for place in places for name in (MANIFEST, PRIORS)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()
