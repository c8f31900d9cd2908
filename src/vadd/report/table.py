"""A table as plain rows, the same rows as text for the terminal, Markdown for documents and HTML for notebooks, and the
names that runs have in tables.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from vadd.evaluation.reports import RunReport
from vadd.recipe.models import EVERY_MODEL

Cell = str | float | int | None
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @classmethod
    def of(
        cls, title: str, rows: Iterable[Mapping[str, Cell]], note: str = "", optional: Sequence[str] = ()
    ) -> "Table":
        """Of cells by column, in the order in which the columns first come; a row may lack some. Of the ``optional``
        columns those without any cell are left out.
        """
        records = list(rows)
        columns = dict.fromkeys(column for record in records for column in record)
        for column in optional:
            if all(record.get(column) is None for record in records):
                columns.pop(column, None)
        return cls(title, list(columns), [[record.get(column) for column in columns] for record in records], note)

    def text_rows(self) -> list[list[str]]:
        return [[format_cell(cell) for cell in row] for row in self.rows]

    def to_markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.text_rows()]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines)
        return f"### {self.title}\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")

    def to_html(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row("td", cells) for cells in self.text_rows())
        note = f"<p><small>{html.escape(self.note)}</small></p>" if self.note else ""
        return f"<b>{html.escape(self.title)}</b><table>{row('th', self.columns)}{body}</table>{note}"

    def print(self, console: Console) -> None:
        """Numbers are never cut: words wrap; where even that is too wide, the name that all rows begin with moves into
        the title, and else every row becomes a list.
        """
        rows = self.text_rows()
        widths = self._widths(console.width, rows)
        if widths is None and len(rows) > 1 and len({row[0] for row in rows}) == 1:
            title = f"{self.title}: {rows[0][0]}"
            Table(title, self.columns[1:], [row[1:] for row in self.rows], self.note).print(console)
            return
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

    def _widths(self, available: int, rows: Sequence[Sequence[str]]) -> list[int] | None:
        """Of the columns, the widest ones narrowed until all fit; None where words would have to be broken."""
        columns = [[title, *(row[number] for row in rows)] for number, title in enumerate(self.columns)]
        widths = [max(map(cell_len, texts)) for texts in columns]
        least = [max((cell_len(word) for text in texts for word in text.split()), default=0) for texts in columns]
        available -= 1 + 3 * len(columns)  # a line on each side, and a space
        if sum(least) > available:
            return None
        while sum(widths) > available:
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


def rounded(value: float | None, digits: int, error: float | None = None) -> str | None:
    return None if value is None else f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def at_steps(by_steps: Mapping[int, Cell], steps: Iterable[int], title: str = "T = ") -> dict[str, Cell]:
    """A cell for each number of steps, empty where nothing was measured."""
    return {f"{title}{count}": by_steps.get(count) for count in steps}


def mean_and_spread(values: Iterable[float | None], form: str = "{:.3g}") -> Cell:
    """The mean and, of several, half of what they differ by."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    spread = (max(known) - min(known)) / 2
    percent = "%" if form.endswith("%}") else ""
    digit = Decimal(f"{100 * spread if percent else spread:.1g}")  # written without a power of ten
    return form.format(fmean(known)) + (f" ± {digit:f}{percent}" if len(known) > 1 else "")


def means_at_steps(by_seed: Sequence[Mapping[int, float | None]], steps: Iterable[int], form: str) -> dict[str, Cell]:
    """The mean over trainings, each by number of steps, and their spread."""
    return {f"T = {count}": mean_and_spread((each.get(count) for each in by_seed), form) for count in steps}


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Those of equal keys together, in the order in which the keys first come."""
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def model_label(model: str) -> str:
    """What a model is called in tables and figures."""
    return EVERY_MODEL[model].label if model in EVERY_MODEL else model


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


def named_reports(reports: Sequence[RunReport]) -> Iterator[tuple[str, RunReport]]:
    return zip(report_names(reports), reports, strict=True)
