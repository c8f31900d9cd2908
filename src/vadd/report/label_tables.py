"""Numbers of each label of a run that has learnt from labels."""

from collections.abc import Sequence

from vadd.evaluation.reports import RunReport, StepResult
from vadd.report.tables import Cell, Table, report_names

BY_LABEL = {"frechet_by_label": "Frechet distance", "obeyed_by_label": "obeyed"}


def label_table(reports: Sequence[RunReport]) -> Table | None:
    """One row per run and label, a column for each number of steps; None where nothing was measured by label."""
    measured = [
        (name, report) for name, report in zip(report_names(reports), reports, strict=True) if _kind(report) is not None
    ]
    kinds = dict.fromkeys(_kind(report) for _, report in measured)
    columns = [
        (kind, steps)
        for kind in kinds
        for steps in dict.fromkeys(result.steps for _, report in measured for result in report.results)
    ]
    if not columns:
        return None
    rows: list[list[Cell]] = [
        [name, label, *(_value(report, kind, steps, number) for kind, steps in columns)]
        for name, report in measured
        for number, label in enumerate(report.labels or ())
    ]
    titles = [f"{BY_LABEL[kind]}, T = {steps}" for kind, steps in columns if kind is not None]
    note = (
        "Frechet distance: of the samples of a label from the training images of that label; few samples score worse "
        "than many. Obeyed: the share of them in which the classifier finds it."
    )
    return Table("Samples of each label", ["run", "label", *titles], rows, note)


def _kind(report: RunReport) -> str | None:
    """What was measured by label."""
    if report.labels is None:
        return None
    return next((kind for result in report.results for kind in BY_LABEL if _numbers(result, kind)), None)


def _numbers(result: StepResult, kind: str | None) -> Sequence[float | None]:
    return getattr(result.metrics, kind or "", None) or ()


def _value(report: RunReport, kind: str | None, steps: int, label: int) -> Cell:
    found = next((_numbers(result, kind) for result in report.results if result.steps == steps), ())
    return found[label] if label < len(found) else None
