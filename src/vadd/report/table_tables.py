"""Tables about tables: how samples of rows compare with rows, and how well cells are filled."""

from collections.abc import Sequence

from vadd.evaluation.metrics import TableDistance
from vadd.evaluation.reports import RunReport
from vadd.report.tables import Cell, Table, report_names

ROWS_NOTE = (
    "In brackets what real rows score. Columns and pairs: total variation from a half of the training rows, the mean "
    "over columns and over pairs of columns, and over eight ways to halve the rows; in brackets that of the other "
    "half. Classifier: the accuracy, on held-out rows, of classifiers that learnt from samples to predict one column "
    "from the others; in brackets of those that learnt from as many training rows. Nearest: the cells in which a "
    "sample differs from the training row nearest to it; in brackets held-out rows. Samples that are nearer than those "
    "are copies in part."
)


def rows_table(reports: Sequence[RunReport]) -> Table:
    """One row per run and number of steps."""

    def beside(value: float | None, floor: float | None, digits: int = 3) -> str | None:
        return None if value is None or floor is None else f"{value:.{digits}f} ({floor:.{digits}f})"

    rows: list[list[Cell]] = [
        [
            name,
            steps,
            beside(found.column_tv, found.column_tv_floor),
            beside(found.pair_tv, found.pair_tv_floor),
            beside(found.trained_on_samples, found.trained_on_rows),
            beside(found.row_distance, found.row_distance_floor, 2),
        ]
        for name, report in zip(report_names(reports), reports, strict=True)
        for steps, found in report.by_steps(TableDistance).items()
    ]
    columns = ["run", "T", "columns", "pairs", "classifier", "nearest"]
    return Table("Samples beside rows of the table", columns, rows, ROWS_NOTE)


def imputation_table(reports: Sequence[RunReport]) -> Table:
    """One row per run, each beside the same imputers."""
    rows: list[list[Cell]] = [
        [name, found.model, found.mode, found.nearest_neighbours, found.iterative]
        for name, report in zip(report_names(reports), reports, strict=True)
        if (found := report.imputation) is not None
    ]
    cells = next((report.imputation.cells for report in reports if report.imputation is not None), 0)
    note = (
        f"Share of {cells:,} hidden cells of held-out rows, a fifth of them all, that are filled with what was there: "
        "the model's likeliest value, the column's most frequent one, scikit-learn's KNNImputer and IterativeImputer. "
        "Of numbers in bins the right bin counts."
    )
    return Table("Filled cells that are right", ["run", "model", "mode", "KNN", "iterative"], rows, note)
