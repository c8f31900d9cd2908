"""The tab "Compare": quality and likelihood bounds by number of steps, computed in the background, kept on disk."""

import hashlib
import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gradio as gr
from markupsafe import Markup

from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.reports import RunReport
from vadd.report.likelihood_tables import bound_table, latent_table
from vadd.report.page import png_data_uri
from vadd.report.table import Table
from vadd.report.tables import quality_table
from vadd.run.run import Run
from vadd.studies.comparison import Measurements, Page, compare
from vadd.studio import widgets as ui
from vadd.studio.runs import OpenRuns, newest_weights
from vadd.studio.views import table

STEPS = (1, 2, 4, 8, 16, 32)
PARTICLES = 16
MOST_WAITING = 4
INTRODUCTION = "The same measurements for every run, by number of sampling steps."
RESULTS, REPORT, FIGURES = "results.json", "report.html", "figures"
SHOWN_FIGURES = {
    "divergence": "Distance from the data",
    "texts": "Texts",
    "bounds": "Likelihood bound",
    "one-step": "Samples",
    "grids": "Samples",
}


class CancelledError(Exception):
    """The visitor cancelled."""


@dataclass
class Job:
    """A comparison that is computed, or that was computed before and lies on disk."""

    names: Sequence[str]
    out: Path
    state: str = "waiting"
    said: str = "waiting for its turn"
    share: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def progress(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Reports progress, and ends a comparison that was cancelled."""
        if self._stop.is_set():
            raise CancelledError
        self.said, self.share = what, done / total if total else 0.0

    def cancel(self) -> None:
        self._stop.set()
        if self.state == "waiting":
            self.state, self.said = "cancelled", "cancelled"

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


class Comparisons:
    """One at a time; what was computed once is not computed again."""

    def __init__(self, runs: OpenRuns, place: Path) -> None:
        self.runs, self.place = runs, place
        self._jobs: dict[str, Job] = {}
        self._turn, self._lock = threading.Lock(), threading.Lock()

    def start(self, names: Sequence[str], steps: Sequence[int], samples: int, examples: int) -> str:
        """The key under which :meth:`find` knows the job."""
        if not names or not steps:
            raise UserError("choose at least one run and one number of steps")
        opened = [self.runs.get(name) for name in names]
        asked = [
            [str(run.directory.path.resolve()), run.step, *newest_weights(self.runs.path(name))[1]]
            for name, run in zip(names, opened, strict=True)
        ]
        wish = json.dumps([asked, sorted(steps), samples, examples])
        key = hashlib.sha256(wish.encode()).hexdigest()[:12]
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and known.state in ("waiting", "running", "done"):
                return key
            job = Job(list(names), self.place / "comparisons" / key)
            if (job.out / RESULTS).is_file() and (job.out / REPORT).is_file():
                job.state = "done"
            elif sum(not each.ended for each in self._jobs.values()) >= MOST_WAITING:
                raise UserError("too many comparisons are waiting; try again when one of them is done")
            self._jobs[key] = job
        if not job.ended:
            arguments = (job, opened, sorted(steps), samples, examples)
            threading.Thread(target=self._work, args=arguments, daemon=True).start()
        return key

    def find(self, key: str | None) -> Job | None:
        return None if key is None else self._jobs.get(key)

    def _work(self, job: Job, runs: Sequence[Run], steps: Sequence[int], samples: int, examples: int) -> None:
        with self._turn:
            if job.ended:
                return
            job.state = "running"
            try:
                bounds = BoundSettings(Particles(PARTICLES), steps=list(steps), limit=examples)
                page = Page("Comparison of " + " and ".join(job.names), INTRODUCTION)
                compare(runs, job.out, Measurements(steps, samples, bounds), page, progress=job.progress)
                job.state = "done"
            except Exception as error:
                shutil.rmtree(job.out, ignore_errors=True)
                if isinstance(error, CancelledError):
                    job.state, job.said = "cancelled", "cancelled; what was computed until then is not kept"
                else:
                    job.state, job.said = "failed", ui.described(error)


def show_job(job: Job | None) -> str:
    if job is None:
        return ""
    if job.state == "done":
        return show_results(job)
    if job.state == "failed":
        return ui.problem(job.said)
    bar = Markup('<progress max="1" value="{}"></progress>').format(job.share)
    return ui.note(job.said) + (str(bar) if job.state == "running" else "")


def show_results(job: Job) -> str:
    """The figures and tables of ``vadd compare``."""
    reports = [RunReport.model_validate(each) for each in json.loads((job.out / RESULTS).read_text())]
    files = [(title, job.out / FIGURES / f"{name}.png") for name, title in SHOWN_FIGURES.items()]
    pictures = [
        ui.card(title, Markup('<img class="figure" alt="{}" src="{}">').format(title, png_data_uri(file)))
        for title, file in files
        if file.is_file()
    ]
    tables: list[Table] = [quality_table(reports), bound_table(reports), latent_table(reports)]
    kept = ui.note(f"kept in {job.out}; the whole report is {REPORT} there")
    return ui.cards([*pictures, *(_shown(each) for each in tables if each.rows)]) + kept


def _shown(measured: Table) -> Markup:
    rows = [list(map(Markup("<td>{}</td>").format, cells)) for cells in measured.text_rows()]
    return Markup('<div class="card wide"><strong>{}</strong>{}<p class="note">{}</p></div>').format(
        measured.title, table(measured.columns, rows), measured.note
    )


def compare_tab(comparisons: Comparisons, chosen: gr.CheckboxGroup) -> None:
    with gr.Row():
        about = "The runs chosen above are evaluated at each of them."
        steps = gr.CheckboxGroup(
            list(map(str, STEPS)), value=["1", "2", "8"], label="Steps T", info=about, elem_id="compare-steps"
        )
        about = "Drawn at each T and compared with the data."
        samples = ui.slider("Samples", about, (100, 10_000), 2_000, "compare-samples", step=100)
        about = "Of which the likelihood is bounded."
        examples = ui.slider("Held-out examples", about, (20, 1_000), 100, "compare-examples", step=20)
    with gr.Row():
        start = ui.button("Compare", "compare-button", variant="primary")
        stop = ui.button("Cancel", "compare-cancel", interactive=False)
    ui.hint("Computed in the background, one at a time, and kept on disk; what is cancelled leaves nothing behind.")
    shown = gr.HTML(elem_id="compare-shown", min_height=80)
    key, clock = gr.State(None), gr.Timer(1.0, active=False)

    def state(key: str | None) -> ui.Answer:
        job = comparisons.find(key)
        busy = job is not None and not job.ended
        return show_job(job), key, gr.Timer(active=busy), gr.Button(interactive=busy)

    def on_start(turn: ui.Turn, names: list[str], steps: list[str], samples: int, examples: int) -> ui.Answer:
        if not set(steps) <= set(map(str, STEPS)) or not (1 <= samples <= 10_000 and 1 <= examples <= 1_000):
            raise UserError("choose steps, samples and held-out examples from what is offered")
        return state(comparisons.start(names, [int(count) for count in steps], int(samples), int(examples)))

    def on_stop(turn: ui.Turn, key: str | None) -> ui.Answer:
        if (job := comparisons.find(key)) is None:
            raise UserError("no comparison is under way")
        job.cancel()
        return state(key)

    turns, outputs = ui.Turns(), [shown, key, clock, stop]
    turns.on([start.click], on_start, [chosen, steps, samples, examples], outputs)
    ui.Turns().on([clock.tick], lambda turn, key: state(key), [key], outputs, show_progress="hidden")
    turns.on([stop.click], on_stop, [key], outputs)
