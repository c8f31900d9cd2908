"""What was measured about a run, as tables that show themselves and as numbers to go on with."""

import html
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from vadd.evaluation.reports import NegativeLogLikelihood, RunReport
from vadd.report.frames import frame_of
from vadd.report.label_tables import label_table
from vadd.report.table_tables import imputation_table
from vadd.report.tables import Table, bound_table, latent_table, nearest_table
from vadd.report.text_tables import quality_table
from vadd.report.zero_shot import zero_shot_table

TEXT_WIDTH = 100


class Results:
    """Shown as tables; ``report`` has the numbers, :meth:`to_json` those of ``vadd eval --json``."""

    def __init__(self, report: RunReport) -> None:
        self.report = report

    @property
    def bounds(self) -> dict[int, NegativeLogLikelihood]:
        """The step bounds by number of sampling steps: ``results.bounds[4].nats``."""
        likelihood = self.report.likelihood
        found = () if likelihood is None else likelihood.bounds
        return {bound.steps: bound for bound in found if bound.steps is not None}

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

    def tables(self) -> Iterator[Table]:
        report = self.report
        if report.results:
            yield quality_table([report])
        if (by_label := label_table([report])) is not None:
            yield by_label
        if report.imputation is not None:
            yield imputation_table([report])
        if report.nearest is not None:
            yield nearest_table([report])
        if report.likelihood is not None:
            yield bound_table([report])
        if report.zero_shot is not None:
            yield zero_shot_table(report)
        if report.latent is not None:
            yield latent_table([report])

    def __repr__(self) -> str:
        console = Console(width=TEXT_WIDTH, highlight=False, markup=False, color_system=None, force_jupyter=False)
        with console.capture() as captured:
            for table in self.tables():
                table.print(console)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        return "".join(map(_as_html, self.tables()))


def _as_html(table: Table) -> str:
    def row(tag: str, cells: "list[str]") -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in table.text_rows())
    note = f"<p><small>{html.escape(table.note)}</small></p>" if table.note else ""
    return f"<b>{html.escape(table.title)}</b><table>{row('th', list(table.columns))}{body}</table>{note}"
