"""Tables as plain rows, and the same rows as text for the terminal, Markdown for documents and cells for the page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from vadd.report.figures import label

Cell = str | float | int | None


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
        shown = RichTable(
            title=self.title,
            title_justify="left",
            title_style="bold",
            caption=self.note or None,
            caption_justify="left",
        )
        for number, column in enumerate(self.columns):
            shown.add_column(column, justify="left" if number == 0 else "right", no_wrap=number <= 1)
        for cells in self.text_rows():
            shown.add_row(*cells)
        console.print(shown)


def format_cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def report_names(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Recipe and model of each report, and whether one latent was kept for all steps; where that is not unique, the
    run's directory too.
    """
    names = [
        f"{report['recipe']} {label(report['model'])}" + (", one z" if report.get("latent_policy") == "fixed" else "")
        for report in reports
    ]
    return [
        name if names.count(name) == 1 else f"{name} ({Path(report['run']).name})"
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


def divergence_table(
    reports: Sequence[Mapping[str, Any]], title: str = "Distance of the samples from the data"
) -> Table:
    """One row per run and number of steps."""
    metrics = [
        name
        for name in COLUMN_TITLES
        if any(result.get(name) is not None for report in reports for result in report["results"])
    ]
    rows: list[list[Cell]] = [
        [name, result["steps"], *(result.get(metric) for metric in metrics)]
        for name, report in zip(report_names(reports), reports, strict=True)
        for result in report["results"]
    ]
    return Table(
        title,
        ["run", "steps", *(COLUMN_TITLES[metric] for metric in metrics)],
        rows,
        " ".join(NOTES[metric] for metric in metrics if metric in NOTES),
    )


PADS_NOTE = (
    "Pads are not scored: the numbers are those of the text given its pads, the custom of the field, and do not bound "
    "the likelihood of the padded sequence; --score-pads gives one that does."
)


def bound_table(reports: Sequence[Mapping[str, Any]]) -> Table:
    """Valid bounds first; the paper's DELBO, where it was measured, in rows that say what it is."""
    bounds = [bound for report in reports for bound in report["bounds"]]
    units = {report.get("unit", "position") for report in reports}
    each = units.pop() if len(units) == 1 else "position"
    note = f"Negative log-likelihood per example, in nats, as bits per {each} and as exp(nats per {each}). "
    if each == "position":
        titles = {"nats": "nats", "stderr": "± std. error", "bpd": "bits/dim", "perplexity": "perplexity"}
        if any(bound["excess"] is not None for bound in bounds):
            titles |= {"excess": "excess", "excess_stderr": "± std. error"}
    else:
        note = f"Negative log-likelihood in bits and as perplexity, exp(nats per {each}), ± standard errors. "
        titles = {"bpd": f"bits per {each}", "perplexity": f"perplexity per {each}"}
        if any(bound.get("bits_per_character") is not None for bound in bounds):
            titles |= {"bits_per_character": "bits per character"}
    rows: list[list[Cell]] = []
    for name, report in zip(report_names(reports), reports, strict=True):
        for what, found in _measured(report):
            problem = found.get("warning") or found.get("convention") or "not a likelihood bound"
            cells = {**found, "perplexity": perplexity_cell(found)} if each != "position" else found
            valid = "yes" if found["valid"] else f"no: {problem}"
            rows.append([name, what, valid, *(cells.get(key) for key in titles)])
    entropies = {report["recipe"]: report["entropy"] for report in reports if "entropy" in report}
    known = "; ".join(f"entropy of {recipe}: {value:.4f} nats" for recipe, value in entropies.items())
    note += f"Excess: above what the true distribution itself scores on the same examples; {known}." if known else ""
    note += PADS_NOTE if any("convention" in bound for bound in bounds) else ""
    return Table("Likelihood of held-out examples", ["run", "", "valid", *titles.values()], rows, note)


def _measured(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Every number of a report under its name."""
    delbos = report.get("delbo_by_particles") or ([report["delbo"]] if "delbo" in report else [])
    many = len(delbos) > 1
    return [
        *((f"step bound, T = {bound['steps']}", bound) for bound in report["bounds"]),
        *([("ELBO", report["elbo"])] if "elbo" in report else []),
        *(("the paper's DELBO" + (f", K = {found['particles']}" if many else ""), found) for found in delbos),
    ]


def perplexity_cell(found: Mapping[str, Any]) -> Cell:
    """Four digits, and the error to as many places."""
    perplexity, error = found["perplexity"], found.get("perplexity_stderr")
    if perplexity is None:
        return None
    places = max(0, 3 - math.floor(math.log10(perplexity)))
    return f"{perplexity:.{places}f}" + ("" if error is None else f" ± {error:.{places}f}")


def latent_table(reports: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for name, report in zip(report_names(reports), reports, strict=True):
        latent = report.get("latent")
        if latent is not None:
            per_dimension = " ".join(f"{value:.2f}" for value in sorted(latent["kl_per_dimension"], reverse=True)[:8])
            rows.append([name, latent["verdict"], latent["kl_all_masked"], latent["kl_average"], per_dimension])
    columns = ["run", "verdict", "KL at t = 1", "KL on average", "largest KL by dimension"]
    return Table("Health of the latent", columns, rows, "KL of the recognition model from the prior, in nats.")
