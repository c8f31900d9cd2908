"""The tables, the figure and the words of `vadd reproduce baselines`."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from vadd.report.cost_figure import CostPoint, quality_by_cost
from vadd.report.figures import save_figure
from vadd.report.page import PageSection
from vadd.report.tables import COLUMN_TITLES, Cell, Table, model_label
from vadd.studies.baseline_rows import Absent, Row
from vadd.studies.paper import TOYS


def summary_table(rows: Sequence[Row], absent: Sequence[Absent] = ()) -> Table:
    """A row for each model: what it learned, and the quality of its samples by number of steps."""
    steps = _all_steps(rows)
    cells: list[list[Cell]] = []
    for name, mine in _by_name(rows).items():
        first = next(iter(mine.values()))
        qualities = [None if count not in mine else _quality(mine[count]) for count in steps]
        cells.append([name, f"{first.parameters:,}", f"{first.training_steps:,}", _seconds(first), *qualities])
    references = {row.samples: row.reference for row in rows if row.reference is not None}
    for count, value in references.items():
        cells.append([f"held-out data, up to {count:,}", None, None, None, *[f"{value:.3g}"] * len(steps)])
    cells += [[each.name, None, None, None, *[None] * len(steps)] for each in absent]
    counts = sorted({row.samples for row in rows}, reverse=True)
    fewer = {count: _names(row for row in rows if row.samples == count) for count in counts[1:]}
    note = f"{_measured(rows)}, smaller is better, of {counts[0]:,} samples"
    note += "".join(f", {count:,} of {', '.join(names)}" for count, names in fewer.items()) + ". "
    if fewer:
        note += "Fewer samples score worse, as held-out data do. "
    note += (
        "Parameters: of all networks, recognition models included; s: processor time of the training, its start, its "
        "judgement and the fit of a prior included. T: sampling steps."
    )
    if any(row.model == "edlm" for row in rows):
        note += (
            " EDLM's steps and seconds are those of the model whose candidates it weighs; AR's training comes on top."
        )
    note += "".join(f" {each.name}: {each.why}." for each in absent)
    columns = ["here", "parameters", "training steps", "s", *(f"T = {count}" for count in steps)]
    return Table(f"Samples by number of steps: {_measured(rows)}", columns, cells, note)


def likelihood_table(rows: Sequence[Row]) -> Table:
    """A row for each model that has a likelihood or a bound of one, by number of steps."""
    bounded = [row for row in rows if row.nats is not None and row.exact_sampler]
    steps = _all_steps(bounded)
    cells: list[list[Cell]] = [
        [name, *(_nats(mine[count]) if count in mine else None for count in steps), _kind(next(iter(mine.values())))]
        for name, mine in _by_name(bounded).items()
    ]
    note = (
        "Of held-out examples, the same ones for all, with one standard error; a bound is that of the sampler with T "
        "steps."
    )
    if any(row.model == "edlm" for row in rows):
        note += " EDLM's are those of the model whose candidates it weighs."
    columns = ["here", *(f"T = {count}" for count in steps), "which is"]
    return Table("Likelihood by number of steps: nats", columns, cells, note)


def _by_name(rows: Sequence[Row]) -> dict[str, dict[int, Row]]:
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        found.setdefault(row.name, {})[row.steps] = row
    return found


def _all_steps(rows: Sequence[Row]) -> list[int]:
    return sorted({row.steps for row in rows})


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.name for row in rows))


def _quality(row: Row) -> str | None:
    return None if row.quality is None else f"{row.quality:.3g}"


def _nats(row: Row) -> str | None:
    return None if row.nats is None else f"{row.nats:.2f} ± {row.nats_stderr or 0:.2f}"


def _at_most(row: Row) -> float:
    """The nats, but for chance: bounds of samplers that draw transitions are estimated with much noise."""
    return (row.nats or 0.0) + 2 * (row.nats_stderr or 0.0)


def _seconds(row: Row) -> str | None:
    return None if row.training_seconds is None else f"{row.training_seconds:.0f}"


def baselines_table(rows: Sequence[Row]) -> Table:
    """A row for each model and number of steps, with what a sample costs."""
    fewest = [row for row in rows if row.model == "mdlm"]
    unit = fewest[0].seconds if fewest else rows[0].seconds
    what = f"{model_label('mdlm')}'s, T = {fewest[0].steps}" if fewest else "the first row's"
    cells: list[list[Cell]] = [
        [
            row.name,
            row.steps,
            f"{row.evaluations:.0f}",
            f"{row.sequences:.1f}",
            f"{row.seconds / unit:.3g}",
            f"{row.samples:,}",
            _quality(row),
            _nats(row),
            _kind(row),
        ]
        for row in rows
    ]
    columns = ["here", "T", "evaluations", "sequences", "time", "samples", _measured(rows), "nats", "which is"]
    note = (
        "T: sampling steps. Evaluations: calls of the network for a chunk of samples; sequences: shown to networks for "
        f"each sample, the energy's included; time: processor time of a sample over {what}. {_about_quality(rows)} "
        "Nats: of held-out examples, with one standard error."
    )
    if any(row.model == "ddpm" for row in rows):
        note += " DDPM has no likelihood here: a density of continuous images is not comparable with probabilities."
    return Table("What samples cost, and what they are worth", columns, cells, note)


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
    return "The distance of the samples from the data, smaller is better."


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
    sentences = []
    for steps in _all_steps([row for row in rows if row.model == "vadd"]):
        scored = [row for row in rows if row.steps == steps and row.quality is not None]
        best = min(scored, key=lambda row: row.quality or 0.0, default=None)
        mine = min((row for row in scored if row.model == "vadd"), key=lambda row: row.quality or 0.0, default=None)
        if best is not None and mine is not None:
            behind = "" if best is mine else f"; {mine.name} ({mine.quality:.3g})"
            sentences.append(f"T = {steps}: {best.name} ({best.quality:.3g}){behind}.")
    said = [f"The best samples by {_measured(rows)}: {' '.join(sentences)}"] if sentences else []
    known = [row for row in rows if row.nats is not None and row.bound_valid]
    ours = [row for row in known if row.model == "vadd"]
    if ours:
        best, mine = (min(some, key=_at_most) for some in (known, ours))
        behind = "" if best is mine else f"; {mine.name} has {mine.nats:.2f} at T = {mine.steps}"
        said.append(
            f"The best likelihood, two standard errors counted against it: {best.name}, {best.nats:.2f} nats at "
            f"T = {best.steps}{behind}."
        )
    return " ".join(said)


def baselines_section(
    rows: Sequence[Row], absent: Sequence[Absent], out: Path, command: str, *, quoted: bool
) -> PageSection:
    """The figure and the tables; the paper's numbers apart."""
    scored = [(row, row.quality) for row in rows if row.quality is not None]
    label = f"{_measured(rows)}, smaller is better"
    if not scored:  # texts without a judge
        scored = [(row, row.nats) for row in rows if row.nats is not None and row.bound_valid]
        label = "nats of a held-out example (bound)"
    points = [CostPoint(row.name, row.evaluations, row.sequences, value) for row, value in scored if value is not None]
    references = sorted({row.reference for row, _ in scored if row.reference is not None and row.quality is not None})
    figure = save_figure(quality_by_cost(points, label, references), out / "figures" / "quality.png")
    return PageSection(
        "Side by side",
        verdict(rows),
        figures=[("Quality against cost", figure)],
        tables=[
            summary_table(rows, absent),
            likelihood_table(rows),
            baselines_table(rows),
            *([quoted_table()] if quoted else []),
        ],
        commands=[command],
    )
