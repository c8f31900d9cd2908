"""Tables as plain rows, and the same rows as text for the terminal, Markdown for documents and cells for the page."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from vadd.evaluation.reports import LikelihoodReport, NegativeLogLikelihood, RunReport
from vadd.recipe.models import EVERY_MODEL

Cell = str | float | int | None

MODEL_LABELS: dict[str, str] = {name: facts.label for name, facts in EVERY_MODEL.items()}


def model_label(model: str) -> str:
    """What a model is called in tables and figures."""
    return MODEL_LABELS.get(model, model)


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def text_rows(self) -> list[list[str]]:
        return [[format_cell(cell) for cell in row] for row in self.rows]

    def to_markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.text_rows()]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines)
        return f"### {self.title}\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")

    def print(self, console: Console) -> None:
        """Numbers are never cut: words wrap, and where even that is too wide every row becomes a list."""
        rows = self.text_rows()
        widths = self._widths(console.width, rows)
        if widths is None:
            self._print_list(console, rows)
            return
        shown = RichTable(title_justify="left", title_style="bold", caption_justify="left")
        shown.title, shown.caption = Text(self.title), Text(self.note) if self.note else None
        for number, (column, width) in enumerate(zip(self.columns, widths, strict=True)):
            shown.add_column(Text(column), justify="left" if number == 0 else "right", width=width)
        for cells in rows:
            shown.add_row(*map(Text, cells))
        console.print(shown)

    def _widths(self, room: int, rows: Sequence[Sequence[str]]) -> list[int] | None:
        """Of the columns, the widest ones narrowed until all fit; None where words would have to be broken."""
        columns = [[title, *(row[number] for row in rows)] for number, title in enumerate(self.columns)]
        widths = [max(map(cell_len, texts)) for texts in columns]
        least = [max((cell_len(word) for text in texts for word in text.split()), default=0) for texts in columns]
        room -= 1 + 3 * len(columns)  # a line on each side, and a space
        if sum(least) > room:
            return None
        while sum(widths) > room:
            widest = max(range(len(widths)), key=lambda number: (widths[number] > least[number], widths[number]))
            widths[widest] -= 1
        return widths

    def _print_list(self, console: Console, rows: Sequence[Sequence[str]]) -> None:
        console.print(Text(self.title, style="bold"))
        for cells in rows:
            console.print(Text(f"- {cells[0]}"))
            for column, cell in zip(self.columns[1:], cells[1:], strict=True):
                console.print(Text(f"    {column}: {cell}" if column else f"    {cell}"))
        if self.note:
            console.print(Text(self.note, style="italic"))


def format_cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def report_names(reports: Sequence[RunReport]) -> list[str]:
    """Recipe and model of each report, whether one latent was kept for all steps, and its prior if that was learned;
    where that is not unique, the run's directory too.
    """
    names = [
        f"{report.recipe} {model_label(report.model)}"
        + (", one z" if report.one_latent else "")
        + (f", {report.prior} prior" if report.prior is not None else "")
        + (f", {report.draws} draws" if report.draws is not None else "")
        for report in reports
    ]
    return [
        name if names.count(name) == 1 else f"{name} ({Path(report.run).name})"
        for name, report in zip(names, reports, strict=True)
    ]


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
    "fid_reference": "training images",
    "frechet": "Frechet distance",
    "frechet_floor": "its floor",
    "classifier_accuracy": "classifier accuracy",
    "labels_obeyed": "labels obeyed",
}

NOTES = {
    "jsd": "Nats; smaller is better. The floor is what two independent samples of the data score against each other; "
    "'exact' has no sampling noise. paper_js is the quantity that the paper calls JS.",
    "pair_jsd": "Jensen-Shannon divergence from the held-out examples, averaged over pairs of positions, in nats; "
    "the floor is that of as many training examples.",
    "fid": "FID by the clean-fid protocol against the training set, or as many of its images as samples were drawn; "
    "the floor is that of as many test images. FIDs compare only at equal numbers of images.",
    "frechet": "Frechet distance from the training set in the features of a small classifier, not the Inception "
    "network's FID; the floor is that of the test set.",
}


def divergence_table(reports: Sequence[RunReport], title: str = "Distance of the samples from the data") -> Table:
    """One row per run and number of steps; the columns are the numbers that any of them has."""
    all_metrics = [result.metrics for report in reports for result in report.results]
    numbers = [
        name for name in COLUMN_TITLES if any(getattr(metrics, name, None) is not None for metrics in all_metrics)
    ]
    rows: list[list[Cell]] = [
        [name, result.steps, *(getattr(result.metrics, number, None) for number in numbers)]
        for name, report in zip(report_names(reports), reports, strict=True)
        for result in report.results
    ]
    notes = [f"{counts} samples for each number of steps."] if (counts := sample_counts(reports)) else []
    notes += [NOTES[number] for number in numbers if number in NOTES]
    return Table(title, ["run", "steps", *(COLUMN_TITLES[number] for number in numbers)], rows, " ".join(notes))


def sample_counts(reports: Sequence[RunReport]) -> str:
    """How many samples a table is about; where runs were given different numbers, all of them."""
    return " or ".join(dict.fromkeys(f"{report.samples:,}" for report in reports if report.samples))


def nearest_table(reports: Sequence[RunReport]) -> Table:
    """How close samples come to training examples, a row for each run and number of steps."""
    rows: list[list[Cell]] = [
        [name, steps, f"{median:g}", f"{report.nearest.held_out:g}"]
        for name, report in zip(report_names(reports), reports, strict=True)
        if report.nearest is not None
        for steps, median in report.nearest.samples.items()
    ]
    note = (
        "Positions in which an example differs from the training example nearest to it, the median of at most "
        f"{max((report.nearest.compared for report in reports if report.nearest is not None), default=0)}. Samples "
        "that lie closer than held-out examples do are copies in part."
    )
    return Table("Nearest training examples", ["run", "steps", "samples", "held-out examples"], rows, note)


PADS_NOTE = (
    "Pads are not scored: the numbers are those of the text given its pads, the custom of the field, and do not bound "
    "the likelihood of the padded sequence; --score-pads gives one that does."
)

BoundColumn = tuple[str, Callable[[NegativeLogLikelihood], Cell]]


def bound_table(reports: Sequence[RunReport]) -> Table:
    """One row per number: the step bounds, the ELBO, the paper's DELBO. Each says whether it is valid."""
    measured = [
        (name, report.likelihood)
        for name, report in zip(report_names(reports), reports, strict=True)
        if report.likelihood is not None
    ]
    units = {likelihood.unit or "position" for _, likelihood in measured}
    each = units.pop() if len(units) == 1 else "position"
    bounds = [bound for _, likelihood in measured for bound in likelihood.bounds]
    columns = _nat_columns(bounds) if each == "position" else _bit_columns(bounds, each)
    rows: list[list[Cell]] = [
        [name, what, "yes" if found.valid else f"no: {found.problem}", *(cell(found) for _, cell in columns)]
        for name, likelihood in measured
        for what, found in named_numbers(likelihood)
    ]
    notes = [f"Negative log-likelihood in bits and as perplexity, exp(nats per {each}), ± standard errors."]
    if each == "position":
        notes = ["Negative log-likelihood per example, in nats, as bits per position and as exp(nats per position)."]
    notes += _how_measured([found for _, likelihood in measured for _, found in named_numbers(likelihood)])
    entropies = {report.recipe: report.entropy for report in reports if report.entropy is not None}
    if entropies:
        known = "; ".join(f"entropy of {recipe}: {value:.4f} nats" for recipe, value in entropies.items())
        notes.append(f"Excess: above what the true distribution itself scores on the same examples; {known}.")
    notes += [] if all(likelihood.scores_pads for _, likelihood in measured) else [PADS_NOTE]
    titles = [title for title, _ in columns]
    return Table("Likelihood of held-out examples", ["run", "", "valid", *titles], rows, " ".join(notes))


def _how_measured(numbers: Sequence[NegativeLogLikelihood]) -> list[str]:
    """K, masks and examples of the numbers of a table, each value once."""

    def values(counts: Iterable[int | None]) -> str:
        return " and ".join(f"{count:,}" for count in sorted({count for count in counts if count is not None}))

    latents = values(found.particles for found in numbers if found.proposals is not None or found.warning is not None)
    masks, examples = values(found.draws for found in numbers), values(found.examples for found in numbers)
    parts = [*([f"K = {latents} latents for each estimate"] if latents else [])]
    parts += [f"{masks} masks (t, x_t) for each example in the ELBO and DELBO"] if masks else []
    return [f"{'; '.join([*parts, f'{examples} examples'])}."] if examples else []


def _nat_columns(bounds: Sequence[NegativeLogLikelihood]) -> list[BoundColumn]:
    columns: list[BoundColumn] = [
        ("nats", lambda found: found.nats),
        ("± std. error", lambda found: found.stderr),
        ("bits/dim", lambda found: found.bpd),
        ("perplexity", lambda found: found.perplexity),
    ]
    if any(bound.excess is not None for bound in bounds):
        columns += [("excess", lambda found: found.excess), ("± std. error", lambda found: found.excess_stderr)]
    return columns


def _bit_columns(bounds: Sequence[NegativeLogLikelihood], each: str) -> list[BoundColumn]:
    columns: list[BoundColumn] = [
        (f"bits per {each}", lambda found: found.bpd),
        (f"perplexity per {each}", perplexity_cell),
    ]
    if any(bound.bits_per_character is not None for bound in bounds):
        columns.append(("bits per character", lambda found: found.bits_per_character))
    return columns


def named_numbers(likelihood: LikelihoodReport) -> list[tuple[str, NegativeLogLikelihood]]:
    """Every number under its name."""
    many = len(likelihood.delbos) > 1
    return [
        *(
            (f"step bound, T = {bound.steps}" + ", one z" * bool(bound.one_latent) + _given(bound), bound)
            for bound in likelihood.bounds
        ),
        *([] if likelihood.elbo is None else [("ELBO" + _given(likelihood.elbo), likelihood.elbo)]),
        *(
            ("the paper's DELBO" + (f", K = {found.particles}" if many else "") + _given(found), found)
            for found in likelihood.delbos
        ),
    ]


def _given(found: NegativeLogLikelihood) -> str:
    return ", given the label" if found.given_label else ""


def perplexity_cell(found: NegativeLogLikelihood) -> Cell:
    """Four digits, and the error to as many places."""
    perplexity, error = found.perplexity, found.perplexity_stderr
    if perplexity is None:
        return None
    places = max(0, 3 - math.floor(math.log10(perplexity)))
    return f"{perplexity:.{places}f}" + ("" if error is None else f" ± {error:.{places}f}")


def latent_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = []
    for name, report in zip(report_names(reports), reports, strict=True):
        latent = report.latent
        if latent is not None:
            per_dimension = " ".join(f"{value:.2f}" for value in sorted(latent.kl_per_dimension, reverse=True)[:8])
            rows.append([name, latent.verdict, latent.kl_all_masked, latent.kl_average, per_dimension])
    columns = ["run", "verdict", "KL at t = 1", "KL on average", "largest KL by dimension"]
    return Table("Health of the latent", columns, rows, "KL of the recognition model from N(0, I), in nats.")
