"""Tables of what was measured in samples: each has a title, its columns, and a note on what the numbers mean."""

from collections.abc import Callable, Mapping, Sequence

from vadd.evaluation.reports import FileOfTexts, JudgeReport, RunReport, TableDistance, TextMetrics, WorstColumns
from vadd.report.likelihood_tables import bound_table, latent_table, zero_shot_table
from vadd.report.table import Cell, Column, Table, field, named_reports

SHOWN_CHARACTERS = 300


def report_tables(reports: Sequence[RunReport]) -> list[Table]:
    """Every table for which something was measured."""
    tables = [
        *sample_tables(reports),
        nearest_table(reports) if any(report.nearest for report in reports) else None,
        bound_table(reports) if any(report.likelihood for report in reports) else None,
        *(zero_shot_table(report) for report in reports if report.zero_shot is not None),
        latent_table(reports) if any(report.latent for report in reports) else None,
    ]
    return [table for table in tables if table is not None]


def sample_tables(reports: Sequence[RunReport]) -> list[Table]:
    """How good the samples are: on the whole, of each label, by the columns of a table, and as completions."""
    tables = [
        quality_table(reports) if any(report.results for report in reports) else None,
        label_table(reports),
        worst_table(reports),
        imputation_table(reports) if any(report.imputation for report in reports) else None,
    ]
    return [table for table in tables if table is not None]


def quality_table(reports: Sequence[RunReport]) -> Table:
    """How good the samples are, by the metrics that were measured."""
    if all(report.real_text for report in reports):
        return text_table(reports)
    of_rows = any(report.by_steps(TableDistance) for report in reports)
    return rows_table(reports) if of_rows else divergence_table(reports)


def _results_table(
    title: str, reports: Sequence[RunReport], columns: Sequence[Column], note: str, kind: type = object
) -> Table:
    """A row for each run and number of steps with metrics of this kind."""
    rows = [
        [name, result.steps, *(cell(result.metrics) for _, cell in columns)]
        for name, report in named_reports(reports)
        for result in report.results
        if isinstance(result.metrics, kind)
    ]
    return Table(
        title, ["run", "T" if kind is TableDistance else "steps", *(title for title, _ in columns)], rows, note
    )


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
    "classifier_accuracy": "classifier accuracy",
    "labels_obeyed": "labels obeyed",
}
NOTES = {
    "jsd": "Nats; smaller is better. The floor is what two independent samples of the data score against each other; "
    "'exact' has no sampling noise. paper_js is the quantity that the paper calls JS.",
    "pair_jsd": "Jensen-Shannon divergence from the held-out examples, averaged over pairs of positions, in nats; "
    "the floor is that of as many training examples.",
    "fid": "FID by the clean-fid protocol against the training set, or as many of its images as samples were drawn; "
    "the floor is that of as many test images, or of all. FIDs compare only at equal numbers of images.",
    "frechet": "Frechet distance from the training set in the features of a small classifier, not the Inception "
    "network's FID; the floor is that of the test set. Few images score worse than many: both are means over parts of "
    "as many images.",
}


def divergence_table(reports: Sequence[RunReport], title: str = "Distance of the samples from the data") -> Table:
    """One row per run and number of steps; the columns are the numbers that any of them has."""
    measured = [result.metrics for report in reports for result in report.results]
    numbers = [name for name in COLUMN_TITLES if any(getattr(metrics, name, None) is not None for metrics in measured)]
    notes = [f"{counts} samples for each number of steps."] if (counts := sample_counts(reports)) else []
    notes += [NOTES[number] for number in numbers if number in NOTES]
    columns = [(COLUMN_TITLES[number], field(number)) for number in numbers]
    return _results_table(title, reports, columns, " ".join(notes))


def sample_counts(reports: Sequence[RunReport]) -> str:
    """How many samples a table is about; where runs had different numbers, all of them."""
    return " or ".join(dict.fromkeys(f"{report.samples:,}" for report in reports if report.samples))


ROWS_NOTE = (
    "In brackets what real rows score. Columns and pairs: total variation from a half of the training rows, the mean "
    "over columns and over pairs of columns, and over eight ways to halve the rows; in brackets that of the other "
    "half. Classifier: the accuracy, on held-out rows, of classifiers that learnt from samples to predict one column "
    "from the others; in brackets of those that learnt from as many training rows. Nearest: the cells in which a "
    "sample differs from the training row nearest to it; in brackets held-out rows. Samples that are nearer than those "
    "are copies in part."
)


def rows_table(reports: Sequence[RunReport]) -> Table:
    """Samples of rows and, in brackets, real rows."""

    def both(name: str, floor: str, digits: int = 3) -> Callable[[TableDistance], Cell]:
        value, reference = field(name, digits), field(floor, digits)
        return lambda metrics: None if value(metrics) is None else f"{value(metrics)} ({reference(metrics)})"

    columns: list[Column] = [
        ("columns", both("column_tv", "column_tv_floor")),
        ("pairs", both("pair_tv", "pair_tv_floor")),
        ("classifier", both("trained_on_samples", "trained_on_rows")),
        ("nearest", both("row_distance", "row_distance_floor", 2)),
    ]
    return _results_table("Samples beside rows of the table", reports, columns, ROWS_NOTE, TableDistance)


def worst_table(reports: Sequence[RunReport]) -> Table | None:
    """The columns of a table that samples get wrong most, and the pairs of columns."""

    def listed(worst: Sequence[WorstColumns]) -> Cell:
        named = (f"{' and '.join(one.columns)} {one.tv:.3f} ({one.floor:.3f})" for one in worst)
        return ", ".join(named) or None

    columns: list[Column] = [
        ("columns", lambda metrics: listed(metrics.worst_columns)),
        ("pairs of columns", lambda metrics: listed(metrics.worst_pairs)),
    ]
    note = "Total variation from the training rows; in brackets what real rows score. The worst first."
    table = _results_table("What samples get wrong most", reports, columns, note, TableDistance)
    return table if any(cell is not None for row in table.rows for cell in row[2:]) else None


STATISTICS_NOTE = (
    "Entropy: of the token counts of each sample, in nats and in the run's own tokens, averaged; what repeats itself "
    "has a low one. distinct-2: distinct pairs of neighbouring words over all of them. The closer to real text the "
    "better, all of them at once."
)
LABELS_NOTE = (
    " Labels obeyed: the share of samples, as many of each label as the training set has, in which a small classifier "
    "of texts finds the label; beside real texts how often it is right about held-out documents."
)
FILES_NOTE = (
    " Entropy: of the counts of words in each text, in nats, averaged. distinct-1 and -2: distinct words and pairs "
    "of them over all; they fall with the amount of text, and compare only between equal amounts."
)
WITHOUT_A_JUDGE = "No generative perplexity: that needs a judge, a causal language model."


def _generative_perplexity(metrics: TextMetrics) -> str | None:
    value, error = metrics.gen_ppl, metrics.gen_ppl_stderr
    digits = 0 if value is not None and value >= 1000 else 1
    return None if value is None else f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def _obeyed(metrics: TextMetrics) -> Cell:
    """Of real text how often the classifier is right."""
    return field("classifier_accuracy" if metrics.labels_obeyed is None else "labels_obeyed", 3)(metrics)


JUDGE_COLUMNS: list[Column] = [("gen. PPL", _generative_perplexity), ("bits/char", field("judge_bits", 3))]
ENTROPY: Column = ("entropy", field("sample_entropy", 3))
DISTINCT: Column = ("distinct-2", field("distinct_2", 3))


def text_table(reports: Sequence[RunReport]) -> Table:
    """One row per run and number of steps; last the same numbers of real text."""
    real_texts = [(report, report.real_text) for report in reports if report.real_text is not None]
    labelled = any(real.metrics.classifier_accuracy is not None for _, real in real_texts)
    columns = [*(JUDGE_COLUMNS if any(report.judge for report in reports) else []), ENTROPY, DISTINCT]
    columns += [("labels obeyed", _obeyed)] if labelled else []
    samples = " or ".join(dict.fromkeys(str(report.samples) for report in reports))
    note = f"{samples} samples for each number of steps. {judge_note(reports)}{_odd_texts(reports)} {STATISTICS_NOTE}"
    table = _results_table("Texts by number of steps", reports, columns, note + LABELS_NOTE * labelled, TextMetrics)
    several = len({report.recipe for report in reports}) > 1
    rows = list(table.rows)
    for report, real in real_texts:
        name = f"{real.texts} real texts" + (f" of {report.recipe}" if several else "")
        row = [name, None, *(cell(real.metrics) for _, cell in columns)]
        rows += [] if row in rows else [row]
    return Table(table.title, table.columns, rows, table.note)


def _odd_texts(reports: Sequence[RunReport]) -> str:
    """How many texts had no token to score, and how many the judge model did not read to the end, if any."""
    metrics = [each for report in reports for each in report.by_steps(TextMetrics).values()]
    metrics += [report.real_text.metrics for report in reports if report.real_text is not None]
    empty, cut = sum(each.empty_texts for each in metrics), sum(each.cut_texts for each in metrics)
    note = f" Of all texts {empty} had no token to score and do not count in it." if empty else ""
    return note + (f" {cut} were longer and cut." if cut else "")


def judge_note(reports: Sequence[RunReport | FileOfTexts]) -> str:
    """Which models judged, and by which convention."""
    judges = {report.judge.name: report.judge for report in reports if report.judge is not None}
    return " ".join(map(_about, judges.values())) if judges else WITHOUT_A_JUDGE


def _about(judge: JudgeReport) -> str:
    return (
        f"Generative perplexity under {judge.name} by the convention {judge.convention}; the first token of a "
        f"text is {judge.first_token}; texts are cut after {judge.max_length} of its tokens. It compares only "
        "between numbers of the same judge and convention. Letters without sense fall into many of the judge's tokens, "
        "each easy to guess; the judge's bits per character do not depend on that."
    )


def files_table(files: Sequence[FileOfTexts]) -> Table:
    """Files of texts side by side."""
    judged = JUDGE_COLUMNS if any(file.judge for file in files) else []
    columns = [*judged, ENTROPY, ("distinct-1", field("distinct_1", 3)), DISTINCT]
    rows = [[file.file, file.texts, *(cell(file.metrics) for _, cell in columns)] for file in files]
    return Table("Texts", ["file", "texts", *(title for title, _ in columns)], rows, judge_note(files) + FILES_NOTE)


def side_by_side(texts: Mapping[str, Mapping[int, Sequence[str]]], number: int = 0) -> Table:
    """One sample of each run for each number of steps, by the run's name; all but its beginning is left out."""

    def beginning(sample: str) -> str:
        line = " ".join(sample.split())
        return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]} ..."

    rows = [
        [f"T = {count}", *(beginning(shown[count][number]) if count in shown else None for shown in texts.values())]
        for count in sorted({count for shown in texts.values() for count in shown})
    ]
    return Table("Samples side by side", ["", *texts], rows, "The first sample of each, white space as single spaces.")


BY_LABEL = {"frechet_by_label": "Frechet distance", "obeyed_by_label": "obeyed"}
BY_LABEL_NOTE = (
    "Frechet distance: of the samples of a label from the training images of that label; few samples score worse "
    "than many. Obeyed: the share of them in which the classifier finds it."
)


def label_table(reports: Sequence[RunReport]) -> Table | None:
    """One row per run and label, a column for each number of steps; None where nothing was measured by label."""
    columns: dict[tuple[str, int], None] = {}
    labels: list[tuple[str, int, str, Mapping[tuple[str, int], Sequence[Cell]]]] = []
    for name, report in named_reports(reports):
        numbers = {
            (field, result.steps): values
            for result in report.results
            for field in BY_LABEL
            if (values := getattr(result.metrics, field, None))
        }
        columns |= dict.fromkeys(numbers)
        labels += [(name, number, label, numbers) for number, label in enumerate(report.labels or ()) if numbers]
    if not columns:
        return None
    ordered = sorted(columns, key=lambda column: list(BY_LABEL).index(column[0]))
    rows = [
        [name, label, *(numbers[column][number] if column in numbers else None for column in ordered)]
        for name, number, label, numbers in labels
    ]
    titles = [f"{BY_LABEL[field]}, T = {steps}" for field, steps in ordered]
    return Table("Samples of each label", ["run", "label", *titles], rows, BY_LABEL_NOTE)


def imputation_table(reports: Sequence[RunReport]) -> Table:
    """One row per run, each beside the same imputers."""
    measured = [(name, report.imputation) for name, report in named_reports(reports) if report.imputation is not None]
    rows: list[list[Cell]] = [
        [name, each.model, each.mode, each.nearest_neighbours, each.iterative] for name, each in measured
    ]
    note = (
        f"Share of {measured[0][1].cells if measured else 0:,} hidden cells of held-out rows, a fifth of them all, "
        "that are filled with what was there: the model's likeliest value, the column's most frequent one, "
        "scikit-learn's KNNImputer and IterativeImputer. Of numbers in bins the right bin counts."
    )
    return Table("Filled cells that are right", ["run", "model", "mode", "KNN", "iterative"], rows, note)


def nearest_table(reports: Sequence[RunReport]) -> Table:
    """How close samples come to training examples, a row for each run and number of steps."""

    def both(share: float | None, held_out: float | None) -> Cell:
        return None if share is None or held_out is None else f"{share:.1%} ({held_out:.1%})"

    measured = [(name, report.nearest) for name, report in named_reports(reports) if report.nearest is not None]
    rows: list[list[Cell]] = [
        [
            name,
            samples.steps,
            f"{samples.median:g} ({nearest.held_out:g})",
            both(samples.copies, nearest.held_out_copies),
            both(samples.closer, nearest.held_out_closer),
        ]
        for name, nearest in measured
        for samples in nearest.samples
    ]
    note = (
        "Positions in which an example differs from the training example nearest to it: the median of at most "
        f"{max((nearest.compared for _, nearest in measured), default=0)} samples, the share of samples that are "
        "training examples, and the share of those closer than all but 5% of held-out examples; in brackets held-out "
        "examples. Samples that lie closer than held-out examples do are copies in part."
    )
    return Table("Nearest training examples", ["run", "steps", "median", "copies", "closer"], rows, note)
