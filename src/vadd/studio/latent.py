"""The tab "Latent": what z does, dimension by dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any

import gradio as gr
import numpy as np
import torch
from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from pydantic import BaseModel, Field
from torch import Tensor

from vadd.core import TokenSampler
from vadd.errors import UserError
from vadd.evaluation.latent_paths import JUDGED, cross, decode, encode, informative_dimensions, line
from vadd.evaluation.likelihood import has_latent
from vadd.kinds.arrays import Array
from vadd.report.images import image_grid
from vadd.report.trajectory import png_uri
from vadd.run.run import Run
from vadd.settings import checked_fields
from vadd.studio import widgets as ui
from vadd.studio.draw import title_of
from vadd.studio.infill import held_out
from vadd.studio.runs import OpenRuns
from vadd.studio.views import PointView, view_of

SLIDERS = 6
SPAN = 3.0
"""The sliders and the map go from -span to span; N(0, I) is hardly ever further out."""
MAP = 9
PATH = 8
POINTS = 500
"""Draws that show what one z does to a point; on the map fewer."""
POINTS_ON_MAP, VALUES_ON_MAP = 200, 16
MOST_STEPS = 32
PAD = """<div class="pad"><canvas tabindex="0" width="320" height="320" role="application"
 aria-label="map of the two dimensions that carry most; arrow keys move"></canvas></div>"""


@dataclass(frozen=True)
class Dimensions:
    """Those that carry most, by the KL of the recognition model on examples."""

    numbers: list[int]
    nats: list[float]
    among: int
    """All dimensions of z, without those of labels."""


@checked_fields
@dataclass(frozen=True)
class How:
    """How a z is shown."""

    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    temperature: Annotated[float, Field(ge=0, le=10)]

    def samples(self, run: Run, z: Tensor) -> Array:
        """One for each point z (n, d), all with the same random numbers."""
        return decode(run, z, steps=self.steps, token_sampler=TokenSampler(temperature=self.temperature)).numpy()

    def points(self, run: Run, z: Tensor, count: int) -> Array:
        """``count`` samples of each z (n, d): (n, count, N)."""
        many = z.repeat_interleave(count, dim=0)
        drawn = run.sample(len(many), z=many, steps=self.steps, temperature=self.temperature)
        return drawn.numpy().reshape(len(z), count, -1)


@lru_cache(maxsize=4)
def dimensions_of(run: Run) -> Dimensions:
    numbers = informative_dimensions(run, SLIDERS)
    posterior = run.model.encode(run.examples[:JUDGED])
    assert posterior is not None
    nats = posterior.kl_to_standard_normal().mean(0)
    return Dimensions(numbers, [float(nats[place]) for place in numbers], len(nats))


@lru_cache(maxsize=4)
def point_of_example(run: Run, index: int) -> Tensor:
    """(d,). A slider that moves asks for it again and again."""
    return encode(run, torch.from_numpy(held_out(run, index))[None])[0]


def moved(centre: Tensor, numbers: Sequence[int], values: Sequence[float]) -> Tensor:
    """The centre (d,) with some of its dimensions set."""
    z = centre.clone()
    for place, value in zip(numbers, values, strict=False):
        z[place] = value
    return z


def show_points(run: Run, z: Tensor, how: How) -> list[Markup]:
    """What each z (n, d) gives: one sample, or, where examples are points, where they fall."""
    view = view_of(run)
    clouds = how.points(run, z, POINTS) if isinstance(view, PointView) else how.samples(run, z)[:, None]
    return [view.show(cloud) for cloud in clouds]


def show_path(run: Run, z: Tensor, how: How) -> str:
    """What the points (n, d) give, one after the other."""
    shown = [ui.card(f"{place}", one) for place, one in enumerate(show_points(run, z, how), start=1)]
    return ui.cards(shown, "small")


def map_of(run: Run, centre: Tensor, dimensions: Dimensions, how: How) -> str:
    """A picture of the plane of the first two dimensions, the second upwards: a sample in the middle of each part."""
    if len(dimensions.numbers) < 2:
        return ""
    places = (np.arange(MAP) + 0.5) / MAP * 2 * SPAN - SPAN
    z = torch.stack([moved(centre, dimensions.numbers[:2], (x, y)) for y in places[::-1] for x in places])
    view = view_of(run)
    if isinstance(view, PointView):
        pictures = np.stack([view.picture(tokens, VALUES_ON_MAP) for tokens in how.points(run, z, POINTS_ON_MAP)])
    else:
        pictures = view.thumbnails(how.samples(run, z))
    return png_uri(image_grid(pictures, MAP))


def point_card(run: Run, z: Tensor, how: How, title: str = "this z") -> str:
    return ui.cards([ui.card(title, show_points(run, z[None], how)[0])])


def with_latent(runs: OpenRuns, name: str) -> Run:
    run = runs.get(name)
    if not has_latent(run):
        raise UserError(f"{name} has no latent: it is a model without one (MDLM)")
    return run


def walked(run: Run, source: int | None, target: int | None, steps: int, temperature: float) -> str:
    """From the z of one example to that of another."""
    first, last = (point_of_example(run, int(end or 0)) for end in (source, target))
    return show_path(run, line(first, last, PATH), How(int(steps), temperature))


def varied_one(run: Run, example: int | None, dimension: int, steps: int, temperature: float) -> str:
    """The z of an example with one dimension at several values."""
    if not 0 <= dimension < (among := dimensions_of(run).among):
        raise UserError(f"the latent has {among} dimensions, the first is 0")
    values = torch.linspace(-SPAN, SPAN, PATH + 1).tolist()
    z = cross(point_of_example(run, int(example or 0)), [int(dimension)], values)[0]
    return show_path(run, z, How(int(steps), temperature))


class Place(BaseModel, allow_inf_nan=False):
    """Where the sliders stand, and the example that sets the other dimensions of z."""

    run: str
    example: int
    steps: int
    temperature: float
    values: Annotated[list[Annotated[float, Field(ge=-SPAN, le=SPAN)]], Field(max_length=SLIDERS)]


def live_route(runs: OpenRuns) -> APIRouter:
    """What a moving slider shows, answered at once and not through Gradio's queue."""
    router = APIRouter()

    @router.post("/live/latent")
    def latent(place: Place) -> HTMLResponse:
        try:
            run = with_latent(runs, place.run)
            z = moved(point_of_example(run, place.example), dimensions_of(run).numbers, place.values)
            return HTMLResponse(point_card(run, z, How(place.steps, place.temperature)))
        except Exception as error:
            return HTMLResponse(ui.problem(error), 400)

    return router


def _slider_controls() -> list[gr.Slider]:
    about = "Only this dimension changes."
    more: dict[str, Any] = {"step": 0.05, "visible": False, "interactive": True}  # Gradio does not see what they do
    return [ui.slider(f"z{k}", about, (-SPAN, SPAN), 0, f"latent-slider-{k}", **more) for k in range(SLIDERS)]


def _path_controls() -> ui.Answer:
    with gr.Column(min_width=280):
        gr.Markdown("### From one example to another")
        with gr.Row():
            ends = [ui.number(label, "An example.", at, min_width=100) for at, label in enumerate(("From", "To"))]
        walk = ui.button("Walk", "latent-walk")
        ui.hint("In even steps from one z to the other.")
        path = gr.HTML(elem_id="latent-path")
    with gr.Column(min_width=280):
        gr.Markdown("### What does z say?")
        about = "Only this dimension of the example above is varied."
        dimension = ui.slider("Dimension", about, (0, 1), 0, "latent-dimension")
        vary = ui.button("Vary it", "latent-vary")
        ui.hint("In even steps, from -3 to 3.")
        varied = gr.HTML(elem_id="latent-varied")
    return ends, walk, path, dimension, vary, varied


def latent_tab(runs: OpenRuns, chosen: gr.CheckboxGroup, tab: gr.Tab) -> None:
    """The dimensions are measured on data: that waits until the ``tab`` is opened."""
    with gr.Row():
        with ui.controls():
            about = "Start at the z that the recognition model gives for this example."
            example = ui.number("Example", about, elem_id="latent-example")
            steps = ui.slider("Steps T", "With one z for all steps.", (1, MOST_STEPS), 1, "latent-steps")
            about = "0 shows the likeliest that z says, 1 what it leaves open too."
            temperature = ui.slider("Temperature", about, (0, 1.5), 0, "latent-temperature", step=0.05)
            begin = ui.button("Begin there", "latent-begin", variant="primary")
            ui.hint("Sets the sliders to the z of the example.")
        with gr.Column(scale=1, min_width=280, elem_id="latent-sliders"):
            sliders = _slider_controls()
        with gr.Column(scale=1, min_width=280, elem_classes="results"):
            live = '<div class="live"></div>'
            shown = gr.HTML(html_template=live, js_on_load=ui.asset("live.js"), elem_id="latent-shown", min_height=200)
            gr.Markdown("**Map** of the two dimensions that carry most: drag over it, or use the arrow keys.")
            pad = gr.HTML(html_template=PAD, js_on_load=ui.asset("pad.js"), elem_id="latent-pad")
    with gr.Row():
        (source, target), walk, path, dimension, vary, varied = _path_controls()

    def pick(names: Sequence[str]) -> str:
        """The first of the chosen runs that has a latent."""
        if not names:
            raise UserError("choose a run with a latent (VADD) above")
        return next((name for name in names if has_latent(runs.get(name))), names[0])

    def begun(name: str, example: int | None, how: How) -> ui.Answer:
        run, index = with_latent(runs, name), int(example or 0)
        known, z = dimensions_of(run), point_of_example(run, index)
        values = [round(float(z[place].clamp(-SPAN, SPAN)), 2) for place in known.numbers]
        named = zip(known.numbers, known.nats, values, strict=True)
        updates = [gr.Slider(visible=True, value=at, label=f"z{k}: {nats:.2f} nats") for k, nats, at in named]
        updates += [gr.Slider(visible=False)] * (SLIDERS - len(updates))
        x, y = (*values, 0.0)[:2]
        picture = {"x": x / SPAN, "y": y / SPAN, "span": SPAN, "picture": map_of(run, z, known, how)}
        place = {"run": name, "example": index, "steps": how.steps, "temperature": how.temperature}
        dimension = gr.Slider(maximum=max(1, known.among - 1), value=known.numbers[0])
        return {"shown": point_card(run, z, how, title_of(run, name)), **place}, *updates, picture, dimension

    def on_begin(turn: ui.Turn, names: list[str], example: int | None, steps: int, temperature: float) -> ui.Answer:
        return begun(pick(names), example, How(int(steps), temperature))

    def build(name: str | None, example: int | None, steps: int) -> ui.Answer:
        """For another run: nothing of the one before stays. Points are shown as z distributes them."""
        try:
            run = with_latent(runs, pick([name] if name else []))
            temperature = 1.0 if run.kind.name == "points" else 0.0
            return *begun(str(name), example, How(int(steps), temperature)), temperature, "", ""
        except UserError as error:
            empty = {"x": 0, "y": 0, "span": SPAN, "picture": ""}
            return ui.problem(error), *[gr.Slider(visible=False)] * SLIDERS, empty, gr.skip(), gr.skip(), "", ""

    def on_path(path_of: Callable[..., str], turn: ui.Turn, names: list[str], *given: Any) -> str:
        return path_of(with_latent(runs, pick(names)), *given)

    turns, answers, how = ui.Turns(), [shown, *sliders, pad, dimension], [steps, temperature]
    turns.follow(tab, chosen, pick, build, [example, steps], [*answers, temperature, path, varied])
    changes = [begin.click, example.submit, steps.release, temperature.release]
    turns.on(changes, on_begin, [chosen, example, *how], answers)
    ui.Turns().on([walk.click], partial(on_path, walked), [chosen, source, target, *how], [path])
    ui.Turns().on([vary.click], partial(on_path, varied_one), [chosen, example, dimension, *how], [varied])
