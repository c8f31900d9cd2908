"""The page "Draw": its controls, and what happens when they are used."""

from typing import Any

import gradio as gr

from vadd.recipe.building import SAMPLERS
from vadd.studio.draw import (
    SIDE_BY_SIDE,
    Choices,
    Drawn,
    Limits,
    draw_all,
    labels_of,
    limits_of,
    show,
    show_step,
    write_files,
)
from vadd.studio.hints import hint
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import told, told_here
from vadd.studio.turns import Turn, Turns

KEPT_SECONDS = 3600
RECIPES = "as the recipe says"
ANY = "any"
NOTHING_CHOSEN = '<p class="note">Choose a run above; its samples appear here.</p>'
CANCELLED = '<p class="note" role="status">Cancelled. What is shown was drawn before.</p>'


def draw_page(runs: OpenRuns, chosen: gr.CheckboxGroup) -> dict[str, Any]:
    """Build it; gives back the event that draws, for the moment when the page is opened."""
    first = runs.names()[:2]
    limits, labels = limits_of(runs, first), labels_of(runs, first)
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
            with gr.Row():
                button = gr.Button("Draw", variant="primary", elem_id="draw-button", min_width=80)
                stop = gr.Button("Cancel", elem_id="draw-cancel", min_width=80)
            hint("Samples of the runs chosen above. Cancel ends a draw that is under way.")
            said = gr.HTML(elem_id="draw-said")
            label = gr.Dropdown(
                [(ANY, ""), *labels],
                value="",
                label="Label",
                info="Of runs that have learnt from labels: draw samples of this one.",
                visible=bool(labels),
                elem_id="draw-label",
            )
            count = gr.Slider(
                1,
                limits.most,
                value=limits.count,
                step=1,
                label="Samples",
                info="How many of each run.",
                elem_id="draw-count",
            )
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
            hint("The samples and how they came about: pictures, animations, numbers, texts.")
            files = gr.File(label="PNG, GIF, .npy, .csv, text", file_count="multiple", visible=False, interactive=False)
    kept = gr.State([], time_to_live=KEPT_SECONDS)
    turns = Turns()

    def drawn_with(turn: Turn, names: list[str], choices: Choices) -> tuple[object, ...]:
        """The first outputs of everything that draws."""
        drawn = draw_all(runs, names, choices, turn.progress)
        if not drawn:
            return NOTHING_CHOSEN, drawn, gr.skip(), gr.File(visible=False), ""
        last = max(len(one.states) - 1 for one in drawn)
        return show(runs, drawn), drawn, gr.Slider(maximum=last, value=last), gr.File(visible=False), ""

    def choices_of(
        steps: float, count: float, sampler: str, grid: str, latent: str, temperature: float, seed: float, label: str
    ) -> Choices:
        return Choices(
            steps=int(steps),
            count=int(count),
            sampler=sampler or None,
            grid=grid or None,
            latent_policy=latent or None,
            temperature=float(temperature),
            seed=int(seed or 0),
            label=label or None,
        )

    @turns.newest(of=5)
    def on_draw(turn: Turn, names: list[str], *wishes: Any) -> tuple[object, ...]:
        return drawn_with(turn, names, choices_of(*wishes))

    @turns.newest(of=8)
    def on_choose(turn: Turn, names: list[str], *wishes: Any) -> tuple[object, ...]:
        """What the sliders may be set to depends on the runs: they are set, and used, in one go."""
        choices, limits = choices_of(*wishes), limits_of(runs, names[:SIDE_BY_SIDE])
        labels = labels_of(runs, names[:SIDE_BY_SIDE])
        choices["steps"], choices["count"] = min(choices["steps"], limits.positions), limits.count
        choices["label"] = choices["label"] if choices["label"] in labels else None
        return (
            *drawn_with(turn, names, choices),
            *_sliders(limits, choices["steps"]),
            gr.Dropdown(choices=[(ANY, ""), *labels], value=choices["label"] or "", visible=bool(labels)),
        )

    def on_cancel(request: gr.Request) -> str:
        turns.cancel(request.session_hash)
        return CANCELLED

    @told_here
    def on_scrub(drawn: list[Drawn], step: int) -> str:
        return show_step(runs, drawn, int(step))

    @told
    def on_files(drawn: list[Drawn]) -> object:
        return gr.File(write_files(runs, drawn), visible=True)

    wishes = [chosen, steps, count, sampler, grid, latent, temperature, seed, label]
    answers = [shown, kept, scrubber, files, said]
    how: dict[str, Any] = {
        "show_progress": "minimal",
        "show_progress_on": shown,
        # Limits of the sliders that are on their way are no mistake of the visitor's.
        "preprocess": False,
    }
    draw: dict[str, Any] = {"fn": on_draw, **turns.event(wishes, answers), **how}
    drawing = gr.on([button.click, steps.release, seed.submit, label.input], **draw)
    choosing = chosen.change(on_choose, **turns.event(wishes, [*answers, steps, count, label]), **how)
    stop.click(
        on_cancel,
        None,
        said,
        cancels=[drawing, choosing],
        api_visibility="private",
        show_progress="hidden",
        queue=False,
    )
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
    return draw


def _sliders(limits: Limits, steps: int) -> tuple[gr.Slider, gr.Slider]:
    return gr.Slider(maximum=limits.positions, value=steps), gr.Slider(maximum=limits.most, value=limits.count)
