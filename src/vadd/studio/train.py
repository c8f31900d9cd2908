"""The tab "Train": plan, start, watch, stop and resume."""

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe, recipe_for, recipe_names
from vadd.recipe.plan import make_plan
from vadd.report.figures import training_curves
from vadd.report.samples import as_png
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.studio import widgets as ui
from vadd.studio.draw import title_of
from vadd.studio.runs import ACCEPTED, OpenRuns, accept, awaits_prior
from vadd.studio.trainings import WATCHED, Trainings
from vadd.studio.views import view_of
from vadd.words import duration, size_in_memory

SECONDS = 2.0
"""Between two looks at the trainings."""
SHOWN = 64


@lru_cache(maxsize=4)
def one_step_samples(run: Run) -> Markup:
    """Always with the same random numbers; a newer checkpoint is another run."""
    view = view_of(run)
    return view.show(run.sample(min(SHOWN, view.most) if view.count <= SHOWN else view.count, steps=1).numpy())


class Watch:
    """What the trainings look like now; drawn once for all visitors."""

    def __init__(self, runs: OpenRuns, trainings: Trainings) -> None:
        self.runs, self.trainings = runs, trainings
        self._curves: tuple[object, str] = (None, "")

    def show(self) -> str:
        names = self.trainings.names()
        if not names:
            return ui.note("No training was started here yet.")
        return self._drawn_curves(names) + ui.cards([self._card(name) for name in names])

    def _card(self, name: str) -> Markup:
        status, wrong = self.trainings.status(name)
        if wrong:
            return ui.card(name, Markup(ui.problem(wrong)))
        busy = name in self.trainings.running()
        if status is None:
            stopped = "stopped before its first step: nothing is kept, Resume starts it anew"
            return ui.card(name, ui.NOTHING, "starting: the data are read" if busy else stopped)
        left = "" if status.seconds_left is None else f", {duration(status.seconds_left)} left"
        speed = "" if status.steps_per_second is None else f" · {status.steps_per_second:.0f} steps/s{left}"
        lines = [f"{status.state}: step {status.step} of {status.steps}{speed if status.state == 'running' else ''}"]
        lines += [] if status.verdict is None else [f"latent: {status.verdict}"]
        if status.state == "finished" and awaits_prior(self.trainings.path(name)):
            lines += ["its prior p(z) is being fitted" if busy else "its prior p(z) is not fitted: Resume goes on"]
        bar = Markup('<progress max="{}" value="{}"></progress>').format(status.steps or 1, status.step)
        if not status.checkpoints:
            return ui.card(name, bar, "; ".join([*lines, "no checkpoint to draw from yet"]))
        run = self.runs.get(self.runs.add(self.trainings.path(name)))
        title = f"{title_of(run, name)} · one step, after {run.step} training steps"
        return ui.card(title, bar + one_step_samples(run), "; ".join(lines))

    def _drawn_curves(self, names: Sequence[str]) -> str:
        logs = {name: list(RunDirectory(self.trainings.path(name)).metrics()) for name in names}
        measured = {name: log for name, log in logs.items() if any(line["split"] == "test" for line in log)}
        key = {name: len(log) for name, log in measured.items()}
        if measured and self._curves[0] != key:
            picture = base64.b64encode(as_png(training_curves(measured))).decode()
            self._curves = (key, f'<img class="figure" alt="training curves" src="data:image/png;base64,{picture}">')
        return self._curves[1] if measured else ""


def described_plan(recipe: Recipe) -> str:
    """What a training will take, in a few lines."""
    plan = make_plan(recipe)
    disk = plan.checkpoints_kept * plan.checkpoint_bytes
    most = max(memory.total for memory in plan.memory if memory.precision == "float32")
    return (
        f"{recipe.name}, {recipe.model}: {recipe.about}\n"
        f"examples of {' x '.join(map(str, plan.shape))} with {plan.vocab_size:,} values; "
        f"{plan.parameters.trained:,} parameters\n{plan.steps:,} steps of batch {plan.batch}: {plan.time} of "
        "arithmetic alone on an idle machine, measured here; a training takes longer\n"
        f"memory about {size_in_memory(most)}, on disk {size_in_memory(disk)}"
    )


class Wish:
    """What a visitor wants to train: a recipe by name, or uploaded data, with changes."""

    def __init__(self, uploads: Path, recipe: str | None, upload: Mapping[str, Any] | None, *changes: Any) -> None:
        model, steps, skip = changes
        left_out = [name.strip() for name in (skip or "").split(",") if name.strip()]
        given = {"training.steps": int(steps or 0), "data.skip": left_out and json.dumps(left_out)}
        changed = [f"model={model}", *WATCHED, *(f"{key}={value}" for key, value in given.items() if value)]
        self.data = None if upload is None else accept(Path(upload["path"]), uploads)
        if self.data is None and recipe not in recipe_names():
            raise UserError("choose a recipe, or upload data")
        self.name = f"{self.data.stem if self.data else recipe}-{model}"
        # With --data the changes take the place of the recipe's name.
        self.arguments = [*changed, "--data", str(self.data)] if self.data else [str(recipe), *changed]
        try:
            found = recipe_for(self.data) if self.data else load_recipe(str(recipe))
            self.recipe = found.with_overrides(changed)
        except UserError as error:
            # The page does not show where this machine keeps uploads.
            raise UserError(str(error).replace(f"{uploads}{os.sep}", "")) from None


def _source_controls() -> tuple[list[Any], Any, Any, Any]:
    recipe = ui.choice("Recipe", "What to learn; digits needs no download.", recipe_names(), "digits")
    upload = gr.File(
        label="Or your own .npy, .csv, .txt, .zip of images",
        file_types=list(ACCEPTED),
        file_count="single",
        height=150,
        elem_id="train-upload",
    )
    ui.hint("At most 200 MiB: integers, a table, text or images.")
    models = [("VADD, with a latent", "vadd"), ("MDLM, without", "mdlm")]
    model = gr.Radio(models, value="vadd", label="Model", info="Train both on the same data to compare them.")
    steps = ui.number("Training steps", "0: as many as the recipe says.")
    about = "Columns of your table that only name the rows, with commas between them."
    skip = gr.Textbox(label="Columns to leave out", info=about, max_length=10_000, elem_id="train-skip")
    with gr.Row():
        plan = ui.button("Plan", "train-plan")
        start = ui.button("Start", "train-start", variant="primary")
    ui.hint("Plan shows time and memory. A started training continues when the page is closed.")
    about = "Time and memory that the training needs."
    planned = gr.Textbox(label="Plan", info=about, lines=4, elem_id="train-planned")
    return [recipe, upload, model, steps, skip], plan, start, planned


def train_tab(page: gr.Blocks, runs: OpenRuns, trainings: Trainings, chosen: gr.CheckboxGroup) -> None:
    watch, names = Watch(runs, trainings), trainings.names()
    with gr.Row():
        with ui.controls():
            wish, plan, start, planned = _source_controls()
            said = gr.HTML(elem_id="train-said")
        with ui.results():
            shown = gr.HTML(watch.show(), elem_id="train-shown", min_height=200)
            with gr.Row():
                about = "The training to stop or to resume."
                name = ui.choice("Training", about, names, next(iter(names), None), elem_id="train-name", min_width=240)
                stop = ui.button("Stop (saves)", "train-stop", variant="stop", visible=bool(trainings.running()))
                resume = ui.button("Resume", "train-resume", visible=False)
            ui.hint("Stop ends the training after its step and saves it. Resume continues from there.")
    clock = gr.Timer(SECONDS, active=bool(trainings.running()))
    # Not those that are open by now: what the visitor is offered.
    offered = gr.State([str(value) for _, value in chosen.choices])

    def wanted(*given: Any) -> Wish:
        return Wish(trainings.place / "uploads", *given)

    def looked(name: str | None) -> ui.Answer:
        """The trainings, and the buttons that make sense for the chosen one."""
        running = trainings.running()  # before looking: the last look is at what has ended
        buttons = [gr.Button(visible=name in running), gr.Button(visible=trainings.can_resume(name or ""))]
        return watch.show(), gr.Timer(active=bool(running)), *buttons

    def on_plan(turn: ui.Turn, *given: Any) -> tuple[str, str]:
        return "", described_plan(wanted(*given).recipe)

    def on_start(turn: ui.Turn, *given: Any) -> ui.Answer:
        wish = wanted(*given)
        begun = trainings.start(wish.arguments, name=wish.name)
        return "", *looked(begun), gr.Dropdown(choices=trainings.names(), value=begun)

    def acted(action: Callable[[str], None], turn: ui.Turn, name: str | None) -> ui.Answer:
        action(name or "")
        return "", *looked(name)

    def on_open(turn: ui.Turn, name: str | None, known: list[str], marked: list[str]) -> ui.Answer:
        names = trainings.names()
        name = names[-1] if names else None
        return *on_tick(turn, name, known, marked), gr.Dropdown(choices=names, value=name)

    def on_tick(turn: ui.Turn, name: str | None, known: list[str], marked: list[str]) -> ui.Answer:
        state, names = looked(name), runs.names()
        if names == known:
            return *state, known, gr.skip()
        # New runs are chosen as long as fewer than two are.
        new = [*marked, *(each for each in names if each not in known)][:2] if len(marked) < 2 else marked
        return *state, names, gr.CheckboxGroup(choices=names, value=new)

    state = [shown, clock, stop, resume]
    quiet: dict[str, Any] = {"show_progress": "hidden"}
    # A plan of something else is not shown.
    gr.on([plan.click, *(each.change for each in wish)], None, None, planned, js="() => ''")
    turns = ui.Turns()
    turns.on([plan.click], on_plan, wish, [said, planned])
    turns.on([start.click], on_start, wish, [said, *state, name])
    ui.Turns().on([stop.click], partial(acted, trainings.stop), [name], [said, *state], **quiet)
    ui.Turns().on([resume.click], partial(acted, trainings.resume), [name], [said, *state], **quiet)
    ui.Turns().on([name.change], lambda turn, name: looked(name), [name], state, **quiet)
    ui.Turns().on([clock.tick], on_tick, [name, offered, chosen], [*state, offered, chosen], **quiet)
    ui.Turns().on([page.load], on_open, [name, offered, chosen], [*state, offered, chosen, name], **quiet)
