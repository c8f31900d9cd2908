"""The page "Compare": quality and likelihood bounds against the number of steps, computed in the background, kept on
disk.
"""

import hashlib
import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from vadd.errors import UserError
from vadd.run.run import Run
from vadd.studio.hints import hint
from vadd.studio.opened import OpenRuns, newest_weights
from vadd.studio.problems import described, told
from vadd.studio.views import NOTHING, card, cards, table

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
    """Somebody pressed the button."""


@dataclass
class Job:
    """A comparison that is made, or that was made before and lies on disk."""

    names: Sequence[str]
    out: Path
    state: str = "waiting"
    said: str = "waiting for its turn"
    share: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def progress(self, what: str, done: int = 0, total: int | None = None) -> None:
        """As all long work reports; the moment at which a cancelled one ends."""
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
        opened = [self.runs.own(name) for name in names]
        asked = [
            [str(run.directory.path.resolve()), run.step, *newest_weights(self.runs.path(name)).priors]
            for name, run in zip(names, opened, strict=True)
        ]
        wish = json.dumps([asked, sorted(steps), samples, examples])
        key = hashlib.sha256(wish.encode()).hexdigest()[:12]
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and known.state in ("waiting", "running", "done"):
                return key
            job = self._jobs[key] = Job(list(names), self.place / "comparisons" / key)
            if (job.out / RESULTS).is_file() and (job.out / REPORT).is_file():
                job.state = "done"
                return key
            if sum(not each.ended for each in self._jobs.values()) > MOST_WAITING:
                del self._jobs[key]
                raise UserError("too many comparisons are waiting; try again when one of them is done")
        work = threading.Thread(target=self._work, args=(job, opened, sorted(steps), samples, examples), daemon=True)
        work.start()
        return key

    def find(self, key: str | None) -> Job | None:
        return None if key is None else self._jobs.get(key)

    def _work(self, job: Job, runs: Sequence[Run], steps: Sequence[int], samples: int, examples: int) -> None:
        from vadd.core import Particles
        from vadd.evaluation import BoundSettings
        from vadd.studies.comparison import Measurements, Page, compare

        with self._turn:
            if job.ended:
                return
            job.state = "running"
            try:
                bounds = BoundSettings(Particles(PARTICLES), steps=list(steps), limit=examples)
                page = Page("Comparison of " + " and ".join(job.names), INTRODUCTION)
                compare(runs, job.out, Measurements(steps, samples, bounds), page, progress=job.progress)
            except CancelledError:
                shutil.rmtree(job.out, ignore_errors=True)
                job.state, job.said = "cancelled", "cancelled; what was computed until then is not kept"
            except Exception as error:
                shutil.rmtree(job.out, ignore_errors=True)
                job.state, job.said = "failed", described(error)
            else:
                job.state = "done"


def show_job(job: Job | None) -> str:
    if job is None:
        return ""
    if job.state == "done":
        return show_results(job)
    bar = Markup('<progress max="1" value="{}"></progress>').format(job.share) if job.state == "running" else NOTHING
    kind = "problem" if job.state == "failed" else "note"
    return str(Markup('<p class="{}" role="status">{}</p>{}').format(kind, job.said, bar))


def show_results(job: Job) -> str:
    """The figures and tables of ``vadd compare``."""
    from vadd.evaluation.reports import RunReport
    from vadd.report.likelihood_tables import bound_table, latent_table
    from vadd.report.page import png_data_uri
    from vadd.report.table import Table
    from vadd.report.tables import quality_table

    reports = [RunReport.model_validate(each) for each in json.loads((job.out / RESULTS).read_text())]
    files = [(title, job.out / FIGURES / f"{name}.png") for name, title in SHOWN_FIGURES.items()]
    pictures = [
        card(title, Markup('<img class="figure" alt="{}" src="{}">').format(title, png_data_uri(file)))
        for title, file in files
        if file.is_file()
    ]
    tables: list[Table] = [quality_table(reports), bound_table(reports), latent_table(reports)]
    kept = f"kept in {job.out}; the whole report is {REPORT} there"
    return cards([*pictures, *(_table(each) for each in tables if each.rows)]) + str(
        Markup('<p class="note">{}</p>').format(kept)
    )


def _table(measured: Any) -> Markup:
    rows = [list(map(Markup("<td>{}</td>").format, cells)) for cells in measured.text_rows()]
    return Markup('<div class="card wide"><strong>{}</strong>{}<p class="note">{}</p></div>').format(
        measured.title, table(measured.columns, rows), measured.note
    )


def compare_page(comparisons: Comparisons, chosen: gr.CheckboxGroup) -> None:
    with gr.Row():
        steps = gr.CheckboxGroup(
            [str(count) for count in STEPS],
            value=["1", "2", "8"],
            label="Steps T",
            info="The runs chosen above are judged at each of them.",
            elem_id="compare-steps",
        )
        samples = gr.Slider(
            100, 10_000, value=2_000, step=100, label="Samples", info="Drawn at each T and compared with the data."
        )
        examples = gr.Slider(
            20, 1_000, value=100, step=20, label="Held-out examples", info="Of which the likelihood is bounded."
        )
    with gr.Row():
        start = gr.Button("Compare", variant="primary", elem_id="compare-button")
        stop = gr.Button("Cancel", elem_id="compare-cancel")
    hint("Computed in the background, one at a time, and kept on disk; what is cancelled leaves nothing behind.")
    shown = gr.HTML(elem_id="compare-shown", min_height=80)
    key = gr.State(None)
    clock = gr.Timer(1.0, active=False)

    @told
    def on_start(names: list[str], steps: list[str], samples: int, examples: int) -> tuple[object, ...]:
        started = comparisons.start(names, [int(count) for count in steps], int(samples), int(examples))
        return started, show_job(comparisons.find(started)), gr.Timer(active=True)

    @told
    def on_tick(key: str | None) -> tuple[object, object]:
        job = comparisons.find(key)
        return show_job(job), gr.Timer(active=job is not None and not job.ended)

    @told
    def on_stop(key: str | None) -> str:
        job = comparisons.find(key)
        if job is None:
            raise UserError("no comparison is under way")
        job.cancel()
        return show_job(job)

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    start.click(on_start, [chosen, steps, samples, examples], [key, shown, clock], **quiet)
    clock.tick(on_tick, key, [shown, clock], **quiet)
    stop.click(on_stop, key, shown, **quiet)
