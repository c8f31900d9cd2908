"""The page "Latent": its controls, and what happens when they are used."""

from importlib import resources
from typing import Any

import gradio as gr
import torch

from vadd.errors import UserError
from vadd.evaluation.latent_paths import cross, line
from vadd.studio.hints import hint
from vadd.studio.latent import (
    PATH,
    SLIDERS,
    SPAN,
    How,
    dimensions_of,
    map_of,
    point_card,
    point_of_example,
    show_path,
    with_latent,
)
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import problem, told
from vadd.studio.turns import Turn, Turns
from vadd.studio.views import PointView

PAD = """<div class="pad"><canvas tabindex="0" width="320" height="320" role="application"
 aria-label="map of the two dimensions that carry most; arrow keys move"></canvas></div>"""


def latent_page(runs: OpenRuns, tab: gr.Tab) -> None:
    """The dimensions are judged on data: that waits until somebody looks at the ``tab``."""
    names = runs.names()
    latent = [name for name in names if runs.about(name).recipe.has_latent]
    first = next(iter(latent or names), None)
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            name = gr.Dropdown(names, value=first, label="Run", info="A model with a latent (VADD).")
            example = gr.Number(
                0,
                precision=0,
                minimum=0,
                label="Held-out example",
                info="Where to begin: the z that the recognition model gives it.",
                elem_id="latent-example",
            )
            steps = gr.Slider(1, 32, value=1, step=1, label="Steps T", info="With one z for all steps.")
            temperature = gr.Slider(
                0,
                1.5,
                value=_temperature(runs, first),
                step=0.05,
                label="Temperature",
                info="0 shows the likeliest that z says, 1 what it leaves open too.",
                elem_id="latent-temperature",
            )
            begin = gr.Button("Begin there", variant="primary", elem_id="latent-begin")
            hint("Sets the sliders to the z of the example.")
        with gr.Column(scale=1, min_width=280, elem_id="latent-sliders"):
            sliders = [
                gr.Slider(
                    -SPAN,
                    SPAN,
                    value=0,
                    step=0.05,
                    label=f"z{number}",
                    info="Move it, and nothing else changes.",
                    visible=False,
                    interactive=True,  # what they do, Gradio does not see
                    elem_id=f"latent-slider-{number}",
                )
                for number in range(SLIDERS)
            ]
        with gr.Column(scale=1, min_width=280):
            shown = gr.HTML(
                html_template='<div class="live"></div>',
                js_on_load=resources.files("vadd").joinpath("studio", "live.js").read_text(),
                elem_id="latent-shown",
                min_height=200,
            )
            gr.Markdown("**Map** of the two dimensions that carry most: drag over it, or use the arrow keys.")
            pad = gr.HTML(
                html_template=PAD,
                js_on_load=resources.files("vadd").joinpath("studio", "pad.js").read_text(),
                elem_id="latent-pad",
            )
    with gr.Row():
        with gr.Column(min_width=280):
            gr.Markdown("### From one example to another")
            with gr.Row():
                source = gr.Number(0, precision=0, minimum=0, label="From", info="A held-out example.", min_width=100)
                target = gr.Number(1, precision=0, minimum=0, label="To", info="A held-out example.", min_width=100)
            walk = gr.Button("Walk", elem_id="latent-walk")
            hint("In even steps from the z of the one to that of the other.")
            path = gr.HTML(elem_id="latent-path")
        with gr.Column(min_width=280):
            gr.Markdown("### What does z say?")
            dimension = gr.Slider(
                0, 1, value=0, step=1, label="Dimension", info="Of the example above, this one alone is varied."
            )
            vary = gr.Button("Vary it", elem_id="latent-vary")
            hint("In even steps, from -3 to 3.")
            varied = gr.HTML(elem_id="latent-varied")
    turns = Turns()

    @turns.newest(place=SLIDERS + 1, of=SLIDERS + 3)
    def on_begin(turn: Turn, name: str | None, *wishes: Any) -> list[object]:
        return begun(name, *wishes)

    @turns.newest(place=SLIDERS + 1, of=SLIDERS + 6)
    def on_run(turn: Turn, name: str | None, example: int | None, steps: int, _: float) -> list[object]:
        """Nothing of the run before stays."""
        temperature = _temperature(runs, name)
        return [*begun(name, example, steps, temperature), temperature, "", ""]

    @turns.newest(place=SLIDERS + 2, of=SLIDERS + 4)
    def on_open(turn: Turn, here: object, name: str | None, *wishes: Any) -> list[object]:
        name = runs.offered(name)
        choice = gr.Dropdown(choices=runs.names(), value=name)
        # Who comes back from another tab finds everything as it was.
        return [choice, *([gr.skip()] * (SLIDERS + 3) if here else begun(name, *wishes))]

    def begun(name: str | None, example: int | None, steps: int, temperature: float) -> list[object]:
        if name is None:  # the page was opened before there is a run
            return [gr.skip()] * (SLIDERS + 3)
        try:
            run, how = with_latent(runs, name), How(int(steps), temperature)
        except UserError as error:
            empty = {"x": 0, "y": 0, "span": SPAN, "picture": ""}
            return [*[gr.Slider(visible=False)] * SLIDERS, empty, problem(error), gr.skip()]
        found = dimensions_of(run)
        z = point_of_example(run, example or 0)
        values = [round(float(z[number].clamp(-SPAN, SPAN)), 2) for number in found.numbers]
        labels = [f"z{number}: {nats:.2f} nats" for number, nats in zip(found.numbers, found.nats, strict=True)]
        updates = [
            gr.Slider(visible=True, value=value, label=label) for value, label in zip(values, labels, strict=True)
        ]
        updates += [gr.Slider(visible=False)] * (SLIDERS - len(updates))
        place = {"x": values[0] / SPAN, "y": (values[1] if len(values) > 1 else 0) / SPAN, "span": SPAN}
        picture = {**place, "picture": map_of(run, z.tolist(), found, how)}
        dimension = gr.Slider(maximum=max(1, found.among - 1), value=found.numbers[0])
        wish = {"run": name, "example": example or 0, "steps": how.steps, "temperature": how.temperature}
        return [*updates, picture, {"shown": point_card(run, z, how), **wish}, dimension]

    @told
    def on_walk(name: str, source: int | None, target: int | None, steps: int, temperature: float) -> str:
        run = with_latent(runs, name)
        ends = [point_of_example(run, end or 0) for end in (source, target)]
        return str(show_path(run, line(ends[0], ends[1], PATH), How(int(steps), temperature)))

    @told
    def on_vary(name: str, example: int | None, dimension: int, steps: int, temperature: float) -> str:
        run = with_latent(runs, name)
        if not 0 <= dimension < (among := dimensions_of(run).among):
            raise UserError(f"the latent has {among} dimensions, the first is 0")
        values = torch.linspace(-SPAN, SPAN, PATH + 1).tolist()
        z = cross(point_of_example(run, example or 0), [int(dimension)], values)[0]
        return str(show_path(run, z, How(int(steps), temperature)))

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    wishes, answers = [name, example, steps, temperature], [*sliders, pad, shown, dimension]
    tab.select(on_open, **turns.event([pad, *wishes], [name, *answers]), show_progress="hidden")
    chosen = turns.event(wishes, [*answers, temperature, path, varied])
    name.change(on_run, **chosen, show_progress="hidden")
    changes = [begin.click, example.submit, steps.release, temperature.release]
    gr.on(changes, on_begin, **turns.event(wishes, answers), show_progress="hidden")
    walk.click(on_walk, [name, source, target, steps, temperature], path, **quiet)
    vary.click(on_vary, [name, example, dimension, steps, temperature], varied, **quiet)


def _temperature(runs: OpenRuns, name: str | None) -> float:
    """To begin with: the likeliest; of a point that would be a single place, and not how z distributes it."""
    return 1.0 if name is not None and runs.about(name).view is PointView else 0.0
