"""Tables of what was measured in samples: each has a title, its columns, and a note on what the numbers mean."""

from collections.abc import Iterator, Mapping, Sequence

from vadd.evaluation.reports import (
    CONTROLS,
    REAL,
    AtEntropy,
    FileOfTexts,
    Metrics,
    RunReport,
    StepResult,
    TableDistance,
    TextMetrics,
    WorstColumns,
)
from vadd.report.likelihood_tables import bound_table, bracket_table, convention_table, latent_table, zero_shot_table
from vadd.report.notes import NOTES
from vadd.report.table import Cell, Table, named_reports, rounded

SHOWN_CHARACTERS = 300
Reports = Sequence[RunReport]


def report_tables(reports: Reports) -> list[Table]:
    """Every table for which something was measured."""
    return [
        *sample_tables(reports),
        *([nearest_table(reports)] if any(report.nearest for report in reports) else []),
        *([bound_table(reports)] if any(report.likelihood and report.likelihood.named for report in reports) else []),
        *(table for table in (bracket_table(reports), convention_table(reports)) if table.rows),
        *(zero_shot_table(report) for report in reports if report.zero_shot is not None),
        *([latent_table(reports)] if any(report.latent for report in reports) else []),
    ]


def sample_tables(reports: Reports) -> list[Table]:
    """How good the samples are: on the whole, of each label, by the columns of a table, and as completions."""
    tables = [label_table, worst_table, imputation_table]
    return [*samples_and_texts(reports), *(made for table in tables if (made := table(reports)).rows)]


def samples_and_texts(reports: Reports) -> list[Table]:
    """How good the samples are on the whole, of texts also as distributions and by temperature."""
    of_source = source_table({name: report.texts for name, report in named_reports(reports)})
    tables = [quality_table(reports), of_source, temperature_table(reports), matched_table(reports)]
    return [table for table in tables if table.rows]


def quality_table(reports: Reports) -> Table:
    """How good the samples are, by the metrics that were measured."""
    if all(report.real_text for report in reports):
        return text_table(reports)
    of_rows = any(report.by_steps(TableDistance) for report in reports)
    return rows_table(reports) if of_rows else divergence_table(reports)


def _results(reports: Reports) -> Iterator[tuple[str, StepResult]]:
    return ((name, result) for name, report in named_reports(reports) for result in report.results)


COLUMN_TITLES = {
    "jsd": "jsd",
    "jsd_floor": "its floor",
    "jsd_exact": "jsd, exact",
    "paper_js": "paper_js",
    "paper_js_floor": "its floor",
    "pair_jsd": "pair_jsd",
    "pair_jsd_floor": "its floor",
    "fid": "FID",
    "fid_floor": "its floor",
    "fid_at_floor": "FID at the floor's count",
    "fid_reference": "training images",
    "frechet": "Frechet distance",
    "frechet_floor": "its floor",
    "frechet_count": "images at once",
    "precision": "precision",
    "recall": "recall",
    "classifier_accuracy": "classifier accuracy",
    "labels_obeyed": "labels obeyed",
}


def divergence_table(reports: Reports) -> Table:
    """One row per run and number of steps; the columns are the numbers that any of them has."""
    results = list(_results(reports))
    numbers = [
        name for name in COLUMN_TITLES if any(getattr(result.metrics, name, None) is not None for _, result in results)
    ]
    notes = [f"{counts} samples for each number of steps."] if (counts := sample_counts(reports)) else []
    notes += [NOTES[number] for number in numbers if number in NOTES]
    rows = [[name, result.steps, *(_number(result.metrics, number) for number in numbers)] for name, result in results]
    columns = ["run", "steps", *(COLUMN_TITLES[number] for number in numbers)]
    return Table("Distance of the samples from the data", columns, rows, " ".join(notes))


def _number(metrics: Metrics, name: str) -> Cell:
    value: float | None = getattr(metrics, name, None)
    floor = getattr(metrics, f"{name}_floor", None) if name in ("precision", "recall") else None
    return value if floor is None else both(value, floor)


def sample_counts(reports: Reports) -> str:
    """How many samples a table is about; where runs had different numbers, all of them."""
    return " or ".join(dict.fromkeys(f"{report.samples:,}" for report in reports if report.samples))


def _of_rows(reports: Reports) -> list[tuple[str, int, TableDistance]]:
    results = [(name, result.steps, result.metrics) for name, result in _results(reports)]
    return [(name, steps, metrics) for name, steps, metrics in results if isinstance(metrics, TableDistance)]


def both(value: float | None, real: float | None, form: str = ".3f") -> Cell:
    """A number of samples and, in brackets, that of real examples."""
    return None if value is None or real is None else f"{value:{form}} ({real:{form}})"


def rows_table(reports: Reports) -> Table:
    """Samples of rows and, in brackets, real rows."""
    rows: list[dict[str, Cell]] = [
        {
            "run": name,
            "T": steps,
            "columns": both(metrics.column_tv, metrics.column_tv_floor),
            "pairs": both(metrics.pair_tv, metrics.pair_tv_floor),
            "classifier": both(metrics.trained_on_samples, metrics.trained_on_rows),
            "nearest": both(metrics.row_distance, metrics.row_distance_floor, ".2f"),
        }
        for name, steps, metrics in _of_rows(reports)
    ]
    return Table.of("Samples beside rows of the table", rows, NOTES["rows"])


def worst_table(reports: Reports) -> Table:
    """The columns of a table that samples get wrong most, and the pairs of columns; no rows if none are wrong."""

    def listed(worst: Sequence[WorstColumns]) -> Cell:
        return ", ".join(f"{' and '.join(one.columns)} {both(one.tv, one.floor)}" for one in worst) or None

    rows: list[dict[str, Cell]] = [
        {"run": name, "T": steps, "columns": listed(each.worst_columns), "pairs of columns": listed(each.worst_pairs)}
        for name, steps, each in _of_rows(reports)
    ]
    known = any(row["columns"] or row["pairs of columns"] for row in rows)
    return Table.of("What samples get wrong most", rows if known else [], NOTES["worst"])


def _perplexity(metrics: TextMetrics | AtEntropy) -> Cell:
    value = metrics.gen_ppl
    return rounded(value, 0 if value is not None and value >= 1000 else 1, metrics.gen_ppl_stderr)


def _text_cells(metrics: TextMetrics, *, judged: bool) -> dict[str, Cell]:
    """Of real text the labels obeyed are how often the classifier is right."""
    bits = rounded(metrics.judge_bits, 3, metrics.judge_bits_stderr)
    obeyed = metrics.classifier_accuracy if metrics.labels_obeyed is None else metrics.labels_obeyed
    return {
        **({"gen. PPL": _perplexity(metrics), "bits/char": bits} if judged else {}),
        "entropy": rounded(metrics.sample_entropy, 3),
        "distinct-2": rounded(metrics.distinct_2, 3),
        **({} if obeyed is None else {"labels obeyed": rounded(obeyed, 3)}),
    }


def text_table(reports: Reports) -> Table:
    """One row per run and number of steps; last the same numbers of real text."""
    judged = any(report.judge for report in reports)
    rows: list[dict[str, Cell]] = [
        {"run": name, "steps": result.steps, **_text_cells(result.metrics, judged=judged)}
        for name, result in _results(reports)
        if isinstance(result.metrics, TextMetrics)
    ]
    for control in (each for report in reports for each in report.texts if each.file in CONTROLS):
        row = {"run": control.file, "steps": None, **_text_cells(control.metrics, judged=judged)}
        rows += [] if row in rows else [row]
    real_texts = [(report, report.real_text) for report in reports if report.real_text is not None]
    several = len({report.recipe for report in reports}) > 1
    for report, real in real_texts:
        name = f"{real.texts} real texts" + (f" of {report.recipe}" if several else "")
        row = {"run": name, "steps": None, **_text_cells(real.metrics, judged=judged)}
        rows += [] if row in rows else [row]
    notes = [f"{sample_counts(reports)} samples for each number of steps.", judge_note(reports)]
    notes += [*_odd_texts(reports), NOTES["texts"]]
    notes += [NOTES["text_labels"]] if any("labels obeyed" in row for row in rows) else []
    return Table.of("Texts by number of steps", rows, " ".join(notes))


def _odd_texts(reports: Reports) -> list[str]:
    """How many texts had no token to score, and how many the judge model did not read to the end, if any."""
    metrics = [each for report in reports for each in report.by_steps(TextMetrics).values()]
    metrics += [report.real_text.metrics for report in reports if report.real_text is not None]
    empty, cut = sum(each.empty_texts for each in metrics), sum(each.cut_texts for each in metrics)
    notes = [f"Of all texts {empty} had no token to score and do not count in it."] if empty else []
    return notes + ([f"{cut} were longer and cut."] if cut else [])


def judge_note(reports: Sequence[RunReport | FileOfTexts]) -> str:
    """Which models judged, and by which convention."""
    judges = {report.judge.name: report.judge for report in reports if report.judge is not None}
    return " ".join(NOTES["judge"].format(**judge.to_json()) for judge in judges.values()) or NOTES["no_judge"]


def files_table(files: Sequence[FileOfTexts]) -> Table:
    """Files of texts side by side."""
    judged = any(file.judge for file in files)
    rows: list[dict[str, Cell]] = [
        {
            "file": file.file,
            "texts": file.texts,
            **_text_cells(file.metrics, judged=judged),
            "distinct-1": rounded(file.metrics.distinct_1, 3),
        }
        for file in files
    ]
    return Table.of("Texts", rows, f"{judge_note(files)} {NOTES['files']}")


def source_table(files: Mapping[str, Sequence[FileOfTexts]]) -> Table:
    """Files, or samples by the name of their run, as distributions beside the text that was learned from."""
    found = [
        (", ".join([name] * bool(name and file.file not in (*CONTROLS, REAL)) + [file.file]), file.against)
        for name, several in files.items()
        for file in several
        if file.against is not None
    ]
    rows: list[dict[str, Cell]] = []
    for name, against in sorted(found, key=lambda each: each[0] in (*CONTROLS, REAL)):
        row: dict[str, Cell] = {
            "texts": name,
            "energy distance": f"{against.energy:.4f}",
            "p": f"{against.energy_p:.3f}",
            "MAUVE": rounded(against.mauve, 3),
            "repeated 4-grams": rounded(against.repeated, 3),
            "copied 8-grams": rounded(against.copied, 3),
        }
        rows += [] if row in rows else [row]
    about = {} if not found else found[0][1].model_dump()
    return Table.of("Texts as a distribution", rows, NOTES["against_source"].format(**about) if rows else "")


def temperature_table(reports: Reports) -> Table:
    """The curve over temperature, a row for each point."""
    rows: list[dict[str, Cell]] = [
        {
            "run": name,
            "steps": point.steps,
            "temperature": f"{point.temperature:g}",
            **_text_cells(point.metrics, judged=True),
        }
        for name, report in named_reports(reports)
        for point in report.temperatures
    ]
    return Table.of("Texts by temperature", rows, NOTES["temperatures"])


def matched_table(reports: Reports) -> Table:
    """The curves at the entropy of real text, and at that of each run's own samples, where there are several."""
    curves = [(name, report) for name, report in named_reports(reports) if report.temperatures]
    rows: list[dict[str, Cell]] = []
    for name, report in curves:
        for real in report.at_real_entropy:
            others = {other: its.by_steps(TextMetrics).get(real.steps) for other, its in curves if other != name}
            at_others = {other: report.at_entropy(real.steps, its) for other, its in others.items() if its is not None}
            for target, found in {"real text": real, **at_others}.items():
                rows.append(
                    {
                        "run": name,
                        "steps": real.steps,
                        "at the entropy of": target,
                        "entropy": rounded(found.entropy, 3),
                        "gen. PPL": _perplexity(found),
                        "bits/char": rounded(found.judge_bits, 3, found.judge_bits_stderr),
                    }
                )
    return Table.of("Texts at equal entropy", rows, NOTES["matched"])


def side_by_side(texts: Mapping[str, Mapping[int, Sequence[str]]]) -> Table:
    """The first sample of each run for each number of steps, by the run's name; all but its beginning is left out."""

    def beginning(sample: str) -> str:
        line = " ".join(sample.split())
        return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]} ..."

    rows = [
        [f"T = {count}", *(beginning(shown[count][0]) if count in shown else None for shown in texts.values())]
        for count in sorted({count for shown in texts.values() for count in shown})
    ]
    return Table("Samples side by side", ["", *texts], rows, NOTES["side_by_side"])


BY_LABEL = {"frechet_by_label": "Frechet distance", "obeyed_by_label": "obeyed"}


def label_table(reports: Reports) -> Table:
    """One row per run and label, a column for each number of steps; no rows where nothing was measured by label."""
    rows: list[dict[str, Cell]] = []
    for name, report in named_reports(reports):
        numbers = {
            f"{title}, T = {result.steps}": values
            for field, title in BY_LABEL.items()
            for result in report.results
            if (values := getattr(result.metrics, field, None))
        }
        labels = enumerate(report.labels or ()) if numbers else ()
        rows += [
            {"run": name, "label": label, **{title: values[number] for title, values in numbers.items()}}
            for number, label in labels
        ]
    return Table.of("Samples of each label", rows, NOTES["by_label"])


def imputation_table(reports: Reports) -> Table:
    """One row per run, each beside the same imputers."""
    measured = [(name, report.imputation) for name, report in named_reports(reports) if report.imputation is not None]
    rows: list[list[Cell]] = [
        [name, each.model, each.mode, each.nearest_neighbours, each.iterative] for name, each in measured
    ]
    note = NOTES["imputation"].format(cells=f"{measured[0][1].cells if measured else 0:,}")
    return Table("Filled cells that are right", ["run", "model", "mode", "KNN", "iterative"], rows, note)


def nearest_table(reports: Reports) -> Table:
    """How close samples come to training examples, a row for each run and number of steps."""
    measured = [(name, report.nearest) for name, report in named_reports(reports) if report.nearest is not None]
    rows: list[dict[str, Cell]] = [
        {
            "run": name,
            "steps": samples.steps,
            "median": both(samples.median, nearest.held_out, "g"),
            "copies": both(samples.copies, nearest.held_out_copies, ".1%"),
            "closer": both(samples.closer, nearest.held_out_closer, ".1%"),
        }
        for name, nearest in measured
        for samples in nearest.samples
    ]
    compared = max((nearest.compared for _, nearest in measured), default=0)
    return Table.of("Nearest training examples", rows, NOTES["nearest"].format(compared=compared))
