"""What all studies leave, and the two ways there: runs evaluated side by side, and rows that are measured one after the
other, each once.

OUT/report.html      everything on one self-contained page
OUT/results.json     the numbers, a list with one entry per run or row
OUT/tables.md        the tables as Markdown, to paste elsewhere
OUT/figures/*.png
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vadd.errors import UserError
from vadd.evaluation import BoundSettings, EvaluationOptions, RunReport, evaluate
from vadd.evaluation.evaluate import Evaluation
from vadd.evaluation.likelihood import has_latent
from vadd.files import write_json
from vadd.parallel import is_main
from vadd.parsing import read_json
from vadd.progress import Progress, named, note, silent, warn
from vadd.recipe import Recipe
from vadd.report.figures import save_figure
from vadd.report.likelihood_tables import bound_table, latent_table
from vadd.report.notes import NOTES
from vadd.report.page import PageSection, write_page
from vadd.report.table import Table, model_label, report_names
from vadd.report.tables import sample_tables, side_by_side
from vadd.run.directory import MANIFEST, PRIORS
from vadd.run.run import Run
from vadd.studies.ddpm import Ddpm
from vadd.studies.equal_time import chosen_words
from vadd.studies.figures import comparison_figures
from vadd.studies.study import Request, Study
from vadd.studies.trainings import measuring_of
from vadd.words import typed_command


@dataclass(frozen=True)
class Measurements:
    """What is measured of every run."""

    steps: Sequence[int]
    samples: int | None = None
    bounds: BoundSettings | None = None
    options: EvaluationOptions = EvaluationOptions()  # noqa: RUF009  # frozen


@dataclass(frozen=True)
class Page:
    title: str
    introduction: str
    command: str = ""
    """That makes the report again, unless the process is a ``vadd`` command itself."""
    heading: tuple[PageSection, ...] = ()
    """What stands before the results."""

    @classmethod
    def of(cls, study: Study, **names: str) -> "Page":
        title, introduction = study.title.format(**names), study.introduction.format(**names)
        return cls(title, introduction, f"vadd reproduce {study.name}")

    @property
    def commands(self) -> list[str]:
        return [command for command in [typed_command() or self.command] if command]

    def write(self, out: Path, sections: Sequence[PageSection], numbers: list[dict[str, Any]]) -> Path:
        """Also its tables as Markdown, and the numbers; by the main process."""
        if is_main():
            write_json(out / "results.json", numbers)
            tables = [table.to_markdown() for section in sections for table in section.tables]
            (out / "tables.md").write_text("\n".join(tables))
            write_page(out / "report.html", self.title, self.introduction, [*self.heading, *sections])
        return out / "report.html"


@dataclass(frozen=True)
class Result:
    """What a study leaves."""

    tables: Sequence[Table]
    """For the terminal."""
    numbers: list[dict[str, Any]]
    """As in ``results.json``."""
    page: Path


def publish(out: Path, page: Page, section: PageSection, numbers: list[dict[str, Any]]) -> Result:
    """The report of a study that has one section."""
    return Result(section.tables, numbers, page.write(out, [replace(section, commands=page.commands)], numbers))


def compare(
    runs: Sequence[Run],
    out: Path,
    measurements: Measurements,
    page: Page,
    tables: Callable[[Sequence[RunReport]], Sequence[Table]] = lambda reports: (),
    progress: Progress = silent,
) -> tuple[list[RunReport], Path]:
    """Evaluate every run at every number of steps and write the report, with ``tables`` first on its page; numbers are
    on disk once they are known.
    """
    evaluations: list[Evaluation] = []
    for run in runs:
        before = [evaluation.report for evaluation in evaluations]

        def keep(report: RunReport, before: Sequence[RunReport] = before) -> None:
            write_json(out / "results.json", [each.to_json() for each in (*before, report)])

        evaluation = evaluate(
            run,
            run.possible_steps(measurements.steps),
            measurements.samples,
            bounds=bounds_for(run, measurements.bounds),
            options=measurements.options,
            grown=keep,
            progress=named(progress, f"{run.recipe.name} {model_label(run.recipe.model)}"),
        )
        report = evaluation.report.changed(chosen=chosen_words(run.directory.path))
        evaluations.append(replace(evaluation, report=report))
    reports = [evaluation.report for evaluation in evaluations]
    sections: list[PageSection] = []
    if is_main():
        progress("the figures")
        pictures = {
            name: (alternative, save_figure(figure, out / "figures" / f"{name}.png"))
            for name, (alternative, figure) in comparison_figures(runs, evaluations).items()
        }
        sections = [PageSection("Results", tables=tables(reports)), *_sections(runs, evaluations, pictures, page)]
    shown = [section for section in sections if section.figures or section.tables]
    return reports, page.write(out, shown, [report.to_json() for report in reports])


def bounds_for(run: Run, bounds: BoundSettings | None) -> BoundSettings | None:
    """The bounds that exist for a run: no DELBO with one z for all steps."""
    if bounds is None or run.likelihood_kind().kind == "none":
        return None
    if has_latent(run) and run.sampling.latent_policy == "fixed":
        bounds = replace(bounds, delbo_draws=0)
    return replace(bounds, steps=run.possible_steps(bounds.steps))


def _sections(
    runs: Sequence[Run], evaluations: Sequence[Evaluation], pictures: dict[str, tuple[str, Path]], page: Page
) -> list[PageSection]:
    reports = [evaluation.report for evaluation in evaluations]

    def shown(*names: str) -> list[tuple[str, Path]]:
        return [pictures[name] for name in names if name in pictures]

    rows = zip(report_names(reports), runs, evaluations, strict=True)
    texts = {name: evaluation.shown for name, run, evaluation in rows if run.kind.name == "text" and evaluation.shown}
    likelihoods = [report.likelihood for report in reports if report.likelihood]
    scores_pads = all(likelihood.scores_pads for likelihood in likelihoods)
    bounded = NOTES["likelihood"] if scores_pads else f"{NOTES['padded_likelihood']} {NOTES['pads']}"
    bounds = [bound_table(reports), latent_table(reports)] if likelihoods else []
    padded = any(run.model.pad is not None for run in runs)
    trained = f"{NOTES['training']} {NOTES['padded_training' if padded else 'training_bounds']}"
    samples = shown("one-step", "by-steps", "marginals", "pairs", "grids", "denoising")
    distances = shown("divergence", "texts", "temperatures")
    return [
        PageSection("Samples", tables=[side_by_side(texts)] if texts else [], figures=samples),
        PageSection("Distance from the data", "", distances, sample_tables(reports), page.commands),
        PageSection("Likelihood", bounded, shown("bounds"), bounds),
        PageSection("The latent", NOTES["traversal"], shown("traversal")),
        PageSection("Training", trained, shown("training")),
    ]


class Row(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    seed: int = 0
    """Of the training."""
    stamp: str = ""
    """Of all that decides the numbers; a row whose stamp has not changed is not measured again."""


R = TypeVar("R", bound=Row)


class RowsOfStudy(ABC, Generic[R]):
    """The report is written anew after each part; one that fails is named there and does not stop the others."""

    row_type: type[R]

    def __init__(self, study: Study, request: Request, recipes: Mapping[str, Recipe]) -> None:
        self.study, self.request, self.setting = study, request, study.settings[request.setting]
        self.recipes = recipes
        self.measuring = measuring_of(study, request)
        self.seconds = 60 * (self.setting.minutes if request.minutes is None else request.minutes)
        self.choice = study.choose if request.choose else None
        if self.choice is not None and self.setting.set_aside is not None:
            self.choice = self.choice.model_copy(update={"set_aside": self.setting.set_aside})
        self.rows: list[R] = []
        self.absent: dict[str, str] = {}
        """Why a part has no rows."""
        self.file = request.out / "results.json"
        try:
            rows = [self.row_type(**entry) for entry in read_json(self.file) if "absent" not in entry]
        except (OSError, ValueError, TypeError, ValidationError):  # what cannot be read is measured again
            rows = []
        self.kept = {row.stamp: row for row in rows}

    @abstractmethod
    def parts(self, seed: int) -> Iterator[tuple[str, Iterator[R]]]:
        """The rows of one training of everything, by the name that is said where they fail."""

    @abstractmethod
    def section(self) -> PageSection: ...

    def names(self) -> dict[str, str]:
        """What the texts of the study's page mention."""
        return {"setting": self.request.setting}

    def measured(self, absent: Mapping[str, str]) -> Result:
        """All parts with all seeds, but those that are ``absent``."""
        for name, why in absent.items():
            note(f"{name} is left out: {why}")
            self.absent[name] = why
        result: Result | None = None
        for name, rows in chain.from_iterable(map(self.parts, range(self.request.seeds))):
            try:
                for row in rows:
                    self.rows.append(row)
                    write_json(self.file, self.numbers())
            except (UserError, RuntimeError, ArithmeticError, MemoryError) as error:
                warn(f"{name} failed: {error}")
                self.absent[name] = f"failed: {next(iter(str(error).splitlines()), repr(error))}"
            if self.rows:
                page = Page.of(self.study, **self.names())
                result = publish(self.request.out, page, self.section(), self.numbers())
        if result is None:
            raise UserError(f"nothing could be trained and measured: {list(self.absent.values())[-1]}")
        return result

    def once(self, decides: Sequence[object], measure: Callable[[], R]) -> R:
        """What was measured when all that ``decides`` was the same, or is measured now."""
        stamp = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
        return self.kept[stamp] if stamp in self.kept else measure().model_copy(update={"stamp": stamp})

    def numbers(self) -> list[dict[str, Any]]:
        absent = [{"name": name, "absent": why} for name, why in self.absent.items()]
        return [row.model_dump(mode="json") for row in self.rows] + absent


def absent_notes(absent: Mapping[str, str]) -> str:
    return "".join(f" {name}: {why}." for name, why in absent.items())


def checksum(*runs: Run | Ddpm | None) -> str:
    """Of all weights and priors."""
    places = [run.place if isinstance(run, Ddpm) else run.directory.checkpoint(run.step or 0) for run in runs if run]
    files = [place / name for place in places for name in (MANIFEST, PRIORS)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()
