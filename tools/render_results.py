"""Write the tables and figures of README and docs/results that come from JSON: `python tools/render_results.py`.

A page has blocks <!-- table NUMBERS TABLE [SET ...] --> ... <!-- end -->; docs/results/numbers/NUMBERS.json is the
results.json of a study or of `vadd compare`, or the entries of several such commands one after the other, also the
reports of `vadd eval --json`, or the cells that a benchmark writes. Blocks of `all` take what they need from several of
these files.
"""

import json
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from vadd.evaluation import RunReport
from vadd.evaluation.reports import InceptionDistance
from vadd.report.figures import bound_by_steps, save_figure, text_by_entropy
from vadd.report.likelihood_tables import bound_table, bracket_table, convention_table
from vadd.report.line_style import line_style
from vadd.report.notes import NOTES
from vadd.report.table import Cell, Table, at_steps, grouped, mean_and_spread, model_label, named_reports, report_names
from vadd.report.tables import imputation_table, matched_table, quality_table, source_table
from vadd.studies.baselines import ModelRow, likelihood_table, measure_of, quality_figure, summary_table
from vadd.studies.league import SetRow, measure_table, nats_table, score_tables, share_figure, share_table
from vadd.studies.study import study_named

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "results"
BLOCK = re.compile(r"<!-- table ((\w+) (\w+)((?: [\w-]+)*)) -->\n.*?<!-- end -->", re.DOTALL)
STEPS = (1, 2, 4)
CHARACTERS = 64
"""Of a piece of text8."""
BITS = "bits per character"
BY_MODEL = {
    "digits": "digits",
    "checkerboard": "checkerboard",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "text": "text8",
}
OF_MOLECULES, DRAWN = "valid of 1,024", 1024
FRONT = (
    ("checkerboard, the paper's latent, JS (floor {floor:.3f})", "checkerboard", "VADD", "", (1,)),
    ("MNIST, Frechet distance (test set {floor:.2f})", "mnist", "", "", (1, 20)),
    ("CIFAR-10, Frechet distance (test set {floor:.2f})", "cifar10", "", "", (1,)),
    ("text8, bound in bits per character", "text", "", BITS, (1, 16)),
    ("swissroll, samples near the data", "public", "swissroll", "right", (1,)),
    ("QM9, valid molecules", "public", "qm9", OF_MOLECULES, (1,)),
    ("Adult, C2ST (real rows: 1)", "public", "adult-income", "C2ST", (2,)),
)
"""What is measured, the file, the set or the row that stands for VADD, the measure, and the numbers of steps."""


def _scores(rows: list[SetRow], study: str, what: str) -> Table:
    tables = score_tables(rows, study_named(study).published)
    return next(table for table in tables if table.title == f"Scores of {what}")


def rows_of(study: str) -> list[Any]:
    """Of a comparison of models or of sets; none where there is no such file."""
    return [row for row in _entries(study) if not isinstance(row, RunReport)]


def runs_of(study: str) -> list[RunReport]:
    return [row for row in _entries(study) if isinstance(row, RunReport)]


def _entries(study: str) -> list[Any]:
    file = PAGES / "numbers" / f"{study}.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    entries = found if isinstance(found, list) else [found]
    return [_row(entry) for entry in entries if "absent" not in entry]


def _row(entry: dict[str, Any]) -> Any:
    if not {"name", "recipe"} & entry.keys() or all(isinstance(cell, str) for cell in entry.values()):
        return entry  # of a benchmark
    kind = RunReport if "recipe" in entry else ModelRow if "model" in entry else SetRow
    return kind.model_validate(entry)


def front_table() -> Table:
    """A row for each measure and number of steps; what is not in the repository is left out."""
    cells: list[dict[str, Cell]] = []
    for title, study, name, measure, steps in FRONT:
        rows = [row for row in rows_of(study) if not isinstance(row, SetRow) or row.name == name]
        for count in steps if rows else ():
            floor = getattr(rows[0], "reference", None) or math.nan
            of_vadd = name if name.startswith("VADD") else "VADD, one z"
            values = {"MDLM": _value(rows, "mdlm", "MDLM", measure, count)}
            values["VADD"] = _value(rows, "vadd", of_vadd, measure, count)
            what = title.format(floor=floor) if count == steps[0] else "the same"
            others = _others(rows, name, measure, count) if count == steps[0] or measure != BITS else None
            cells.append({"": what, "T": count, **values, "others": others})
        cells += _fid_rows(study, steps[0])
    return Table.of("Results", cells)


def _fid_rows(study: str, steps: int) -> list[dict[str, Cell]]:
    """The least FID of the runs, with its temperature, where others have published one."""
    scored = [(each.by_steps(InceptionDistance).get(steps), each.draws) for each in runs_of(study)]
    found = min(((each.fid, each, draws) for each, draws in scored if each), default=None)
    if found is None:
        return []
    fid, distance, draws = found
    what = f"its FID, {draws or 'temperature 1'} (test set {distance.fid_floor:.1f})"
    published = study_named(study).published.by_steps
    quoted = [f"{name} {values[steps]:g}" for name, values in published.items() if steps in values]
    return [{"": what, "T": steps, "VADD": f"{fid:.1f}", "others": ", ".join(quoted)}] if quoted else []


def _value(rows: Sequence[Any], model: str, label: str, measure: str, steps: int) -> Cell:
    """Of the model's rows, which are called ``label``, or of both models' rows of a set."""
    if isinstance(rows[0], ModelRow):
        those = [row for row in rows if row.name == label and row.steps == steps]
        if measure == BITS:
            return mean_and_spread((_bits(row) for row in those), "{:.3f}")
        return mean_and_spread((row.quality for row in those), "{:.3g}")
    if measure == "right":
        return mean_and_spread((row.right[model].get(steps) for row in rows), "{:.1%}")
    scores = [row.scores[measure][model].get(steps) for row in rows]
    if measure == OF_MOLECULES:
        return mean_and_spread((score / DRAWN for score in scores if score is not None), "{:.1%}")
    return mean_and_spread(scores, "{:.3f}")


def _bits(row: ModelRow) -> float | None:
    return None if row.nats is None else row.nats / (CHARACTERS * math.log(2))


def _others(rows: Sequence[Any], name: str, measure: str, steps: int) -> Cell:
    """What others have published, or an autoregressive model reaches here."""
    if measure == BITS:
        exact = mean_and_spread((_bits(row) for row in rows if row.model == "ar"), "{:.3f}")
        return f"AR, {CHARACTERS} steps: {exact}" if exact else None
    if not isinstance(rows[0], SetRow):
        return None
    published = study_named("public").published
    found: list[str] = []
    for row, by_steps in published.by_steps.items():
        if row.startswith(f"{name}: ") and steps in by_steps:
            found.append(f"{row.partition(': ')[2]} {by_steps[steps]}%")
    for row, scores in published.rows.items():
        if row.startswith(f"{name}: "):
            score = dict(zip(published.columns, scores, strict=True))[measure]
            found.append(f"{row.partition(': ')[2]} {score:.3f}")
    return ", ".join(found[-2:]) or None


def completed_table(entries: Sequence[dict[str, Any]]) -> Table:
    """Puzzles that single runs completed."""
    cells: list[dict[str, Cell]] = []
    for entry in entries:
        for steps in next(iter(entry["scores"].values())):
            shares = {name: f"{by_steps[steps]:.1%}" for name, by_steps in entry["scores"].items()}
            cells.append({"run": entry["run"], "training steps": f"{entry['training_steps']:,}", "T": steps, **shares})
    return Table.of("Puzzles", cells)


def behind_table() -> Table:
    """Where another model has the better mean with as many steps; AR, which takes one for each position, is compared
    with the best of any number of steps.
    """
    cells: list[dict[str, Cell]] = []
    for study, data in BY_MODEL.items():
        rows = [row for row in rows_of(study) if row.exact_sampler]
        for what, value in ((measure_of(rows), "quality"), ("nats", "nats")) if rows else ():
            cells += [{"data": data, "measure": what, **row} for row in _behind(rows, value)]
    for row in [*rows_of("league"), *rows_of("public")]:
        for count in row.nats["mdlm"]:
            if row.is_worse(count):
                numbers = {"VADD": f"{row.nats['vadd'][count]:.2f}", "better": f"MDLM {row.nats['mdlm'][count]:.2f}"}
                cells.append({"data": row.name, "measure": "nats", "T": count, **numbers})
    return Table.of("Where VADD is behind", cells)


def _behind(rows: Sequence[ModelRow], field: str) -> list[dict[str, Cell]]:
    means: dict[int, dict[str, float]] = {}
    for (steps, name), members in grouped(rows, lambda row: (row.steps, row.name)).items():
        values = [value for row in members if (value := getattr(row, field)) is not None]
        if values:
            means.setdefault(steps, {})[name] = fmean(values)
    ours = {steps: {name: each for name, each in named.items() if _is_ours(name)} for steps, named in means.items()}
    best = min((value, name) for named in ours.values() for name, value in named.items())
    found: list[dict[str, Cell]] = []
    for steps, named in sorted(means.items()):
        value, name = min(((each, name) for name, each in ours[steps].items()), default=best)
        other, which = min((each, name) for name, each in named.items())
        if other < value:
            found.append({"T": steps, "VADD": f"{name} {_short(value)}", "better": f"{which} {_short(other)}"})
    return found


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _is_ours(name: str) -> bool:
    return name in ("VADD", "VADD, one z", "VADD, codes")


def fid_table(reports: Sequence[RunReport]) -> Table:
    """By number of steps, with the floor, and below what others have published of these data."""
    distances = [report.by_steps(InceptionDistance) for report in reports]
    steps = sorted({count for each in distances for count in each})
    cells: list[dict[str, Cell]] = []
    for (name, report), each in zip(named_reports(reports), distances, strict=True):
        shown: dict[int, Cell] = {count: f"{distance.fid:.1f}" for count, distance in each.items()}
        cells.append({"": name, "images": f"{report.samples:,}", **at_steps(shown, steps)})
    floor = f"{next(iter(distances[0].values())).fid_floor:.1f}"
    cells.append({"": "test images", "images": cells[0]["images"], **at_steps(dict.fromkeys(steps, floor), steps)})
    for name, quoted in study_named(reports[0].data).published.by_steps.items():
        there = {count: f"{quoted[count]:g}" for count in steps if count in quoted}
        cells += [{"": f"{model_label(name)}, published", **at_steps(there, steps)}] if there else []
    return Table.of("FID", cells, f"Inception FID, smaller is better. {NOTES['fid']}")


TABLES: dict[str, Callable[[Any, str], Table]] = {
    "samples": lambda rows, study: summary_table(rows, {}),
    "likelihood": lambda rows, study: likelihood_table(rows),
    "shares": lambda rows, study: share_table(rows, STEPS, {}),
    "measures": lambda rows, study: measure_table(rows, STEPS, study_named(study).published.by_steps),
    "grids": lambda rows, study: measure_table(rows, (1, 4, 16), {}),
    "scores": lambda rows, study: _scores(rows, study, "tables"),
    "molecules": lambda rows, study: _scores(rows, study, "molecules"),
    "puzzles": lambda rows, study: _scores(rows, study, "puzzles"),
    "completed": lambda rows, study: completed_table(rows),
    "nats": lambda rows, study: nats_table(rows),
    "cells": lambda rows, study: Table.of("", rows),
    "front": lambda rows, study: front_table(),
    "behind": lambda rows, study: behind_table(),
}
OF_RUNS: dict[str, Callable[[Any], Table]] = {
    "fid": fid_table,
    "quality": quality_table,
    "bounds": bound_table,
    "brackets": bracket_table,
    "conventions": convention_table,
    "matched": matched_table,
    "source": lambda reports: source_table({name: report.texts for name, report in named_reports(reports)}),
    "filled": imputation_table,
}


def rendered(page: str) -> str:
    """The page with its tables written anew."""

    def block(found: re.Match[str]) -> str:
        heading, study, name, sets = found.groups()
        of_runs = name in OF_RUNS
        rows = runs_of(study) if of_runs else [row for row in rows_of(study) if not sets or row.name in sets.split()]
        if not rows and study != "all":  # not measured yet
            return f"<!-- table {heading} -->\n<!-- end -->"
        table = OF_RUNS[name](rows) if of_runs else TABLES[name](rows, study)
        text = Table(table.title, table.columns, table.rows).to_markdown().partition("\n\n")[2]
        note = "\n".join(textwrap.wrap(table.note, 120, break_on_hyphens=False))
        return f"<!-- table {heading} -->\n{text}\n{note}\n<!-- end -->"

    return BLOCK.sub(block, page)


def _or_nan(score: float | None) -> float:
    return math.nan if score is None else score


def scores_figure() -> Figure:
    """Of tables beside those of other systems: a panel for each set, a row for each measure; means over trainings."""
    published = study_named("public").published
    tables = grouped((row for row in rows_of("public") if "C2ST" in row.scores), lambda row: row.name)
    figure = Figure(figsize=(2.7 * len(tables), 3.4), layout="constrained")
    for axis, (name, rows) in zip(figure.subplots(1, len(tables), sharey=True), tables.items(), strict=True):
        models: dict[str, Sequence[float | None]] = {}
        for model in ("mdlm", "vadd"):
            means = [fmean(row.scores[measure][model][2] for row in rows) for measure in published.columns]
            models[f"{model.upper()}, T = 2"] = means
        for title, scores in published.rows.items():
            if title.startswith(f"{name}: "):
                models[title.partition(": ")[2]] = scores
        middles = range(len(published.columns))
        for number, (label, shown) in enumerate(models.items()):
            places = [place + 0.13 * (number - 2) for place in middles]
            axis.plot(list(map(_or_nan, shown)), places, label=label, **line_style(number) | {"linestyle": ""})
        axis.set(title=name, xlim=(-0.05, 1.05), yticks=middles, yticklabels=published.columns)
        axis.set_xlabel("larger is better")
        axis.grid(alpha=0.25, axis="x")
    axis.invert_yaxis()
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    return figure


def draw_figures(folder: Path) -> None:
    save_figure(share_figure(rows_of("league"), STEPS), folder / "league.png")
    save_figure(scores_figure(), folder / "published.png")
    for name in BY_MODEL:
        if rows := rows_of(name):
            save_figure(quality_figure(rows), folder / f"baselines-{name}.png")
    if texts := runs_of("text"):
        save_figure(text_by_entropy(texts, report_names(texts)), folder / "text.png")
    if copies := runs_of("validity"):
        save_figure(bound_by_steps(copies, report_names(copies)), folder / "validity.png")


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "docs" / "scaling.md", *sorted(PAGES.glob("*.md"))]


if __name__ == "__main__":
    for path in pages():
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    draw_figures(ROOT / "docs" / "images")
