"""The rows, tables and figure of `vadd reproduce baselines`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import computed_field

from vadd.report.figures import CostPoint, quality_by_cost, save_figure
from vadd.report.notes import NOTES
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, at_steps, grouped, mean_and_spread, model_label
from vadd.report.tables import COLUMN_TITLES
from vadd.studies.comparison import Row, absent_notes


class ModelRow(Row):
    """What one model costs and gives with one number of sampling steps."""

    model: str
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
    nats: float | None = None
    """The step bound (AR: the exact value) of held-out examples."""
    nats_stderr: float | None = None
    bound_valid: bool | None = None
    training_steps: int
    parameters: int
    exact_sampler: bool
    samples: int = 0
    """That were evaluated."""
    reference: float | None = None
    """The quality of as many held-out examples, or of all there are."""
    training_seconds: float | None = None
    """Of processor time, the fit of a learned prior included."""
    measuring_seconds: float = 0.0
    """Of processor time, for drawing, evaluating and bounding."""
    chosen: str | None = None
    """What was chosen for it on a part of the training set."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def quality(self) -> float | None:
        """The number that figures show; smaller is better."""
        return None if self.measure is None else float(self.metrics[self.measure])

    @property
    def kind(self) -> str:
        """What the nats are."""
        if self.nats is None:
            return "not reported"
        if self.model == "ar":
            return "exact"
        return "a bound" if self.bound_valid else "a bound of the proposal, not of this sampler"


Rows = Sequence[ModelRow]


def by_model(rows: Iterable[ModelRow]) -> dict[str, dict[int, list[ModelRow]]]:
    """The seeds of each model and number of steps."""
    models = grouped(rows, lambda row: row.name)
    return {name: grouped(members, lambda row: row.steps) for name, members in models.items()}


def quality_of(members: Rows) -> Cell:
    return mean_and_spread(row.quality for row in members)


def nats_of(members: Rows) -> Cell:
    """Their mean, and the error of one or half of what they differ by, whichever is larger."""
    nats = [row.nats for row in members if row.nats is not None]
    error = max([(max(nats, default=0) - min(nats, default=0)) / 2, *(row.nats_stderr or 0.0 for row in members)])
    return f"{fmean(nats):.2f} ± {error:.2f}" if nats else None


def summary_table(rows: Rows, absent: Mapping[str, str]) -> Table:
    """A row for each model: its training, and the quality of its samples by number of steps."""
    steps, measure = sorted({row.steps for row in rows}), _measure(rows)
    chooses = any(row.chosen for row in rows)
    cells: list[dict[str, Cell]] = []
    for name, by_steps in by_model(rows).items():
        first, *_ = members = next(iter(by_steps.values()))
        facts: dict[str, Cell] = {"here": name, "parameters": f"{first.parameters:,}"}
        facts["training steps"] = f"{first.training_steps:,}"
        facts["s"] = None if first.training_seconds is None else f"{first.training_seconds:.0f}"
        facts |= at_steps({count: quality_of(those) for count, those in by_steps.items()}, steps)
        chosen = " or ".join(dict.fromkeys(row.chosen for row in members if row.chosen)) or None
        cells.append(facts | ({"chosen": chosen} if chooses else {}))
    for count, value in {row.samples: row.reference for row in rows if row.reference is not None}.items():
        reference = at_steps(dict.fromkeys(steps, f"{value:.3g}"), steps)
        cells.append({"here": f"held-out data, up to {count:,}", **reference})
    cells += [{"here": name} for name in absent]
    most, *fewer = sorted({row.samples for row in rows}, reverse=True)
    note = f"{measure}, smaller is better, of {most:,} samples"
    for count in fewer:
        note += f", {count:,} of {', '.join(dict.fromkeys(row.name for row in rows if row.samples == count))}"
    said = {"fewer_samples": fewer, "summary": True, "edlm": _has(rows, "edlm"), "chosen": chooses}
    said["seeds"] = any(row.seed for row in rows)
    text = " ".join([f"{note}.", *(NOTES[key] for key, wanted in said.items() if wanted)]) + absent_notes(absent)
    return Table.of(f"Samples by number of steps: {measure}", cells, text)


def likelihood_table(rows: Rows) -> Table:
    """A row for each model that has a likelihood or a bound of one, by number of steps."""
    bounded = [row for row in rows if row.nats is not None and row.exact_sampler]
    steps = sorted({row.steps for row in bounded})
    cells = [
        {
            "here": name,
            **at_steps({count: nats_of(members) for count, members in by_steps.items()}, steps),
            "which is": next(iter(by_steps.values()))[0].kind,
        }
        for name, by_steps in by_model(bounded).items()
    ]
    return Table.of("Likelihood by number of steps: nats", cells, NOTES["baseline_nats"])


def cost_table(rows: Rows) -> Table:
    """A row for each model and number of steps, with what a sample costs."""
    unit = next((row for row in rows if row.model == "mdlm"), rows[0])
    measure = _measure(rows)
    cells: list[dict[str, Cell]] = [
        {
            "here": row.name,
            "T": row.steps,
            "evaluations": f"{row.evaluations:.0f}",
            "sequences": f"{row.sequences:.1f}",
            "time": f"{row.seconds / unit.seconds:.3g}",
            "samples": f"{row.samples:,}",
            measure: quality_of(members),
            "nats": nats_of(members),
            "which is": row.kind,
        }
        for by_steps in by_model(rows).values()
        for members in by_steps.values()
        for row in members[:1]
    ]
    about = {"distance": NOTES["unread"], "judge's bits": NOTES["judge_bits"]}.get(measure, NOTES["distance"])
    note = NOTES["cost"].format(unit=f"{model_label(unit.model)}'s, T = {unit.steps}", about=about)
    note += f" {NOTES['ddpm']}" if _has(rows, "ddpm") else ""
    return Table.of("What samples cost, and what they are worth", cells, note)


def _has(rows: Rows, model: str) -> bool:
    return any(row.model == model for row in rows)


def _measure(rows: Rows) -> str:
    """What the quality of these rows is called."""
    measure = next((row.measure for row in rows if row.measure is not None), None)
    return "distance" if measure is None else {**COLUMN_TITLES, "judge_bits": "judge's bits"}[measure]


def baselines_section(rows: Rows, absent: Mapping[str, str], figures: Path) -> PageSection:
    label, scored = f"{_measure(rows)}, smaller is better", [row for row in rows if row.quality is not None]
    references = sorted({row.reference for row in scored if row.reference is not None})
    if not scored:  # texts without a judge
        scored = [row for row in rows if row.nats is not None and row.bound_valid]
        label = "nats of a held-out example (bound)"
    points: dict[str, list[CostPoint]] = {}
    for name, by_steps in by_model(scored).items():
        for members in by_steps.values():
            value = fmean((row.nats or 0.0) if row.quality is None else row.quality for row in members)
            points.setdefault(name, []).append((members[0].evaluations, members[0].sequences, value))
    figure = save_figure(quality_by_cost(points, label, references), figures / "quality.png")
    tables = [summary_table(rows, absent), likelihood_table(rows), cost_table(rows)]
    return PageSection("Side by side", figures=[("Quality against cost", figure)], tables=tables)
