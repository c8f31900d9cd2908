"""The page "Infill": its controls, and what happens when they are used."""

from collections.abc import Mapping
from importlib import resources
from typing import Any

import gradio as gr

from vadd.errors import UserError
from vadd.studio.hints import hint
from vadd.studio.infill import (
    How,
    fill_numbers,
    fill_picture,
    fill_point,
    fill_row,
    fill_text,
    painting_of,
    row_with_gaps,
)
from vadd.studio.opened import About, OpenRuns
from vadd.studio.turns import Turn, Turns
from vadd.studio.views import ImageView, NumberView, PointView, TableView, TextView, View, view_of

PAINTER = """
<div class="painter"><canvas tabindex="0" role="application"
 aria-label="picture to paint on; arrow keys move, space paints"></canvas>
<div class="brushes">
<label><input type="radio" name="brush" value="forget" checked> forget</label>
<label><input type="radio" name="brush" value="light"> light</label>
<label><input type="radio" name="brush" value="dark"> dark</label>
</div></div>"""


def infill_page(runs: OpenRuns, tab: gr.Tab) -> None:
    """The first picture reads data: it waits until somebody looks at the ``tab``."""
    names = runs.names()
    first = runs.about(names[0]) if names else None
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
                hint("Paint over what is to be forgotten (grey), or pixels light and dark; or arrow keys and space.")
                blank = gr.Button("Forget everything", size="sm", elem_id="infill-blank")
                hint("Then draw a few pixels: the model adds the rest.")
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
            with gr.Group(visible=_is(first, NumberView, TableView), elem_id="infill-numbers") as numbers:
                row = gr.Textbox(
                    label="Row",
                    info="-1 where the model is to fill a number; of a table, leave the cell empty.",
                    lines=3,
                    max_length=100_000,
                )
            button = gr.Button("Fill in", variant="primary", elem_id="infill-button")
            hint("Eight times; of points 2,000 times, to see how they are distributed.")
            steps = gr.Slider(
                1, 64, value=8, step=1, label="Steps T", info="With one step all gaps are filled at once."
            )
            seed = gr.Number(0, precision=0, minimum=0, label="Seed", info="Another seed, other completions.")
        with gr.Column(scale=2, min_width=280):
            shown = gr.HTML(elem_id="infill-shown", min_height=200)

    paintings, fillings = Turns(), Turns()

    @paintings.newest(place=7, of=8)
    def on_run(turn: Turn, name: str | None) -> tuple[object, ...]:
        about = None if name is None else runs.about(name)
        kinds = ((ImageView,), (TextView,), (PointView,), (NumberView, TableView))
        groups = [gr.Group(visible=_is(about, *kind)) for kind in kinds]
        return *groups, *beginning(name), gr.Slider(maximum=_last_value(about), value=0), ""

    @paintings.newest(place=3, of=4)
    def on_open(turn: Turn, name: str | None, painting: dict[str, Any] | None, row: str) -> tuple[object, ...]:
        name = runs.offered(name)
        choice = gr.Dropdown(choices=runs.names(), value=name)
        # Who comes back from another tab finds everything as it was.
        return choice, *((gr.skip(), gr.skip()) if painting or row else beginning(name)), gr.skip()

    def beginning(name: str | None) -> tuple[object, object]:
        """What there is to paint on, or to write in."""
        about = None if name is None else runs.about(name)
        if name is None or not _is(about, ImageView, NumberView, TableView):
            return None, ""
        run = runs.get(name)
        return (painting_of(run, 0), "") if _is(about, ImageView) else (None, row_with_gaps(run))

    @paintings.newest(place=1, of=2)
    def on_example(turn: Turn, name: str, number: int | None) -> tuple[object, ...]:
        return painting_of(runs.get(name), number or 0), ""

    @paintings.newest(place=1, of=2)
    def on_blank(turn: Turn, name: str) -> tuple[object, ...]:
        return painting_of(runs.get(name), None), ""

    @fillings.newest()
    def on_fill(
        turn: Turn,
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
        run, how = runs.get(name), How(int(steps), int(seed or 0), turn.progress)
        match view_of(run):
            case ImageView():
                return fill_picture(run, painting, how)
            case TextView():
                return fill_text(run, text, how)
            case PointView():
                return fill_point(run, coordinate, int(value), how)
            case TableView():
                return fill_row(run, row, how)
            case _:
                return fill_numbers(run, row, how)

    def asks(*inputs: Any) -> dict[str, Any]:
        return paintings.event(inputs, [painter, shown]) | {"show_progress": "hidden"}

    groups = [images, texts, points, numbers]
    tab.select(on_open, **asks(name, painter, row) | {"outputs": [name, painter, row, shown]})
    name.change(on_run, **asks(name) | {"outputs": [*groups, painter, row, value, shown]})
    example.change(on_example, **asks(name, example))
    blank.click(on_blank, **asks(name))
    filled = fillings.event([name, painter, text, coordinate, value, row, steps, seed], shown)
    gr.on([button.click, text.submit, value.release], on_fill, **filled, show_progress="minimal")


def _is(about: About | None, *kinds: type[View]) -> bool:
    return about is not None and about.view in kinds


def _last_value(about: About | None) -> int:
    return 1 if about is None else about.kind.vocab_size - 1
