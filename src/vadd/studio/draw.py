"""The page "Draw": samples of up to three runs side by side, from the same seed, and how they came about."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import gradio as gr
import torch

from vadd.building import SAMPLERS
from vadd.core import TokenSampler
from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.generation.options import SamplingOptions
from vadd.runs.run import Run
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import told
from vadd.studio.views import card, cards, view_of
from vadd.words import plural

SIDE_BY_SIDE = 3
MOST_STEPS = 1024
KEPT_SECONDS = 3600
RECIPES = "as the recipe says"


class Choices(TypedDict):
    """How to draw, as the page says it; None is the recipe's."""

    steps: int
    count: int
    sampler: str | None
    grid: str | None
    latent: str | None
    temperature: float
    seed: int


@dataclass(frozen=True)
class Drawn:
    """Samples of one run, and the states of the first of them."""

    name: str
    tokens: Array
    states: Array
    note: str


def draw(run: Run, name: str, choices: Choices) -> Drawn:
    """As ``vadd sample`` draws them."""
    view = view_of(run)
    count, steps = int(choices["count"]), int(choices["steps"])
    if not 1 <= count <= view.most:
        raise UserError(f"between 1 and {view.most} samples of {name} are drawn here, not {count}")
    if not 1 <= steps <= MOST_STEPS:
        raise UserError(f"between 1 and {MOST_STEPS} steps are taken here, not {steps}")
    options = cast(
        SamplingOptions,
        {key: choices[key] or None for key in ("sampler", "grid", "latent")}
        | {
            "steps": steps,
            "seed": int(choices["seed"]),
            "token_sampler": TokenSampler(temperature=choices["temperature"]),
        },
    )
    began = time.perf_counter()
    parts = list(run.stream(count, record=view.recorded(count, steps), **options))
    seconds = time.perf_counter() - began
    evaluations = sum(part.evaluations for part in parts)
    tokens = torch.cat([part.tokens for part in parts]).numpy()
    states = torch.cat([part.trajectory for part in parts if part.trajectory is not None], dim=1).numpy()
    note = f"{plural(steps, 'step')} · {plural(evaluations, 'evaluation')} of the network · {seconds:.3f} s"
    return Drawn(name, tokens, states, note)


def draw_all(runs: OpenRuns, names: Sequence[str], choices: Choices) -> list[Drawn]:
    if not names:
        raise UserError("choose a run to draw from")
    if len(names) > SIDE_BY_SIDE:
        raise UserError(f"at most {SIDE_BY_SIDE} runs side by side; {len(names)} are chosen")
    return [draw(runs.get(name), name, choices) for name in names]


def title_of(run: Run, name: str) -> str:
    from vadd.report.tables import model_label

    return f"{name} · {model_label(run.recipe.model)}"


def show(runs: OpenRuns, drawn: Sequence[Drawn]) -> str:
    opened = [(runs.get(one.name), one) for one in drawn]
    return cards([card(title_of(run, one.name), view_of(run).show(one.tokens), one.note) for run, one in opened])


def show_step(runs: OpenRuns, drawn: Sequence[Drawn], step: int) -> str:
    """All runs at the same step of their trajectories."""
    shown = []
    for one in drawn:
        run, last = runs.get(one.name), len(one.states) - 1
        state = one.states[min(step, last)]
        masked = int((state == run.model.mask_value).sum())
        note = f"step {min(step, last)} of {last} · {masked:,} of {state.size:,} positions masked"
        shown.append(card(title_of(run, one.name), view_of(run).show_state(one.states, min(step, last)), note))
    return cards(shown)


def write_files(runs: OpenRuns, drawn: Sequence[Drawn]) -> list[str]:
    """Pictures, animations, numbers and texts, in a folder that goes with the studio."""
    if not drawn:
        raise UserError("draw something first")
    folder = Path(tempfile.mkdtemp(prefix="files-", dir=gr.utils.get_upload_folder()))
    written = []
    for one in drawn:
        stem = folder / f"{one.name.replace('/', '-')}-{len(one.states) - 1}-steps"
        written += view_of(runs.get(one.name)).write(one.tokens, one.states, stem)
    return [str(file) for file in written]


def draw_page(runs: OpenRuns, chosen: gr.CheckboxGroup) -> dict[str, Any]:
    """Build it; gives back the event that draws, for the moment when the page is opened."""
    limits = _limits(runs, runs.names()[:2])
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            steps = gr.Slider(
                1,
                limits.positions,
                value=1,
                step=1,
                label="Steps T",
                info="Positions revealed in one step are drawn independently, given the latent. Fewer steps, faster.",
                elem_id="draw-steps",
            )
            button = gr.Button("Draw", variant="primary", elem_id="draw-button")
            count = gr.Slider(1, limits.most, value=limits.count, step=1, label="Samples", info="How many of each run.")
            seed = gr.Number(
                0, label="Seed", precision=0, minimum=0, info="The same seed gives all runs the same random numbers."
            )
            with gr.Accordion("How to draw", open=False):
                sampler = gr.Dropdown(
                    [(RECIPES, ""), *((name, name) for name in SAMPLERS)],
                    value="",
                    label="Sampler",
                    info="Which positions are revealed when. The first three draw from the model's own distribution.",
                )
                temperature = gr.Slider(
                    0, 2, value=1, step=0.05, label="Temperature", info="Below 1 sharpens, 0 takes the likeliest."
                )
                grid = gr.Dropdown(
                    [(RECIPES, ""), "uniform", "cosine"],
                    value="",
                    label="Grid",
                    info="cosine reveals fewer positions in the first steps.",
                )
                latent = gr.Dropdown(
                    [(RECIPES, ""), ("a new z at each step", "resample"), ("one z for all steps", "fixed")],
                    value="",
                    label="Latent",
                    info="Models without a latent (MDLM) have no use for it.",
                )
        with gr.Column(scale=3, min_width=280):
            shown = gr.HTML(elem_id="draw-shown", min_height=200)
            scrubber = gr.Slider(
                0,
                1,
                value=1,
                step=1,
                label="How they came about",
                info="Drag from 0, everything masked, to the last step. Grey is masked.",
                elem_id="draw-scrubber",
            )
            with gr.Row():
                files_button = gr.Button("Make files to keep", size="sm", elem_id="draw-files")
            files = gr.File(label="PNG, GIF, .npy, text", file_count="multiple", visible=False, interactive=False)
    kept = gr.State([], time_to_live=KEPT_SECONDS)

    @told
    def on_draw(
        names: list[str],
        steps: int,
        count: int,
        sampler: str,
        grid: str,
        latent: str,
        temperature: float,
        seed: int | None,
    ) -> tuple[object, ...]:
        choices = Choices(
            steps=steps,
            count=count,
            sampler=sampler or None,
            grid=grid or None,
            latent=latent or None,
            temperature=temperature,
            seed=seed or 0,
        )
        drawn = draw_all(runs, names, choices)
        last = max(len(one.states) - 1 for one in drawn)
        return show(runs, drawn), drawn, gr.Slider(maximum=last, value=last), gr.File(visible=False)

    @told
    def on_scrub(drawn: list[Drawn], step: int) -> str:
        return show_step(runs, drawn, int(step))

    @told
    def on_files(drawn: list[Drawn]) -> object:
        return gr.File(write_files(runs, drawn), visible=True)

    @told
    def on_choose(names: list[str]) -> tuple[object, object]:
        limits = _limits(runs, names[:SIDE_BY_SIDE])
        return gr.Slider(maximum=limits.positions), gr.Slider(maximum=limits.most, value=limits.count)

    event: dict[str, Any] = {
        "fn": on_draw,
        "inputs": [chosen, steps, count, sampler, grid, latent, temperature, seed],
        "outputs": [shown, kept, scrubber, files],
        "api_visibility": "private",
        "show_progress": "minimal",
        "trigger_mode": "always_last",
    }
    gr.on([button.click, steps.release, seed.submit], **event)
    chosen.change(on_choose, chosen, [steps, count], api_visibility="private", show_progress="hidden").then(**event)
    scrubber.input(
        on_scrub,
        [kept, scrubber],
        shown,
        api_visibility="private",
        show_progress="hidden",
        trigger_mode="always_last",
        queue=False,
    )
    files_button.click(on_files, kept, files, api_visibility="private", show_progress="minimal")
    return event


@dataclass(frozen=True)
class Limits:
    positions: int
    count: int
    most: int


def _limits(runs: OpenRuns, names: Sequence[str]) -> Limits:
    """What the sliders may be set to: the smallest that goes for all runs."""
    views = [view_of(runs.get(name)) for name in names]
    if not views:
        return Limits(2, 1, 2)
    return Limits(
        max(2, min(MOST_STEPS, max(view.positions for view in views))),
        min(view.count for view in views),
        min(view.most for view in views),
    )
