"""Tables of what was measured in texts, and of the texts themselves."""

from collections.abc import Mapping, Sequence

from vadd.evaluation.metrics import TableDistance, TextMetrics
from vadd.evaluation.reports import JudgeReport, RunReport
from vadd.evaluation.texts import JudgedTexts
from vadd.report.table_tables import rows_table
from vadd.report.tables import Cell, Table, divergence_table, report_names

SHOWN_CHARACTERS = 300

STATISTICS_NOTE = (
    "Entropy: of the token counts of each sample, in nats and in the run's own tokens, averaged; what repeats itself "
    "has a low one. distinct-2: distinct pairs of neighbouring words over all of them. The closer to real text the "
    "better, all of them at once."
)
LABELS_NOTE = (
    " Labels obeyed: the share of samples, as many of each label as the training set has, in which a small classifier "
    "of texts finds the label; beside real texts how often it is right about held-out documents."
)
WITHOUT_A_JUDGE = "No generative perplexity: that needs a judge, a causal language model."


def quality_table(reports: Sequence[RunReport]) -> Table:
    """How good the samples are, by whatever they were judged."""
    if all(report.real_text for report in reports):
        return text_table(reports)
    return (
        rows_table(reports) if any(report.by_steps(TableDistance) for report in reports) else divergence_table(reports)
    )


def text_table(reports: Sequence[RunReport]) -> Table:
    """One row per run and number of steps; last the same numbers of real text."""
    judged = any(report.judge for report in reports)
    labelled = any(report.real_text and report.real_text.metrics.classifier_accuracy is not None for report in reports)

    def cells(metrics: TextMetrics) -> list[Cell]:
        distinct = "-" if metrics.distinct_2 is None else f"{metrics.distinct_2:.3f}"
        heard = [_perplexity(metrics), _bits(metrics)] if judged else []
        obeyed = metrics.labels_obeyed if metrics.labels_obeyed is not None else metrics.classifier_accuracy
        about_labels: list[Cell] = [None if obeyed is None else f"{obeyed:.3f}"] if labelled else []
        return [*heard, f"{metrics.sample_entropy:.3f}", distinct, *about_labels]

    rows: list[list[Cell]] = [
        [name, steps, *cells(metrics)]
        for name, report in zip(report_names(reports), reports, strict=True)
        for steps, metrics in report.by_steps(TextMetrics).items()
    ]
    several = len({report.recipe for report in reports}) > 1
    for report in reports:
        if report.real_text is not None:
            name = f"{report.real_text.texts} real texts" + (f" of {report.recipe}" if several else "")
            row = [name, None, *cells(report.real_text.metrics)]
            rows += [] if row in rows else [row]
    samples = " or ".join(dict.fromkeys(str(report.samples) for report in reports))
    note = f"{samples} samples for each number of steps. {judge_note(reports)}{_odd_texts(reports)} {STATISTICS_NOTE}"
    note += LABELS_NOTE if labelled else ""
    columns = ["run", "steps", *(["gen. PPL", "bits/char"] if judged else []), "entropy", "distinct-2"]
    columns += ["labels obeyed"] if labelled else []
    return Table("Texts by number of steps", columns, rows, note)


def _perplexity(metrics: TextMetrics) -> str | None:
    value, error = metrics.gen_ppl, metrics.gen_ppl_stderr
    digits = 0 if value is not None and value >= 1000 else 1
    return None if value is None else f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def _bits(metrics: TextMetrics) -> str | None:
    return None if metrics.judge_bits is None else f"{metrics.judge_bits:.3f}"


def _odd_texts(reports: Sequence[RunReport]) -> str:
    """How many texts had no token to score, and how many the judge did not read to the end, if any."""
    found = [metrics for report in reports for metrics in report.by_steps(TextMetrics).values()]
    found += [report.real_text.metrics for report in reports if report.real_text is not None]
    empty, cut = sum(metrics.empty_texts for metrics in found), sum(metrics.cut_texts for metrics in found)
    note = f" Of all texts {empty} had no token to score and do not count in it." if empty else ""
    return note + (f" {cut} were longer and cut." if cut else "")


def judge_note(reports: Sequence[RunReport]) -> str:
    """Who judged, and by which convention."""
    judges = {report.judge.name: report.judge for report in reports if report.judge is not None}
    return " ".join(map(_about, judges.values())) if judges else WITHOUT_A_JUDGE


def _about(judge: JudgeReport) -> str:
    return (
        f"Generative perplexity under {judge.name} by the convention {judge.convention}; the first token of a "
        f"text is {judge.first_token}; texts are cut after {judge.max_length} of its tokens. It compares only "
        "between numbers of the same judge and convention. Letters without sense fall into many of the judge's tokens, "
        "each easy to guess; the judge's bits per character do not depend on that."
    )


def judged_texts_table(found: Sequence[JudgedTexts]) -> Table:
    """Files of texts side by side; the note says who judged them."""
    judges = [one.judge for one in found if one.judge is not None]
    rows: list[list[Cell]] = []
    for one in found:
        metrics = one.metrics
        heard = [_perplexity(metrics), _bits(metrics)] if judges else []
        distinct = [None if share is None else f"{share:.3f}" for share in (metrics.distinct_1, metrics.distinct_2)]
        rows.append([one.name, one.texts, *heard, f"{metrics.sample_entropy:.3f}", *distinct])
    note = (_about(judges[0]) if judges else WITHOUT_A_JUDGE) + (
        " Entropy: of the counts of words in each text, in nats, averaged. distinct-1 and -2: distinct words and pairs "
        "of them over all; they fall with the amount of text, and compare only between equal amounts."
    )
    columns = ["file", "texts", *(["gen. PPL", "bits/char"] if judges else []), "entropy", "distinct-1", "distinct-2"]
    return Table("Texts", columns, rows, note)


def side_by_side(texts: Mapping[str, Mapping[int, Sequence[str]]], number: int = 0) -> Table:
    """One sample of each run for each number of steps, by the run's name; all but its beginning is left out."""
    steps = sorted({count for by_steps in texts.values() for count in by_steps})
    rows: list[list[Cell]] = [
        [
            f"T = {count}",
            *(_beginning(by_steps[count][number]) if count in by_steps else None for by_steps in texts.values()),
        ]
        for count in steps
    ]
    return Table("Samples side by side", ["", *texts], rows, "The first sample of each, white space as single spaces.")


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]} ..."
