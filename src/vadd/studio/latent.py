"""The page "Latent": what z does, dimension by dimension."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr
import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from vadd.core import TokenSampler
from vadd.errors import UserError
from vadd.evaluation.latent_paths import JUDGED, cross, decode, encode, informative_dimensions, line, posterior_of
from vadd.runs.run import Run
from vadd.studio.infill import held_out
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import told
from vadd.studio.views import ImageView, PointView, View, card, cards, view_of

SLIDERS = 6
SPAN = 3.0
"""The sliders and the map go from -span to span; N(0, I) is hardly ever further out."""
MAP = 9
PATH = 8
POINTS = 500
"""Draws that show what one z does to a point."""
PAD = """<div class="pad"><canvas tabindex="0" width="320" height="320" role="application"
 aria-label="map of the two dimensions that carry most; arrow keys move"></canvas></div>"""


@dataclass(frozen=True)
class Dimensions:
    """Those that carry most, by the KL of the recognition model on held-out examples."""

    numbers: list[int]
    nats: list[float]


@dataclass(frozen=True)
class How:
    """How a z is shown."""

    steps: int
    temperature: float

    @property
    def token_sampler(self) -> TokenSampler:
        return TokenSampler(temperature=self.temperature)


_known: "WeakKeyDictionary[Run, Dimensions]" = WeakKeyDictionary()


def dimensions_of(run: Run) -> Dimensions:
    if run not in _known:
        numbers = informative_dimensions(run, SLIDERS)
        posterior = posterior_of(run.model, run.data.test[:JUDGED])
        assert posterior is not None
        nats = posterior.kl_to_standard_normal().mean(0)
        _known[run] = Dimensions(numbers, [float(nats[number]) for number in numbers])
    return _known[run]


def point_of_example(run: Run, number: int) -> Tensor:
    """(d,)"""
    return encode(run, torch.from_numpy(held_out(run, number))[None])[0]


def moved(centre: Sequence[float], numbers: Sequence[int], values: Sequence[float]) -> Tensor:
    """The centre with some of its dimensions set, (d,)."""
    z = torch.tensor(centre, dtype=torch.float32)
    for number, value in zip(numbers, values, strict=False):
        z[number] = value
    return z


def show_point(run: Run, z: Tensor, how: How) -> Markup:
    """What this z gives: one sample, or, where examples are points, where they fall."""
    view = view_of(run)
    if isinstance(view, PointView):
        many = z.expand(POINTS, -1)
        drawn = run.sample(POINTS, latent=many, steps=how.steps, token_sampler=how.token_sampler)
        return view.show(drawn.numpy())
    return view.show(decode(run, z[None], steps=how.steps, token_sampler=how.token_sampler).numpy())


def show_path(run: Run, z: Tensor, how: How) -> Markup:
    """What the points (n, d) give, one after the other."""
    view: View = view_of(run)
    if isinstance(view, PointView):
        return Markup('<div class="cards">{}</div>').format(
            Markup("").join(card(f"{n + 1}", show_point(run, one, how)) for n, one in enumerate(z))
        )
    tokens = decode(run, z, steps=how.steps, token_sampler=how.token_sampler).numpy()
    return view.row(tokens, len(tokens)) if isinstance(view, ImageView) else view.show(tokens)


def map_of(run: Run, centre: Sequence[float], dimensions: Dimensions, how: How) -> str:
    """A picture of the plane of the first two dimensions, the second upwards; nothing where examples are no images."""
    view = view_of(run)
    if not isinstance(view, ImageView) or len(dimensions.numbers) < 2:
        return ""
    from vadd.report.images import image_grid
    from vadd.report.trajectory import png_uri

    # Each picture stands in the middle of its part of the map.
    places = (np.arange(MAP) + 0.5) / MAP * 2 * SPAN - SPAN
    points = [moved(centre, dimensions.numbers[:2], (x, y)) for y in places[::-1] for x in places]
    tokens = decode(run, torch.stack(points), steps=how.steps, token_sampler=how.token_sampler)
    return png_uri(image_grid(view.images(tokens.numpy()), MAP))


def latent_page(runs: OpenRuns) -> tuple[gr.Dropdown, dict[str, Any]]:
    """Build it; gives back the choice of the run and the event that begins."""
    names = runs.names()
    latent = [name for name in names if runs.get(name).model.latent.dim > 0]
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            name = gr.Dropdown(
                names, value=next(iter(latent or names), None), label="Run", info="A model with a latent (VADD)."
            )
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
                0, 1.5, value=0, step=0.05, label="Temperature", info="0 shows the likeliest that z says."
            )
            begin = gr.Button("Begin there", variant="primary", elem_id="latent-begin")
        with gr.Column(scale=1, min_width=280):
            sliders = [
                gr.Slider(
                    -SPAN,
                    SPAN,
                    value=0,
                    step=0.05,
                    label=f"z{number}",
                    info="Move it, and nothing else changes.",
                    visible=False,
                    elem_id=f"latent-slider-{number}",
                )
                for number in range(SLIDERS)
            ]
        with gr.Column(scale=1, min_width=280):
            shown = gr.HTML(elem_id="latent-shown", min_height=200)
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
            path = gr.HTML(elem_id="latent-path")
        with gr.Column(min_width=280):
            gr.Markdown("### What does z say?")
            dimension = gr.Slider(
                0, 1, value=0, step=1, label="Dimension", info="Of the example above, this one alone is varied."
            )
            vary = gr.Button("Vary it", elem_id="latent-vary")
            varied = gr.HTML(elem_id="latent-varied")
    centre = gr.State([], time_to_live=3600)

    @told
    def on_begin(name: str | None, example: int | None, steps: int, temperature: float) -> tuple[object, ...]:
        if name is None:  # the page was opened before there is a run
            return tuple(gr.skip() for _ in range(SLIDERS + 4))
        run, how = _with_latent(runs, name), How(int(steps), temperature)
        found = dimensions_of(run)
        z = point_of_example(run, example or 0)
        values = [round(float(z[number].clamp(-SPAN, SPAN)), 2) for number in found.numbers]
        labels = [f"z{number}: {nats:.2f} nats" for number, nats in zip(found.numbers, found.nats, strict=True)]
        updates = [
            gr.Slider(visible=True, value=value, label=label) for value, label in zip(values, labels, strict=True)
        ]
        updates += [gr.Slider(visible=False)] * (SLIDERS - len(updates))
        here = z.tolist()
        place = {"x": values[0] / SPAN, "y": (values[1] if len(values) > 1 else 0) / SPAN}
        picture = {**place, "picture": map_of(run, here, found, how)}
        most = run.model.latent.dim - 1
        return here, *updates, picture, _card(run, z, how), gr.Slider(maximum=max(1, most), value=found.numbers[0])

    @told
    def on_slide(name: str, here: list[float], steps: int, temperature: float, *values: float) -> str:
        run = _with_latent(runs, name)
        return _card(run, moved(here, dimensions_of(run).numbers, values), How(int(steps), temperature))

    @told
    def on_drag(
        name: str, here: list[float], steps: int, temperature: float, place: dict[str, Any], *values: float
    ) -> tuple[object, ...]:
        run = _with_latent(runs, name)
        x, y = (SPAN * max(-1.0, min(1.0, float(place[axis]))) for axis in ("x", "y"))
        z = moved(here, dimensions_of(run).numbers, (x, y, *values[2:]))
        return round(x, 2), round(y, 2), _card(run, z, How(int(steps), temperature))

    @told
    def on_walk(name: str, source: int | None, target: int | None, steps: int, temperature: float) -> str:
        run = _with_latent(runs, name)
        ends = [point_of_example(run, end or 0) for end in (source, target)]
        return str(show_path(run, line(ends[0], ends[1], PATH), How(int(steps), temperature)))

    @told
    def on_vary(name: str, example: int | None, dimension: int, steps: int, temperature: float) -> str:
        run = _with_latent(runs, name)
        if not 0 <= dimension < run.model.latent.dim:
            raise UserError(f"the latent has {run.model.latent.dim} dimensions, the first is 0")
        values = torch.linspace(-SPAN, SPAN, PATH + 1).tolist()
        z = cross(point_of_example(run, example or 0), [int(dimension)], values)[0]
        return str(show_path(run, z, How(int(steps), temperature)))

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    live: dict[str, Any] = quiet | {"queue": False, "trigger_mode": "always_last"}
    event: dict[str, Any] = {
        "fn": on_begin,
        "inputs": [name, example, steps, temperature],
        "outputs": [centre, *sliders, pad, shown, dimension],
    }
    gr.on([begin.click, name.change, example.submit, steps.release, temperature.release], **event, **quiet)
    place = [name, centre, steps, temperature]
    for slider in sliders:
        slider.input(on_slide, [*place, *sliders], shown, **live)
    pad.input(on_drag, [*place, pad, *sliders], [sliders[0], sliders[1], shown], **live)
    walk.click(on_walk, [name, source, target, steps, temperature], path, **quiet)
    vary.click(on_vary, [name, example, dimension, steps, temperature], varied, **quiet)
    return name, event | quiet


def _card(run: Run, z: Tensor, how: How) -> str:
    return cards([card("this z", show_point(run, z, how))])


def _with_latent(runs: OpenRuns, name: str | None) -> Run:
    if name is None:
        raise UserError("choose a run")
    run = runs.get(name)
    if run.model.latent.dim == 0:
        raise UserError(f"{name} has no latent: it is a model without one (MDLM)")
    return run
