"""Results of a run as tables that show themselves, as numbers, and as Markdown for a model card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from vadd.errors import UserError, optional
from vadd.evaluation.reports import NegativeLogLikelihood, RunReport
from vadd.parsing import read_json
from vadd.report.table import Table
from vadd.report.tables import report_tables
from vadd.run.export import CardResults

TEXT_WIDTH = 100


@dataclass(frozen=True, repr=False)
class Results:
    """The result of an evaluation. It prints as tables. ``report`` has the numbers; :meth:`to_json` returns what
    ``vadd eval --json`` writes.
    """

    report: RunReport

    @property
    def bounds(self) -> dict[int, NegativeLogLikelihood]:
        """The step bounds by number of sampling steps: ``results.bounds[4].nats``."""
        likelihood = self.report.likelihood
        bounds = () if likelihood is None else likelihood.bounds
        return {bound.steps: bound for bound in bounds if bound.steps is not None}

    @property
    def frame(self) -> Any:
        """A pandas DataFrame, one row for each number of sampling steps."""
        rows: dict[int, dict[str, Any]] = {result.steps: result.to_json() for result in self.report.results}
        for steps, bound in self.bounds.items():
            named = {f"bound_{name}": getattr(bound, name) for name in ("nats", "stderr", "bpd", "valid")}
            rows[steps] = {"steps": steps, **rows.get(steps, {}), **named}
        return frame_of([rows[steps] for steps in sorted(rows)])

    def to_json(self) -> dict[str, Any]:
        return self.report.to_json()

    def tables(self) -> list[Table]:
        return report_tables([self.report])

    def __repr__(self) -> str:
        console = Console(width=TEXT_WIDTH, highlight=False, markup=False, color_system=None, force_jupyter=False)
        with console.capture() as captured:
            for table in self.tables():
                table.print(console)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables())


def frame_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame with a row for each of these."""
    return optional("pandas", "a DataFrame needs pandas", "pandas").DataFrame.from_records(list(rows))


def card_results(file: Path) -> CardResults:
    """What ``vadd eval --json`` wrote, as tables for a model card."""
    try:
        report = RunReport.model_validate(read_json(file))
        written = "\n\n".join(table.to_markdown().strip() for table in report_tables([report]))
    except FileNotFoundError:
        raise UserError(f"there is no file {file}") from None
    except (OSError, ValueError, LookupError):
        raise UserError(f"{file} is not a report of `vadd eval --json`") from None
    return CardResults(str(file), report.recipe, report.model, report.step, written)
