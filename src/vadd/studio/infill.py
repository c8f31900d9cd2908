"""The page "Infill": a part is known, the model writes the rest, eight times."""

from collections.abc import Mapping
from importlib import resources
from typing import Any

import gradio as gr
import numpy as np
from markupsafe import Markup

from vadd.data.dataset import TO_FILL, Array
from vadd.data.inpainting import picture_shape
from vadd.data.text.pieces import marked_text as marked_pieces
from vadd.data.text.templates import Templates
from vadd.errors import UserError
from vadd.recipe import TextData
from vadd.runs.run import Run
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import told
from vadd.studio.views import ImageView, NumberView, PointView, TextView, card, cards, marked_text, pixels, view_of

COMPLETIONS = 8
POINTS = 2_000
"""Completions of a point: enough to see how they are distributed."""
BARS = 60
"""Pixels that the tallest bar of a distribution has."""
PAINTER = """
<div class="painter"><canvas tabindex="0" role="application"
 aria-label="picture to paint on; arrow keys move, space paints"></canvas>
<div class="brushes">
<label><input type="radio" name="brush" value="forget" checked> forget</label>
<label><input type="radio" name="brush" value="light"> light</label>
<label><input type="radio" name="brush" value="dark"> dark</label>
</div></div>"""


def painting_of(run: Run, example: int | None) -> dict[str, Any]:
    """What the painter shows: a held-out example, or nothing but pixels to fill."""
    height, width, channels = picture_shape(run.shape)
    cells = [TO_FILL] * run.model.positions if example is None else held_out(run, example).tolist()
    return {"height": height, "width": width, "channels": channels, "levels": run.model.vocab_size, "cells": cells}


def held_out(run: Run, number: int) -> Array:
    """(N,)"""
    test = run.data.test
    if not 0 <= number < len(test):
        raise UserError(f"there is no held-out example {number}; there are {len(test)}, the first is 0")
    return np.asarray(test[number].long())


def fill_picture(run: Run, painting: Mapping[str, Any] | None, steps: int, seed: int) -> str:
    cells = (painting or {}).get("cells")
    if not isinstance(cells, list) or not all(type(cell) is int for cell in cells):
        raise UserError("there is no picture to fill")
    given = np.array(cells, np.int64)
    if TO_FILL not in given:
        raise UserError("nothing is forgotten: paint over what the model is to fill")
    filled = _filled(run, given, COMPLETIONS, steps, seed)
    view = ImageView(run)
    masked = np.where(given == TO_FILL, run.model.mask_value, given)
    return cards(
        [
            card("given", view.row(masked[None], 1)),
            card(f"{COMPLETIONS} completions", view.row(filled, 4), _share(given)),
        ]
    )


def fill_text(run: Run, text: str, steps: int, seed: int) -> str:
    assert run.tokenizer is not None
    assert isinstance(run.recipe.data, TextData)
    template = Templates(run.tokenizer, run.recipe.data.wrap, run.model.positions).from_text(text)
    filled = _filled(run, template.values, COMPLETIONS, steps, seed)
    asked = template.values[template.extent] == TO_FILL
    parts = [marked_text(marked_pieces(run.tokenizer, row[template.extent], asked)) for row in filled]
    return cards([Markup('<div class="card wide">{}</div>').format(Markup("").join(parts))])


def fill_point(run: Run, coordinate: str, value: int, steps: int, seed: int) -> str:
    given = np.full(2, TO_FILL, np.int64)
    known = 0 if coordinate == "first" else 1
    given[known] = value
    filled = _filled(run, given, POINTS, steps, seed)
    other = np.bincount(filled[:, 1 - known], minlength=run.model.vocab_size)
    return cards(
        [
            card("completions on the plane", PointView(run).show(filled), f"{POINTS} of them"),
            card("the other coordinate", pixels(_bars(other), "distribution"), f"0 to {len(other) - 1}, left to right"),
        ]
    )


def fill_numbers(run: Run, text: str, steps: int, seed: int) -> str:
    try:
        given = np.array([int(word) for word in text.replace(",", " ").split()], np.int64)
    except (ValueError, OverflowError):
        raise UserError("write whole numbers, separated by blanks, -1 where the model is to fill") from None
    if len(given) != run.model.positions or TO_FILL not in given:
        raise UserError(f"examples have {run.model.positions} numbers, and {TO_FILL} stands where one is to be filled")
    return cards(
        [card(f"{COMPLETIONS} completions", NumberView(run).show(_filled(run, given, COMPLETIONS, steps, seed)))]
    )


def _filled(run: Run, given: Array, count: int, steps: int, seed: int) -> Array:
    """(count, N), as ``vadd infill`` fills it."""
    if len(given) != run.model.positions:
        raise UserError(f"examples of this run have {run.model.positions} positions, not {len(given)}")
    return np.asarray(run.infill(given[None], count=count, steps=steps, seed=seed)[0])


def _share(given: Array) -> str:
    return f"{int((given == TO_FILL).sum())} of {len(given)} values filled, the rest is kept"


def _bars(counts: Array) -> Array:
    """(BARS, V, 1) bytes: a bar for each value."""
    heights = np.rint(BARS * counts / max(1, counts.max()))
    filled = np.arange(BARS)[::-1, None] < heights[None]
    return np.where(filled, 235, 40).astype(np.uint8)[..., None]


def infill_page(runs: OpenRuns) -> tuple[gr.Dropdown, dict[str, Any]]:
    """Build it; gives back the choice of the run and the event that shows the first picture, which reads data: it
    waits until somebody looks.
    """
    names = runs.names()
    first = runs.get(names[0]) if names else None
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            name = gr.Dropdown(names, value=names[0] if names else None, label="Run", info="Which model fills in.")
            with gr.Group(visible=_is(first, ImageView), elem_id="infill-images") as images:
                example = gr.Number(
                    0, precision=0, minimum=0, label="Held-out example", info="The picture to begin with, by number."
                )
                painter = gr.HTML(
                    html_template=PAINTER,
                    js_on_load=resources.files("vadd").joinpath("studio", "painter.js").read_text(),
                    elem_id="painter",
                )
                blank = gr.Button("Forget everything", size="sm", elem_id="infill-blank")
            with gr.Group(visible=_is(first, TextView), elem_id="infill-text") as texts:
                text = gr.Textbox(
                    "the ____ sat",
                    label="Text with gaps",
                    info="Two or more underscores are a gap; where tokens are characters, one for each.",
                    lines=3,
                    max_length=20_000,
                )
            with gr.Group(visible=_is(first, PointView), elem_id="infill-points") as points:
                coordinate = gr.Radio(
                    ["first", "second"], value="first", label="Known coordinate", info="The model draws the other."
                )
                value = gr.Slider(
                    0, _last_value(first), value=0, step=1, label="Its value", info="Moving it fills in anew."
                )
            with gr.Group(visible=_is(first, NumberView), elem_id="infill-numbers") as numbers:
                row = gr.Textbox(label="Numbers", info="-1 where the model is to fill.", lines=3, max_length=100_000)
            button = gr.Button("Fill in", variant="primary", elem_id="infill-button")
            steps = gr.Slider(
                1, 64, value=8, step=1, label="Steps T", info="With one step all gaps are filled at once."
            )
            seed = gr.Number(0, precision=0, minimum=0, label="Seed", info="Another seed, other completions.")
        with gr.Column(scale=2, min_width=280):
            shown = gr.HTML(elem_id="infill-shown", min_height=200)

    @told
    def on_run(name: str | None) -> tuple[object, ...]:
        run = None if name is None else runs.get(name)
        kinds = (ImageView, TextView, PointView, NumberView)
        groups = [gr.Group(visible=_is(run, kind)) for kind in kinds]
        painting = painting_of(run, 0) if run is not None and _is(run, ImageView) else None
        return *groups, painting, gr.Slider(maximum=_last_value(run), value=0), ""

    @told
    def on_open(name: str | None, painting: dict[str, Any] | None) -> dict[str, Any] | None:
        run = None if name is None else runs.get(name)
        return painting_of(run, 0) if not painting and run is not None and _is(run, ImageView) else painting

    @told
    def on_example(name: str, number: int | None) -> dict[str, Any]:
        return painting_of(runs.get(name), number or 0)

    @told
    def on_blank(name: str) -> dict[str, Any]:
        return painting_of(runs.get(name), None)

    @told
    def on_fill(
        name: str | None,
        painting: Mapping[str, Any] | None,
        text: str,
        coordinate: str,
        value: int,
        row: str,
        steps: int,
        seed: int | None,
    ) -> str:
        if name is None:
            raise UserError("choose a run")
        run, steps, seed = runs.get(name), int(steps), int(seed or 0)
        match view_of(run):
            case ImageView():
                return fill_picture(run, painting, steps, seed)
            case TextView():
                return fill_text(run, text, steps, seed)
            case PointView():
                return fill_point(run, coordinate, int(value), steps, seed)
            case _:
                return fill_numbers(run, row, steps, seed)

    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    name.change(on_run, name, [images, texts, points, numbers, painter, value, shown], **quiet)
    example.change(on_example, [name, example], painter, **quiet)
    blank.click(on_blank, name, painter, **quiet)
    gr.on(
        [button.click, text.submit, value.release],
        on_fill,
        [name, painter, text, coordinate, value, row, steps, seed],
        shown,
        api_visibility="private",
        show_progress="minimal",
        trigger_mode="always_last",
    )
    return name, {"fn": on_open, "inputs": [name, painter], "outputs": painter, **quiet}


def _is(run: Run | None, kind: type) -> bool:
    return run is not None and isinstance(view_of(run), kind)


def _last_value(run: Run | None) -> int:
    return 1 if run is None else run.model.vocab_size - 1
