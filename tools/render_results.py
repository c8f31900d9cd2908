"""Write the tables and the figure of docs/results that come from JSON: `python tools/render_results.py` after a study.

A page has blocks <!-- table NUMBERS TABLE [SET ...] --> ... <!-- end -->; docs/results/numbers/NUMBERS.json is the
results.json of a study or of `vadd compare`, or the entries of several such commands one after the other, also the
reports of `vadd eval --json`.
"""

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vadd.evaluation import RunReport
from vadd.report.figures import save_figure, text_by_entropy
from vadd.report.likelihood_tables import bound_table, bracket_table
from vadd.report.table import Table, named_reports, report_names
from vadd.report.tables import matched_table, quality_table, source_table
from vadd.studies.baselines import ModelRow, likelihood_table, summary_table
from vadd.studies.league import SetRow, measure_table, nats_table, score_tables, share_figure, share_table
from vadd.studies.study import study_named

PAGES = Path(__file__).parent.parent / "docs" / "results"
BLOCK = re.compile(r"<!-- table ((\w+) (\w+)((?: [\w-]+)*)) -->\n.*?<!-- end -->", re.DOTALL)
STEPS = (1, 2, 4)
TABLES: dict[str, Callable[[Any, str], Table]] = {
    "samples": lambda rows, study: summary_table(rows, {}),
    "likelihood": lambda rows, study: likelihood_table(rows),
    "shares": lambda rows, study: share_table(rows, STEPS, {}),
    "measures": lambda rows, study: measure_table(rows, STEPS, study_named(study).published.by_steps),
    "scores": lambda rows, study: _scores(rows, study, "tables"),
    "molecules": lambda rows, study: _scores(rows, study, "molecules"),
    "nats": lambda rows, study: nats_table(rows),
}
OF_RUNS: dict[str, Callable[[Any], Table]] = {
    "quality": quality_table,
    "bounds": bound_table,
    "brackets": bracket_table,
    "matched": matched_table,
    "source": lambda reports: source_table({name: report.texts for name, report in named_reports(reports)}),
}


def _scores(rows: list[SetRow], study: str, what: str) -> Table:
    tables = score_tables(rows, study_named(study).published)
    return next(table for table in tables if table.title == f"Scores of {what}")


def rows_of(study: str) -> list[Any]:
    """Of a comparison of models, of sets, or of runs."""
    found = json.loads((PAGES / "numbers" / f"{study}.json").read_text(encoding="utf-8"))
    entries = found if isinstance(found, list) else [found]
    return [_row(entry) for entry in entries if "absent" not in entry]


def runs_of(study: str) -> list[RunReport]:
    return [row for row in rows_of(study) if isinstance(row, RunReport)]


def _row(entry: dict[str, Any]) -> Any:
    kind = RunReport if "recipe" in entry else ModelRow if "model" in entry else SetRow
    return kind.model_validate(entry)


def rendered(page: str) -> str:
    """The page with its tables written anew."""

    def block(found: re.Match[str]) -> str:
        heading, study, name, sets = found.groups()
        if name in OF_RUNS:
            table = OF_RUNS[name](runs_of(study))
        else:
            rows = [row for row in rows_of(study) if not isinstance(row, RunReport)]
            table = TABLES[name]([row for row in rows if not sets or row.name in sets.split()], study)
        text = Table(table.title, table.columns, table.rows).to_markdown().partition("\n\n")[2]
        note = "\n".join(textwrap.wrap(table.note, 120))
        return f"<!-- table {heading} -->\n{text}\n{note}\n<!-- end -->"

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    save_figure(share_figure(rows_of("league"), STEPS), PAGES.parent / "images" / "league.png")
    texts = runs_of("text")
    save_figure(text_by_entropy(texts, report_names(texts)), PAGES.parent / "images" / "text.png")
