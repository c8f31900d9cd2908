"""The page "Train": plan, start, watch, stop and resume."""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from vadd.errors import UserError
from vadd.recipe import Recipe, recipe_names
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.studio.draw import title_of
from vadd.studio.hints import hint
from vadd.studio.opened import OpenRuns, alone, awaits_prior
from vadd.studio.problems import told
from vadd.studio.trainings import Trainings, changes_of, recipe_of, tell_plan
from vadd.studio.uploads import READERS, accept
from vadd.studio.views import NOTHING, card, cards, view_of
from vadd.words import duration

SECONDS = 2.0
"""Between two looks at the trainings."""
SHOWN = 64
UPLOADS = "uploads"


class Watch:
    """What the trainings look like now; drawn once for all visitors."""

    def __init__(self, runs: OpenRuns, trainings: Trainings) -> None:
        self.runs, self.trainings = runs, trainings
        self._samples: dict[str, tuple[Run, Markup]] = {}
        self._curves: tuple[object, Markup] = (None, NOTHING)

    def show(self) -> str:
        names = self.trainings.names()
        if not names:
            return str(Markup('<p class="note">Nothing was started here yet.</p>'))
        return str(self._drawn_curves(names)) + cards([self._card(name) for name in names])

    def _card(self, name: str) -> Markup:
        status, problem = self.trainings.status(name)
        if problem:
            return card(name, Markup('<p class="problem" role="alert">{}</p>').format(problem))
        if status is None and name not in self.trainings.running():
            return card(name, NOTHING, "stopped before its first step: nothing is kept, Resume starts it anew")
        if status is None:
            return card(name, NOTHING, "starting: the data are read")
        left = "" if status.seconds_left is None else f", {duration(status.seconds_left)} left"
        speed = "" if status.steps_per_second is None else f" · {status.steps_per_second:.0f} steps/s{left}"
        lines = [f"{status.state}: step {status.step} of {status.steps}{speed if status.state == 'running' else ''}"]
        lines += [] if status.verdict is None else [f"latent: {status.verdict}"]
        if status.state == "finished" and awaits_prior(self.trainings.path(name)):
            busy = name in self.trainings.running()
            lines += ["its prior p(z) is being fitted" if busy else "its prior p(z) is not fitted: Resume goes on"]
        bar = Markup('<progress max="{}" value="{}"></progress>').format(status.steps or 1, status.step)
        if not status.checkpoints:
            return card(name, bar, "; ".join([*lines, "no checkpoint to draw from yet"]))
        title, picture = self._sampled(name)
        return card(title, bar + picture, "; ".join(lines))

    def _sampled(self, name: str) -> tuple[str, Markup]:
        """One-step samples of the newest checkpoint, always with the same random numbers."""
        run = self.runs.get(self.runs.add(self.trainings.path(name)))
        known = self._samples.get(name)
        if known is None or known[0] is not run:
            view = view_of(run)
            with alone(run):
                drawn = run.sample(min(SHOWN, view.most) if view.count <= SHOWN else view.count, steps=1)
            known = self._samples[name] = (run, view.show(drawn.numpy()))
        return f"{title_of(run, name)} · one step, after {run.step} training steps", known[1]

    def _drawn_curves(self, names: Sequence[str]) -> Markup:
        logs = {name: list(RunDirectory(self.trainings.path(name)).metrics()) for name in names}
        measured = {name: log for name, log in logs.items() if any(line["split"] == "test" for line in log)}
        if not measured:
            return NOTHING
        key = {name: len(log) for name, log in measured.items()}
        if self._curves[0] != key:
            from vadd.report.figures import training_curves

            written = io.BytesIO()
            training_curves(measured).savefig(written, format="png", dpi=90)
            self._curves = (key, _figure(written.getvalue()))
        return self._curves[1]


def _figure(png: bytes) -> Markup:
    import base64

    source = "data:image/png;base64," + base64.b64encode(png).decode()
    return Markup('<img class="figure" alt="training curves" src="{}">').format(source)


def train_page(runs: OpenRuns, trainings: Trainings, chosen: gr.CheckboxGroup) -> dict[str, Any]:
    """Build it; gives back the event that looks at the trainings, for the moment when the page is opened."""
    watch = Watch(runs, trainings)
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            recipe = gr.Dropdown(
                recipe_names(), value="digits", label="Recipe", info="What to learn; digits needs no download."
            )
            upload = gr.File(
                label="Or your own .npy, .csv, .txt, .zip of images",
                file_types=list(READERS),
                file_count="single",
                height=150,
                elem_id="train-upload",
            )
            hint("At most 200 MiB; whole numbers, a table, text, or images of which each is an example.")
            model = gr.Radio(
                [("VADD, with a latent", "vadd"), ("MDLM, without", "mdlm")],
                value="vadd",
                label="Model",
                info="Train both on the same data to compare them.",
            )
            steps = gr.Number(0, precision=0, minimum=0, label="Training steps", info="0: as many as the recipe says.")
            skip = gr.Textbox(
                label="Columns to leave out",
                info="Of your own table: those that only name its rows; with commas between them.",
                max_length=10_000,
                elem_id="train-skip",
            )
            with gr.Row():
                plan = gr.Button("Plan", elem_id="train-plan", min_width=80)
                start = gr.Button("Start", variant="primary", elem_id="train-start", min_width=80)
            hint("Plan tells what it takes; Start begins, and goes on when the page is closed.")
            planned = gr.Textbox(
                label="Plan", info="What a training will take, before it starts.", lines=4, elem_id="train-planned"
            )
        with gr.Column(scale=2, min_width=280):
            shown = gr.HTML(watch.show(), elem_id="train-shown", min_height=200)
            with gr.Row():
                name = gr.Dropdown(
                    trainings.names(),
                    value=next(iter(trainings.names()), None),
                    label="Training",
                    info="Which one to stop or to go on with.",
                    elem_id="train-name",
                    scale=2,
                    min_width=240,
                )
                stop = gr.Button("Stop (saves)", variant="stop", elem_id="train-stop", min_width=80)
                resume = gr.Button("Resume", elem_id="train-resume", min_width=80)
            hint("Stop ends it after its step and keeps what it has learnt; Resume goes on from there.")
    clock = gr.Timer(SECONDS, active=bool(trainings.running()))
    # Not those that are open by now: what the visitor is offered.
    known = gr.State([str(value) for _, value in chosen.choices])

    def source(recipe: str | None, upload: str | None) -> tuple[list[str], str, Path | None]:
        """The arguments of ``vadd train``, a name for the run, and the data where they are the visitor's own."""
        if upload is None:
            if recipe not in recipe_names():
                raise UserError("choose a recipe, or upload data")
            return [recipe], recipe, None
        data = accept(Path(upload), trainings.place / UPLOADS)
        return ["--data", str(data)], data.stem, data

    def with_changes(recipe: str | None, data: Path | None, changes: list[str]) -> Recipe:
        try:
            return recipe_of(recipe, data).with_overrides(changes)
        except UserError as error:
            # Where this machine keeps an upload is nobody's business.
            raise UserError(str(error).replace(f"{trainings.place / UPLOADS}{os.sep}", "")) from None

    @told
    def on_plan(recipe: str | None, upload: str | None, model: str, steps: int | None, skip: str) -> str:
        _, _, data = source(recipe, upload)
        return tell_plan(with_changes(recipe, data, changes_of(model, steps, skip)))

    @told
    def on_start(
        recipe: str | None, upload: str | None, model: str, steps: int | None, skip: str
    ) -> tuple[object, ...]:
        arguments, stem, data = source(recipe, upload)
        changes = changes_of(model, steps, skip)
        with_changes(recipe, data, changes)  # refused here rather than in the log of a process
        # Positional arguments first: with --data the changes take the recipe's place.
        begun = trainings.start([*changes, *arguments] if data else [*arguments, *changes], name=f"{stem}-{model}")
        return gr.Dropdown(choices=trainings.names(), value=begun), watch.show(), gr.Timer(active=True)

    @told
    def on_stop(name: str | None) -> str:
        trainings.stop(name or "")
        return watch.show()

    @told
    def on_resume(name: str | None) -> tuple[object, object]:
        trainings.path(name or "")
        trainings.resume(name or "")
        return watch.show(), gr.Timer(active=True)

    @told
    def on_open(known: list[str], marked: list[str]) -> tuple[object, ...]:
        names = trainings.names()
        return gr.Dropdown(choices=names, value=names[-1] if names else None), *on_tick(known, marked)

    @told
    def on_tick(known: list[str], marked: list[str]) -> tuple[object, ...]:
        busy = gr.Timer(active=bool(trainings.running()))  # before looking: the last look is at what has ended
        page = watch.show()
        names = runs.names()
        if names == known:
            return page, busy, known, gr.skip()
        if len(marked) >= 2:
            return page, busy, names, gr.CheckboxGroup(choices=names)
        # New runs are chosen as long as there is room: whoever waits for them sees them.
        marked = [*marked, *(name for name in names if name not in known)][:2]
        return page, busy, names, gr.CheckboxGroup(choices=names, value=marked)

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    wish = [recipe, upload, model, steps, skip]
    # What was told of something else, or before a mistake, is no plan of this.
    changes = [recipe.change, upload.change, model.change, steps.change, skip.change]
    gr.on([plan.click, *changes], None, None, planned, js="() => ''")
    plan.click(on_plan, wish, planned, api_visibility="private", show_progress="minimal")
    start.click(on_start, wish, [name, shown, clock], **quiet)
    stop.click(on_stop, name, shown, **quiet)
    resume.click(on_resume, name, [shown, clock], **quiet)
    clock.tick(on_tick, [known, chosen], [shown, clock, known, chosen], **quiet)
    return {"fn": on_open, "inputs": [known, chosen], "outputs": [name, shown, clock, known, chosen], **quiet}
