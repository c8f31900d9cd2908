"""The tab "Infill": a part of an example is known, and the chosen runs fill in the rest."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import gradio as gr
import numpy as np
from markupsafe import Markup
from pydantic import Field

from vadd.data.dataset import chosen_examples
from vadd.errors import UserError
from vadd.kinds import TableKind, TextKind
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.files import csv_lines
from vadd.kinds.gaps import picture_shape
from vadd.kinds.table.reading import MISSING_WORDS, RawTable
from vadd.progress import Progress, named, silent
from vadd.run.run import Run
from vadd.run.tables import fill_rows, table_of
from vadd.settings import CountOrZero, checked_fields
from vadd.studio import widgets as ui
from vadd.studio.draw import side_by_side, title_of
from vadd.studio.runs import OpenRuns
from vadd.studio.views import ImageView, NumberView, PointView, pixels, table, texts

COMPLETIONS = 8
POINTS = 2_000
"""Completions of a point: enough to see how they are distributed."""
BARS = 60
"""Height in pixels of the tallest bar of a distribution."""
MOST_STEPS = 64
PAINTER = """
<div class="painter"><canvas tabindex="0" role="application"
 aria-label="picture to paint on; arrow keys move, space paints"></canvas>
<div class="brushes">
<label><input type="radio" name="brush" value="forget" checked> forget</label>
<label><input type="radio" name="brush" value="light"> light</label>
<label><input type="radio" name="brush" value="dark"> dark</label>
</div></div>"""


@checked_fields
@dataclass(frozen=True)
class Known:
    """What the visitor has given; which of it counts depends on the kind of the examples."""

    painting: Mapping[str, Any] | None = None
    text: str = ""
    coordinate: str = "first"
    value: int = 0
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 1
    seed: CountOrZero = 0
    progress: Progress = silent

    def completions(self, run: Run, given: Array, count: int = COMPLETIONS) -> Array:
        """(count, N), as ``vadd infill`` fills it."""
        if len(given) != run.model.positions:
            raise UserError(f"examples of this run have {run.model.positions} positions, not {len(given)}")
        filled = run.infill(given[None], count=count, steps=self.steps, seed=self.seed, progress=self.progress)
        return np.asarray(filled[0])


def held_out(run: Run, index: int) -> Array:
    """(N,)"""
    example: Array = chosen_examples(run.examples, str(index))[0]
    return example


def painting_of(run: Run, example: int | None, *, kept: float = 1.0) -> dict[str, Any]:
    """The value of the painter: the upper part of an example, or nothing but pixels to fill."""
    height, width, channels = picture_shape(run.shape)
    below = run.model.positions - round(kept * height) * width * channels
    cells = [TO_FILL] * run.model.positions if example is None else held_out(run, example).tolist()
    cells[len(cells) - below :] = [TO_FILL] * below
    return {"height": height, "width": width, "channels": channels, "levels": run.model.vocab_size, "cells": cells}


def fill_picture(run: Run, known: Known) -> list[Markup]:
    cells = (known.painting or {}).get("cells")
    if not isinstance(cells, list) or not all(type(cell) is int and abs(cell) < 2**31 for cell in cells):
        raise UserError("there is no picture to fill")
    given = np.array(cells, np.int64)
    if TO_FILL not in given:
        raise UserError("no pixel is grey: paint over the part that the model is to fill")
    filled, view = known.completions(run, given), ImageView(run)
    masked = np.where(given == TO_FILL, run.model.mask_value, given)
    share = f"{int((given == TO_FILL).sum())} of {len(given)} values filled, the rest is kept"
    completed = ui.card(f"{COMPLETIONS} completions", view.row(filled, 4), share)
    return [ui.card("given", view.row(masked[None], 1)), completed]


def fill_text(run: Run, known: Known) -> list[Markup]:
    assert isinstance(run.kind, TextKind)
    gaps, new, old = run.kind.fill_text(known.text), Markup("<mark>{}</mark>"), Markup("{}")
    rows = [gaps.marked(gaps.templates[0], row) for row in known.completions(run, gaps.x[0])]
    lines = [ui.NOTHING.join((new if filled else old).format(text) for text, filled in row) for row in rows]
    return [ui.wide_card(texts(lines))]


def fill_point(run: Run, known: Known) -> list[Markup]:
    given, axis = np.full(2, TO_FILL, np.int64), 0 if known.coordinate == "first" else 1
    given[axis] = known.value
    filled = known.completions(run, given, POINTS)
    other = np.bincount(filled[:, 1 - axis], minlength=run.model.vocab_size)
    heights = np.rint(BARS * other / max(1, other.max()))
    bars = (np.arange(BARS)[::-1, None] < heights[None]).repeat(math.ceil(2 * BARS / len(other)), axis=1)
    drawn = pixels(np.where(bars, 235, 40).astype(np.uint8)[..., None], "distribution")
    return [
        ui.card("completions on the plane", PointView(run).show(filled), f"{POINTS} of them"),
        ui.card("the other coordinate", drawn, f"0 to {len(other) - 1}, left to right"),
    ]


def fill_numbers(run: Run, known: Known) -> list[Markup]:
    try:
        given = np.array([int(word) for word in known.text.replace(",", " ").split()], np.int64)
    except (ValueError, OverflowError):
        raise UserError("write whole numbers, separated by blanks, -1 where the model is to fill") from None
    if len(given) != run.model.positions or TO_FILL not in given:
        raise UserError(f"examples have {run.model.positions} numbers, and {TO_FILL} stands where one is to be filled")
    return [ui.card(f"{COMPLETIONS} completions", NumberView(run).show(known.completions(run, given)))]


def fill_row(run: Run, known: Known) -> list[Markup]:
    """Of a table: the names of its columns, and below them a row with empty cells."""
    try:
        lines = [line for line in csv.reader(known.text.splitlines(keepends=True)) if line]
    except csv.Error:
        lines = []
    if len(lines) != 2 or len(lines[0]) != len(lines[1]) or len(set(lines[0])) != len(lines[0]):
        raise UserError("write a line of column names and below it as many cells, empty where the model is to fill")
    cells = {name: [None if cell.strip() in MISSING_WORDS else cell] for name, cell in zip(*lines, strict=True)}
    given, codec = RawTable("the row", cells, spelled=True), table_of(run)
    codec.check_columns(given)
    asked = [cells[name] == [None] for name in codec.names]
    if not any(asked):
        raise UserError("no cell of the row is empty: there is nothing to fill")
    copies = fill_rows(run, given, COMPLETIONS, steps=known.steps, seed=known.seed, progress=known.progress)
    new, old = Markup("<td><mark>{}</mark></td>"), Markup("<td>{}</td>")
    columns = list(zip(codec.shown, asked, strict=True))
    rows = [
        [new.format(c.spell(copy[c.name][0])) if gap else old.format(copy[c.name][0]) for c, gap in columns]
        for copy in copies
    ]
    return [ui.wide_card(table(codec.names, rows))]


def words_with_gaps(run: Run) -> str:
    """What to begin with: a text, or the first half of a held-out example."""
    if isinstance(run.kind, TextKind):
        return "the ____ sat"
    example = held_out(run, 0)
    known = np.arange(len(example)) < (len(example) + 1) // 2
    if not isinstance(run.kind, TableKind):
        return " ".join(map(str, np.where(known, example, TO_FILL).tolist()))
    known &= example != run.model.mask_value  # a missing cell of the example is a gap too
    cells, kept = run.kind.rows(np.where(known, example, 0)[None])[0], known[run.kind.codec.origins]
    return csv_lines([run.kind.codec.names, np.where(kept, cells, "").tolist()])


FILLERS: dict[str, Callable[[Run, Known], list[Markup]]] = {
    "image": fill_picture,
    "text": fill_text,
    "points": fill_point,
    "array": fill_numbers,
    "table": fill_row,
}
"""By the name of the kind of examples."""


def fill_all(runs: OpenRuns, names: Sequence[str], known: Known) -> str:
    """By each of the runs whose examples look like those of the first."""
    if not names:
        raise UserError("choose a run above")
    opened, shown = side_by_side(runs, names), []
    first = opened[names[0]].kind
    for name, run in opened.items():
        if (run.kind.name, run.shape) == (first.name, first.shape):
            parts = FILLERS[run.kind.name](run, replace(known, progress=named(known.progress, name)))
            shown.append(f"<h4>{Markup.escape(title_of(run, name))}</h4>" + ui.cards(parts))
    return "".join(shown)


def _image_controls() -> ui.Answer:
    example = ui.number("Example", "The number of a held-out example; an exported model draws it itself.")
    painter = gr.HTML(html_template=PAINTER, js_on_load=ui.asset("painter.js"), elem_id="painter")
    ui.hint("Paint pixels: grey ones are filled in. Or use the arrow keys and the space bar.")
    with gr.Row():
        half = ui.button("Forget the lower half", "infill-half", size="sm")
        blank = ui.button("Forget everything", "infill-blank", size="sm")
    ui.hint("Then draw a few pixels: the model adds the rest.")
    return example, painter, half, blank


def infill_tab(runs: OpenRuns, chosen: gr.CheckboxGroup, tab: gr.Tab) -> None:
    """The first picture reads data: it waits until the ``tab`` is opened."""
    with gr.Row():
        with ui.controls():
            with gr.Group(visible=False, elem_id="infill-images") as images:
                example, painter, half, blank = _image_controls()
            with gr.Group(visible=False, elem_id="infill-points") as points:
                about = "The model draws the other."
                coordinate = gr.Radio(["first", "second"], value="first", label="Known coordinate", info=about)
                value = ui.slider("Its value", "Moving it fills in anew.", (0, 1), 0, "infill-value")
            with gr.Group(visible=False, elem_id="infill-words") as words:
                about = "Gaps are two or more underscores in a text, -1 among numbers, empty cells of a table."
                text = gr.Textbox("", label="Text with gaps", info=about, lines=3, max_length=100_000)
            start = ui.button("Fill in", "infill-button", variant="primary")
            ui.hint("Draws eight completions; for points 2,000, to show their distribution.")
            about = "With one step all gaps are filled at once."
            steps = ui.slider("Steps T", about, (1, MOST_STEPS), 8, "infill-steps")
            seed = ui.number("Seed", "Another seed gives other completions.")
        with ui.results():
            shown = gr.HTML(elem_id="infill-shown", min_height=200)

    def build(name: str | None) -> ui.Answer:
        """What to begin with."""
        if name is None:
            hidden = [gr.Group(visible=False)] * 3
            return ui.note("Choose a run above, and give it something to fill."), *hidden, None, "", gr.skip()
        run = runs.get(name)
        is_image, is_point = run.kind.name == "image", run.kind.name == "points"
        visible = [gr.Group(visible=each) for each in (is_image, is_point, not (is_image or is_point))]
        painting = painting_of(run, 0, kept=0.5) if is_image else None
        line = "" if is_image or is_point else words_with_gaps(run)
        return "", *visible, painting, line, gr.Slider(maximum=run.kind.vocab_size - 1, value=0)

    def painted(turn: ui.Turn, names: list[str], example: int | None = None, *, kept: float = 1.0) -> ui.Answer:
        if not names:
            raise UserError("choose a run above")
        return "", painting_of(runs.get(names[0]), None if example is None else int(example), kept=kept)

    def on_fill(turn: ui.Turn, names: list[str], *given: Any) -> str:
        painting, text, coordinate, *numbers = given
        value, steps, seed = (int(number or 0) for number in numbers)
        return fill_all(runs, names, Known(painting, text or "", coordinate, value, steps, seed, turn.progress))

    building, outputs = ui.Turns(), [shown, images, points, words, painter, text, value]
    building.follow(tab, chosen, lambda names: names[0], build, [], outputs)
    building.on([example.change], painted, [chosen, example], [shown, painter])
    building.on([half.click], partial(painted, kept=0.5), [chosen, example], [shown, painter])
    building.on([blank.click], painted, [chosen], [shown, painter])
    given = [chosen, painter, text, coordinate, value, steps, seed]
    ui.Turns().on([start.click, text.submit, value.release], on_fill, given, [shown])
