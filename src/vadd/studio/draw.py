"""The tab "Draw": samples of up to three runs side by side, from the same seed, and how they came about."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import torch

from vadd.errors import UserError, refuse_if
from vadd.kinds.arrays import Array
from vadd.progress import Progress, named, silent
from vadd.recipe import SAMPLERS
from vadd.report.table import model_label
from vadd.run.run import Run
from vadd.studio import widgets as ui
from vadd.studio.runs import OpenRuns
from vadd.studio.views import view_of
from vadd.words import plural

SIDE_BY_SIDE = 3
MOST_STEPS = 1024
KEPT_SECONDS = 3600
DEFAULT = ("as the recipe says", "")
ANY = ("any", "")
NOTHING_CHOSEN = ui.note("Choose a run above; its samples appear here.")


@dataclass(frozen=True)
class Drawn:
    """Samples of one run, and the states of the first of them."""

    name: str
    tokens: Array
    states: Array
    said: str


def draw(run: Run, name: str, count: int, options: Mapping[str, Any], progress: Progress = silent) -> Drawn:
    """As ``vadd sample`` draws them; ``options`` are those of :class:`SamplingOptions`, empty for the recipe's."""
    view, steps = view_of(run), int(options["steps"])
    refuse_if(
        (not 1 <= count <= view.most, f"between 1 and {view.most} samples of {name} are drawn here, not {count}"),
        (not 1 <= steps <= MOST_STEPS, f"between 1 and {MOST_STEPS} steps are taken here, not {steps}"),
    )
    label = options["label"] if options["label"] in (run.kind.labels or ()) else None
    given = {key: None if value == "" else value for key, value in options.items()} | {"steps": steps, "label": label}
    began = time.perf_counter()
    parts = list(run.stream(count, record=view.recorded(count, steps), progress=progress, **given))
    seconds = time.perf_counter() - began
    tokens = torch.cat([part.tokens for part in parts]).numpy()
    states = torch.cat([part.trajectory for part in parts if part.trajectory is not None], dim=1).numpy()
    evaluated = f"{plural(sum(part.evaluations for part in parts), 'evaluation')} of the network"
    said = f"{plural(steps, 'step')} · {evaluated} · {seconds:.3f} s"
    return Drawn(name, tokens, states, said if label is None else f"label {label} · {said}")


def draw_all(
    runs: OpenRuns, names: Sequence[str], count: int, options: Mapping[str, Any], progress: Progress = silent
) -> list[Drawn]:
    opened = side_by_side(runs, names)
    return [draw(run, name, count, options, named(progress, name)) for name, run in opened.items()]


def side_by_side(runs: OpenRuns, names: Sequence[str]) -> dict[str, Run]:
    if len(names) > SIDE_BY_SIDE:
        raise UserError(f"at most {SIDE_BY_SIDE} runs side by side; {len(names)} are chosen")
    return {name: runs.get(name) for name in names}


def title_of(run: Run, name: str) -> str:
    return f"{name} · {model_label(run.recipe.model)}"


def show(runs: OpenRuns, drawn: Sequence[Drawn], step: int | None = None) -> str:
    """All runs side by side: their samples, or the same ``step`` of their trajectories."""
    shown = []
    for one in drawn:
        run, last = runs.get(one.name), len(one.states) - 1
        content, said = view_of(run).show(one.tokens), one.said
        if step is not None:
            state = one.states[at := min(max(0, step), last)]
            masked = int((state == run.model.mask_value).sum())
            content = view_of(run).show_state(one.states, at)
            said = f"step {at} of {last} · {masked:,} of {state.size:,} positions masked"
        shown.append(ui.card(title_of(run, one.name), content, said))
    return ui.cards(shown)


def write_files(runs: OpenRuns, drawn: Sequence[Drawn]) -> list[str]:
    """Pictures, animations, numbers and texts, in the studio's private folder."""
    if not drawn:
        raise UserError("draw something first")
    folder = Path(tempfile.mkdtemp(prefix="files-", dir=gr.utils.get_upload_folder()))
    written = []
    for one in drawn:
        stem = folder / f"{one.name.replace('/', '-')}-{len(one.states) - 1}-steps"
        written += view_of(runs.get(one.name)).write(one.tokens, one.states, stem)
    return [str(file) for file in written]


@dataclass(frozen=True)
class Limits:
    """What the controls may be set to: the smallest of all runs, and the labels of at least one of them."""

    positions: int
    count: int
    most: int
    labels: list[str]


def limits_of(runs: OpenRuns, names: Sequence[str]) -> Limits:
    views = [view_of(runs.get(name)) for name in names[:SIDE_BY_SIDE]]
    if not views:
        return Limits(2, 1, 2, [])
    return Limits(
        max(2, min(MOST_STEPS, max(view.positions for view in views))),
        min(view.count for view in views),
        min(view.most for view in views),
        list(dict.fromkeys(label for view in views for label in view.kind.labels or ())),
    )


def _option_controls(limits: Limits) -> dict[str, Any]:
    """A control for each field of :class:`SamplingOptions` that the page offers, after steps and samples."""
    options: dict[str, Any] = {}
    options["label"] = ui.choice(
        "Label",
        "For runs trained with labels: draw samples of this label.",
        [ANY, *limits.labels],
        visible=bool(limits.labels),
        elem_id="draw-label",
    )
    options["seed"] = ui.number("Seed", "The same seed gives all runs the same random numbers.")
    with gr.Accordion("How to draw", open=False):
        about = "Which positions are revealed when. The first three draw from the model's own distribution."
        options["sampler"] = ui.choice("Sampler", about, [DEFAULT, *SAMPLERS])
        about = "Below 1 samples vary less; 0 takes the likeliest values."
        options["temperature"] = ui.slider("Temperature", about, (0, 2), 1, "draw-temperature", step=0.05)
        about = "cosine reveals fewer positions in the first steps."
        options["grid"] = ui.choice("Grid", about, [DEFAULT, "uniform", "cosine"])
        policies = [DEFAULT, ("a new z at each step", "resample"), ("one z for all steps", "fixed")]
        options["latent_policy"] = ui.choice("Latent", "Models without a latent (MDLM) do not use it.", policies)
    return options


def draw_tab(page: gr.Blocks, runs: OpenRuns, chosen: gr.CheckboxGroup) -> None:
    first = runs.names()[:2]
    limits = limits_of(runs, first)
    with gr.Row():
        with ui.controls():
            about = "Positions revealed in one step are drawn independently, given the latent. Fewer steps, faster."
            steps = ui.slider("Steps T", about, (1, limits.positions), 1, "draw-steps")
            with gr.Row():
                start = ui.button("Draw", "draw-button", variant="primary")
                stop = ui.button("Cancel", "draw-cancel")
            ui.hint("Draws samples of the runs chosen above. Cancel stops the current draw.")
            said = gr.HTML(elem_id="draw-said")
            count = ui.slider("Samples", "How many of each run.", (1, limits.most), limits.count, "draw-count")
            options = {"steps": steps, **_option_controls(limits)}
        with ui.results(3):
            shown = gr.HTML(
                NOTHING_CHOSEN if not first else ui.note("Drawing ..."), elem_id="draw-shown", min_height=200
            )
            about = "Drag from 0, everything masked, to the last step. Grey is masked."
            scrubber = ui.slider("How they came about", about, (0, 1), 1, "draw-scrubber")
            make = ui.button("Make files to keep", "draw-files", size="sm")
            ui.hint("The samples and their trajectories: pictures, animations, numbers, texts.")
            files = gr.File(label="PNG, GIF, .npy, .csv, text", file_count="multiple", visible=False, interactive=False)
    kept = gr.State([], time_to_live=KEPT_SECONDS)

    def on_draw(turn: ui.Turn, names: list[str], count: int, *values: Any) -> ui.Answer:
        return drawn_with(turn, names, int(count), dict(zip(options, values, strict=True)))

    def drawn_with(turn: ui.Turn, names: list[str], count: int, wanted: Mapping[str, Any]) -> ui.Answer:
        drawn = draw_all(runs, names, count, wanted, turn.progress)
        last = max((len(one.states) - 1 for one in drawn), default=1)
        answer = show(runs, drawn) if drawn else NOTHING_CHOSEN
        return answer, drawn, gr.Slider(maximum=last, value=last), gr.File(visible=False), ""

    def on_choose(turn: ui.Turn, names: list[str], _: int, *values: Any) -> ui.Answer:
        """What the controls may be set to depends on the runs: they are set, and used, at once."""
        wanted, limits = dict(zip(options, values, strict=True)), limits_of(runs, names)
        wanted["steps"] = min(int(wanted["steps"]), limits.positions)
        wanted["label"] = wanted["label"] if wanted["label"] in limits.labels else ""
        return (
            *drawn_with(turn, names, limits.count, wanted),
            gr.Slider(maximum=limits.positions, value=wanted["steps"]),
            gr.Slider(maximum=limits.most, value=limits.count),
            gr.Dropdown(choices=[ANY, *limits.labels], value=wanted["label"], visible=bool(limits.labels)),
        )

    def on_files(turn: ui.Turn, drawn: list[Drawn]) -> ui.Answer:
        return "", gr.File(write_files(runs, drawn), visible=True)

    def on_scrub(turn: ui.Turn, drawn: list[Drawn], step: int) -> str:
        return show(runs, drawn, int(step))

    turns, inputs, answers = ui.Turns(), [chosen, count, *options.values()], [shown, kept, scrubber, files, said]
    triggers = [start.click, steps.release, options["seed"].submit, options["label"].input]
    drawing = turns.on([*triggers, *([page.load] if first else [])], on_draw, inputs, answers)
    choosing = turns.on([chosen.change], on_choose, inputs, [*answers, steps, count, options["label"]])
    turns.cancelled_by(stop, said, drawing, choosing)
    quiet: dict[str, Any] = {"show_progress": "hidden", "queue": False, "trigger_mode": "always_last"}
    ui.Turns().on([scrubber.input], on_scrub, [kept, scrubber], [shown], **quiet)
    ui.Turns().on([make.click], on_files, [kept], [said, files])
