"""The rows, tables, figure and summary of `vadd reproduce baselines`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict

from vadd.report.figures import CostPoint, quality_by_cost, save_figure
from vadd.report.page import PageSection
from vadd.report.table import Cell, Table, model_label
from vadd.report.tables import COLUMN_TITLES
from vadd.studies.study import study_named
from vadd.studies.tables import CHOSEN_NOTE, SEEDS_NOTE


class Row(BaseModel):
    """What one model costs and gives with one number of sampling steps."""

    model_config = ConfigDict(frozen=True)

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
    seed: int = 0
    """Of the training."""
    chosen: str | None = None
    """What was chosen for it on a part of the training set."""
    quality_spread: float | None = None
    """Of rows that stand for several seeds: half of what these differ by."""
    nats_spread: float | None = None
    stamp: str = ""
    """Of all that decides the numbers; a row whose stamp has not changed is not measured again."""

    @property
    def quality(self) -> float | None:
        """The number that figures show; smaller is better."""
        return None if self.measure is None else float(self.metrics[self.measure])

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json") | {"quality": self.quality}

    @property
    def nats_cell(self) -> Cell:
        error = max(self.nats_stderr or 0.0, self.nats_spread or 0.0)
        return None if self.nats is None else f"{self.nats:.2f} ± {error:.2f}"

    @property
    def quality_cell(self) -> Cell:
        spread = "" if self.quality_spread is None else f" ± {self.quality_spread:.1g}"
        return None if self.quality is None else f"{self.quality:.3g}{spread}"

    @property
    def kind(self) -> str:
        """What the nats are."""
        if self.nats is None:
            return "not reported"
        if self.model == "ar":
            return "exact"
        return "a bound" if self.bound_valid else "a bound of the proposal, not of this sampler"


Rows = Sequence[Row]


def over_seeds(rows: Rows) -> list[Row]:
    """A row for each model and number of steps: the means over the seeds, and how far these are apart."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.name, row.steps), []).append(row)
    return [members[0] if len(members) == 1 else _mean_row(members) for members in groups.values()]


def _mean_row(members: Rows) -> Row:
    first = members[0]
    qualities = [row.quality for row in members if row.quality is not None]
    nats = [row.nats for row in members if row.nats is not None]
    changes: dict[str, Any] = {"chosen": " or ".join(dict.fromkeys(row.chosen or "" for row in members)) or None}
    if qualities and first.measure is not None:
        changes["metrics"] = {**first.metrics, first.measure: fmean(qualities)}
        changes["quality_spread"] = (max(qualities) - min(qualities)) / 2
    if nats:
        changes |= {"nats": fmean(nats), "nats_spread": (max(nats) - min(nats)) / 2}
    return first.model_copy(update=changes)


def summary_table(rows: Rows, absent: Mapping[str, str]) -> Table:
    """A row for each model: its training, and the quality of its samples by number of steps."""
    steps, measure = _steps(rows), _measure(rows)
    chooses = any(row.chosen for row in rows)
    cells: list[list[Cell]] = []
    for name, by_steps in _by_name(rows).items():
        first = next(iter(by_steps.values()))
        seconds = None if first.training_seconds is None else f"{first.training_seconds:.0f}"
        qualities = [by_steps[count].quality_cell if count in by_steps else None for count in steps]
        facts = [name, f"{first.parameters:,}", f"{first.training_steps:,}", seconds]
        cells.append([*facts, *qualities, *([first.chosen] if chooses else [])])
    references = {row.samples: row.reference for row in rows if row.reference is not None}
    for count, value in references.items():
        numbers = [*[f"{value:.3g}"] * len(steps), *[None] * chooses]
        cells.append([f"held-out data, up to {count:,}", None, None, None, *numbers])
    cells += [[name, None, None, None, *[None] * (len(steps) + chooses)] for name in absent]
    most, *fewer = sorted({row.samples for row in rows}, reverse=True)
    note = f"{measure}, smaller is better, of {most:,} samples"
    for count in fewer:
        names = dict.fromkeys(row.name for row in rows if row.samples == count)
        note += f", {count:,} of {', '.join(names)}"
    note += ". Fewer samples score worse, as held-out data do. " if fewer else ". "
    note += (
        "Parameters: of all networks, recognition models included; s: processor time of the training, its start, its "
        "evaluation and the fit of a prior included. T: sampling steps."
    )
    if any(row.model == "edlm" for row in rows):
        note += (
            " EDLM's steps and seconds are those of the model whose candidates it weighs; AR's training comes on top."
        )
    note += f" {CHOSEN_NOTE}" if chooses else ""
    note += f" {SEEDS_NOTE}" if any(row.quality_spread is not None for row in rows) else ""
    note += "".join(f" {name}: {why}." for name, why in absent.items())
    columns = ["here", "parameters", "training steps", "s", *(f"T = {count}" for count in steps)]
    columns += ["chosen"] * chooses
    return Table(f"Samples by number of steps: {measure}", columns, cells, note)


def likelihood_table(rows: Rows) -> Table:
    """A row for each model that has a likelihood or a bound of one, by number of steps."""
    bounded = [row for row in rows if row.nats is not None and row.exact_sampler]
    steps = _steps(bounded)
    cells: list[list[Cell]] = [
        [name, *(mine[count].nats_cell if count in mine else None for count in steps), next(iter(mine.values())).kind]
        for name, mine in _by_name(bounded).items()
    ]
    note = (
        "Of held-out examples, the same for all, with one standard error; a bound is that of the sampler with T steps."
    )
    if any(row.model == "edlm" for row in rows):
        note += " EDLM's are those of the model whose candidates it weighs."
    columns = ["here", *(f"T = {count}" for count in steps), "which is"]
    return Table("Likelihood by number of steps: nats", columns, cells, note)


def cost_table(rows: Rows) -> Table:
    """A row for each model and number of steps, with what a sample costs."""
    fewest = next((row for row in rows if row.model == "mdlm"), None)
    unit, what = (rows[0].seconds, "the first row's")
    if fewest is not None:
        unit, what = fewest.seconds, f"{model_label('mdlm')}'s, T = {fewest.steps}"
    cells: list[list[Cell]] = [
        [
            row.name,
            row.steps,
            f"{row.evaluations:.0f}",
            f"{row.sequences:.1f}",
            f"{row.seconds / unit:.3g}",
            f"{row.samples:,}",
            row.quality_cell,
            row.nats_cell,
            row.kind,
        ]
        for row in rows
    ]
    columns = ["here", "T", "evaluations", "sequences", "time", "samples", _measure(rows), "nats", "which is"]
    about = {
        "distance": "No judge has read the texts.",
        "judge's bits": "The judge's bits for a character, smaller is better.",
    }.get(_measure(rows), "The distance of the samples from the data, smaller is better.")
    note = (
        "T: sampling steps. Evaluations: calls of the network for a chunk of samples; sequences: shown to networks for "
        f"each sample, the energy's included; time: processor time of a sample over {what}. {about} Nats: of held-out "
        "examples, with one standard error."
    )
    if any(row.model == "ddpm" for row in rows):
        note += " DDPM has no likelihood here: a density of continuous images is not comparable with probabilities."
    return Table("What samples cost, and what they are worth", columns, cells, note)


def _by_name(rows: Rows) -> dict[str, dict[int, Row]]:
    by_name: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_name.setdefault(row.name, {})[row.steps] = row
    return by_name


def _steps(rows: Rows) -> list[int]:
    return sorted({row.steps for row in rows})


def _measure(rows: Rows) -> str:
    """What the quality of these rows is called."""
    measure = next((row.measure for row in rows if row.measure is not None), None)
    return "distance" if measure is None else {**COLUMN_TITLES, "judge_bits": "judge's bits"}[measure]


def quoted_table() -> Table:
    """What the paper reports on the checkerboard, apart from what was measured here."""
    published = study_named("toys").published
    rows: list[list[Cell]] = [
        [f"{row.name}, the paper", *published.by_steps[f"checkerboard {row.model}"].values(), row.value]
        for row in published.likelihoods["checkerboard"]
    ]
    note = "The paper's training takes 195,312 iterations; its NLL is not a likelihood bound for VADD."
    return Table("The paper, checkerboard", ["paper", "JS, T = 1", "JS, T = 5", "NLL"], rows, note)


def verdict(rows: Rows) -> str:
    """The best model at each number of steps that VADD has, and how far behind VADD is where it is another."""
    sentences = []
    for steps in _steps([row for row in rows if row.model == "vadd"]):
        scored = [row for row in rows if row.steps == steps and row.quality is not None]
        ranked = sorted(scored, key=lambda row: row.quality or 0.0)
        ours = [row for row in ranked if row.model == "vadd"]
        if ours:
            behind = "" if ranked[0] is ours[0] else f"; {ours[0].name} ({ours[0].quality_cell})"
            sentences.append(f"T = {steps}: {ranked[0].name} ({ranked[0].quality_cell}){behind}.")
    parts = [f"The best samples by {_measure(rows)}: {' '.join(sentences)}"] if sentences else []
    bounded = [row for row in rows if row.nats is not None and row.bound_valid]
    ranked = sorted(bounded, key=lambda row: (row.nats or 0.0) + 2 * (row.nats_stderr or 0.0))
    ours = [row for row in ranked if row.model == "vadd"]
    if ours:
        behind = "" if ranked[0] is ours[0] else f"; {ours[0].name} has {ours[0].nats:.2f} at T = {ours[0].steps}"
        parts.append(
            f"The best likelihood, two standard errors counted against it: {ranked[0].name}, {ranked[0].nats:.2f} nats "
            f"at T = {ranked[0].steps}{behind}."
        )
    return " ".join(parts)


def baselines_section(rows: Rows, absent: Mapping[str, str], figures: Path, *, quoted: bool) -> PageSection:
    """The figure and the tables; the paper's numbers apart."""
    rows = over_seeds(rows)
    label = f"{_measure(rows)}, smaller is better"
    scored = [(row, row.quality) for row in rows if row.quality is not None]
    references = sorted({row.reference for row, _ in scored if row.reference is not None})
    if not scored:  # texts without a judge
        scored = [(row, row.nats) for row in rows if row.nats is not None and row.bound_valid]
        label = "nats of a held-out example (bound)"
    points = [CostPoint(row.name, row.evaluations, row.sequences, value) for row, value in scored]
    figure = save_figure(quality_by_cost(points, label, references), figures / "quality.png")
    return PageSection(
        "Side by side",
        verdict(rows),
        figures=[("Quality against cost", figure)],
        tables=[
            summary_table(rows, absent),
            likelihood_table(rows),
            cost_table(rows),
            *([quoted_table()] if quoted else []),
        ],
    )
