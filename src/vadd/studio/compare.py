"""The tab "Compare": quality and likelihood bounds by number of steps, computed once and kept on disk."""

import hashlib
import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.reports import RunReport
from vadd.progress import Progress
from vadd.report.likelihood_tables import bound_table, latent_table
from vadd.report.page import png_data_uri
from vadd.report.table import Table
from vadd.report.tables import quality_table
from vadd.studies.comparison import Measurements, Page, compare
from vadd.studio import widgets as ui
from vadd.studio.runs import OpenRuns, newest_weights

STEPS = (1, 2, 4, 8, 16, 32)
PARTICLES = 16
INTRODUCTION = "The same measurements for every run, by number of sampling steps."
RESULTS, REPORT, FIGURES = "results.json", "report.html", "figures"
SHOWN_FIGURES = {
    "divergence": "Distance from the data",
    "texts": "Texts",
    "bounds": "Likelihood bound",
    "one-step": "Samples",
    "grids": "Samples",
}


class Comparisons:
    """One at a time; what was computed once is not computed again."""

    def __init__(self, runs: OpenRuns, place: Path) -> None:
        self.runs, self.place = runs, place
        self._turn = threading.Lock()

    def folder(self, names: Sequence[str], *wish: Any) -> Path:
        """Where the comparison of these runs, with the weights that they have now, is kept."""
        weights = [
            [str(self.runs.path(name).resolve()), *map(str, newest_weights(self.runs.path(name)))] for name in names
        ]
        key = hashlib.sha256(json.dumps([weights, *wish]).encode()).hexdigest()[:12]
        return self.place / "comparisons" / key

    def make(self, names: Sequence[str], steps: Sequence[int], samples: int, examples: int, progress: Progress) -> Path:
        """The folder of the comparison. One that fails, or that ``progress`` ends, leaves nothing behind."""
        if not names or not steps:
            raise UserError("choose at least one run and one number of steps")
        runs = [self.runs.get(name) for name in names]
        out = self.folder(names, sorted(steps), samples, examples)
        with self._turn:
            progress("comparing")
            if (out / RESULTS).is_file() and (out / REPORT).is_file():
                return out
            bounds = BoundSettings(Particles(PARTICLES), steps=sorted(steps), limit=examples)
            page = Page("Comparison of " + " and ".join(names), INTRODUCTION)
            try:
                compare(runs, out, Measurements(sorted(steps), samples, bounds), page, progress=progress)
            except BaseException:
                shutil.rmtree(out, ignore_errors=True)
                raise
        return out


def show_results(out: Path) -> str:
    """The figures and tables of ``vadd compare``."""
    reports = [RunReport.model_validate(each) for each in json.loads((out / RESULTS).read_text())]
    files = [(title, out / FIGURES / f"{name}.png") for name, title in SHOWN_FIGURES.items()]
    pictures = [
        ui.card(title, Markup('<img class="figure" alt="{}" src="{}">').format(title, png_data_uri(file)))
        for title, file in files
        if file.is_file()
    ]
    tables: list[Table] = [quality_table(reports), bound_table(reports), latent_table(reports)]
    kept = ui.note(f"kept in {out}; the whole report is {REPORT} there")
    return ui.cards([*pictures, *(ui.wide_card(Markup(each.to_html())) for each in tables if each.rows)]) + kept


def compare_tab(comparisons: Comparisons, chosen: gr.CheckboxGroup) -> None:
    with gr.Row():
        about = "The runs chosen above are evaluated at each of them."
        steps = gr.CheckboxGroup(
            list(map(str, STEPS)), value=["1", "2", "8"], label="Steps T", info=about, elem_id="compare-steps"
        )
        about = "Drawn at each T and compared with the data."
        samples = ui.slider("Samples", about, (100, 10_000), 2_000, "compare-samples", step=100)
        about = "Used for the likelihood bounds."
        examples = ui.slider("Held-out examples", about, (20, 1_000), 100, "compare-examples", step=20)
    with gr.Row():
        start = ui.button("Compare", "compare-button", variant="primary")
        stop = ui.button("Cancel", "compare-cancel")
    ui.hint("Comparisons run one at a time and are kept on disk. A cancelled one leaves no files.")
    said, shown = gr.HTML(elem_id="compare-said"), gr.HTML(elem_id="compare-shown", min_height=80)

    def on_start(turn: ui.Turn, names: list[str], steps: list[str], samples: int, examples: int) -> ui.Answer:
        if not set(steps) <= set(map(str, STEPS)) or not (1 <= samples <= 10_000 and 1 <= examples <= 1_000):
            raise UserError("choose steps, samples and held-out examples from what is offered")
        counts = [int(count) for count in steps]
        return show_results(comparisons.make(names, counts, int(samples), int(examples), turn.progress)), ""

    turns = ui.Turns()
    comparing = turns.on(
        [start.click], on_start, [chosen, steps, samples, examples], [shown, said], concurrency_limit=1
    )
    turns.cancelled_by(stop, said, comparing)
