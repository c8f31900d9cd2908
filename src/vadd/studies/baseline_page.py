"""The table, the figure and the words of `vadd reproduce baselines`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vadd.report.cost_figure import CostPoint, quality_by_cost
from vadd.report.figures import save_figure
from vadd.report.page import PageSection
from vadd.report.tables import COLUMN_TITLES, Cell, Table, model_label
from vadd.studies.paper import TOYS


@dataclass(frozen=True)
class Row:
    """What one model costs and gives with one number of sampling steps."""

    model: str
    name: str
    steps: int
    evaluations: float
    """Calls of the network for a chunk of samples."""
    sequences: float
    """Sequences shown to networks, for each sample."""
    seconds: float
    """Of processor time, for each sample."""
    metrics: dict[str, Any]
    measure: str | None
    """Which of the metrics is the quality; None where texts had no judge."""
    nats: float | None
    """The step bound (AR: the exact value) of held-out examples."""
    nats_stderr: float | None
    bound_valid: bool | None
    training_steps: int
    parameters: int
    exact_sampler: bool

    @property
    def quality(self) -> float | None:
        """The number that figures show; smaller is better."""
        return None if self.measure is None else float(self.metrics[self.measure])


def baselines_table(rows: Sequence[Row]) -> Table:
    fewest = [row for row in rows if row.model == "mdlm"]
    unit = fewest[0].seconds if fewest else rows[0].seconds
    what = f"{model_label('mdlm')}'s, T = {fewest[0].steps}" if fewest else "the first row's"
    cells: list[list[Cell]] = [
        [
            row.name,
            f"{row.parameters:,}",
            f"{row.training_steps:,}",
            row.steps,
            f"{row.evaluations:.0f}",
            f"{row.sequences:.1f}",
            f"{row.seconds / unit:.3g}",
            None if row.quality is None else f"{row.quality:.3g}",
            None if row.nats is None else f"{row.nats:.2f} ± {row.nats_stderr or 0:.2f}",
            _kind(row),
        ]
        for row in rows
    ]
    columns = ["here", "parameters", "training steps", "T", "evaluations", "sequences", "time"]
    note = (
        "All trained here for the same processor time, on the same data. Parameters: of all networks, recognition "
        "models included. T: sampling steps. Evaluations: calls of the network for a chunk of samples; sequences: "
        "shown to networks for each sample, the energy's included; time: processor time of a sample over "
        f"{what}. {_about_quality(rows)} Nats: of held-out examples, with one standard error."
    )
    if any(row.model == "ddpm" for row in rows):
        note += " DDPM has no likelihood here: a density of continuous images is not comparable with probabilities."
    return Table("Every model at equal training time", [*columns, _measured(rows), "nats", "which is"], cells, note)


def _measured(rows: Sequence[Row]) -> str:
    """What the quality of these rows is called."""
    measure = next((row.measure for row in rows if row.measure is not None), None)
    return "distance" if measure is None else "judge's bits" if measure == "judge_bits" else COLUMN_TITLES[measure]


def _about_quality(rows: Sequence[Row]) -> str:
    scored = next((row for row in rows if row.measure is not None), None)
    if scored is None:
        return "No judge has read the texts."
    if scored.measure == "judge_bits":
        return "The judge's bits for a character, smaller is better."
    floor = scored.metrics[f"{scored.measure}_floor"]
    return f"The distance of the samples from the data, smaller is better; data score {floor:.3g}."


def _kind(row: Row) -> str:
    if row.nats is None:
        return "not reported"
    if row.model == "ar":
        return "exact"
    return "a bound" if row.bound_valid else "a bound of the proposal, not of this sampler"


def quoted_table() -> Table:
    """What the paper reports on the checkerboard, apart from what was measured here."""
    rows: list[list[Cell]] = [
        [f"{model_label(model)}, the paper", numbers.js_1, numbers.js_5, numbers.nll]
        for (toy, model), numbers in TOYS.items()
        if toy == "checkerboard"
    ]
    note = "The paper's training takes 195,312 iterations; its NLL is not a likelihood bound for VADD."
    return Table("The paper, checkerboard", ["paper", "JS, T = 1", "JS, T = 5", "NLL"], rows, note)


def verdict(rows: Sequence[Row]) -> str:
    """Who is best at each number of steps that VADD has, and how far behind VADD is where it is not."""
    ours = [row for row in rows if row.model == "vadd"]
    sentences = []
    for mine in ours:
        rivals = [row for row in rows if row.steps == mine.steps and row.quality is not None]
        best = min(rivals, key=lambda row: row.quality or 0.0, default=None)
        if best is not None:
            behind = "" if best is mine else f", VADD {mine.quality:.3g}"
            sentences.append(f"T = {mine.steps}: {best.name} {best.quality:.3g}{behind}.")
    said = [f"The best samples by {_measured(rows)}: {' '.join(sentences)}"] if sentences else []
    known = [row for row in rows if row.nats is not None and row.bound_valid]
    if ours and known:
        best = min(known, key=lambda row: row.nats or 0.0)
        mine = min((row for row in known if row.model == "vadd"), key=lambda row: row.nats or 0.0)
        behind = "" if best is mine else f"; VADD's is {mine.nats:.2f} at T = {mine.steps}"
        said.append(f"The best likelihood: {best.name}, {best.nats:.2f} nats at T = {best.steps}{behind}.")
    return " ".join(said)


def baselines_section(rows: Sequence[Row], out: Path, command: str, *, quoted: bool) -> PageSection:
    """One table and one figure; the paper's numbers apart."""
    scored = [(row, row.quality) for row in rows if row.quality is not None]
    label = f"{_measured(rows)}, smaller is better"
    if not scored:  # texts without a judge
        scored = [(row, row.nats) for row in rows if row.nats is not None and row.bound_valid]
        label = "nats of a held-out example (bound)"
    points = [CostPoint(row.name, row.evaluations, row.sequences, value) for row, value in scored if value is not None]
    figure = save_figure(quality_by_cost(points, label), out / "figures" / "quality.png")
    return PageSection(
        "Side by side",
        verdict(rows),
        figures=[("Quality against cost", figure)],
        tables=[baselines_table(rows), *([quoted_table()] if quoted else [])],
        commands=[command],
    )
