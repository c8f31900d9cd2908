"""The tab "Infill": a part of an example is known, and the chosen runs fill in the rest."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import gradio as gr
import numpy as np
from markupsafe import Markup

from vadd.errors import UserError
from vadd.kinds import TableKind, TextKind
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.gaps import picture_shape
from vadd.kinds.table.reading import MISSING_WORDS, RawTable
from vadd.progress import Progress, named, silent
from vadd.run.run import Run
from vadd.run.tables import fill_rows, table_of
from vadd.studio import widgets as ui
from vadd.studio.draw import SIDE_BY_SIDE, title_of
from vadd.studio.runs import About, OpenRuns
from vadd.studio.views import ImageView, NumberView, PointView, TableView, TextView, View, pixels, table, texts, view_of

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


@dataclass(frozen=True)
class Known:
    """What the visitor has given; which of it counts depends on the kind of the examples."""

    painting: Mapping[str, Any] | None = None
    text: str = ""
    coordinate: str = "first"
    value: int = 0
    row: str = ""
    steps: int = 1
    seed: int = 0
    progress: Progress = silent

    def completions(self, run: Run, given: Array, count: int = COMPLETIONS) -> Array:
        """(count, N), as ``vadd infill`` fills it."""
        if len(given) != run.model.positions:
            raise UserError(f"examples of this run have {run.model.positions} positions, not {len(given)}")
        filled = run.infill(given[None], count=count, steps=self.steps, seed=self.seed, progress=self.progress)
        return np.asarray(filled[0])


def held_out(run: Run, index: int) -> Array:
    """(N,)"""
    example: Array = run.data.held_out(str(index))[0]
    return example


def painting_of(run: Run, example: int | None) -> dict[str, Any]:
    """The value of the painter: a held-out example, or nothing but pixels to fill."""
    height, width, channels = picture_shape(run.shape)
    cells = [TO_FILL] * run.model.positions if example is None else held_out(run, example).tolist()
    return {"height": height, "width": width, "channels": channels, "levels": run.model.vocab_size, "cells": cells}


def fill_picture(run: Run, known: Known) -> list[Markup]:
    cells = (known.painting or {}).get("cells")
    if not isinstance(cells, list) or not all(type(cell) is int and abs(cell) < 2**31 for cell in cells):
        raise UserError("there is no picture to fill")
    given = np.array(cells, np.int64)
    if TO_FILL not in given:
        raise UserError("nothing is forgotten: paint over what the model is to fill")
    filled, view = known.completions(run, given), ImageView(run)
    masked = np.where(given == TO_FILL, run.model.mask_value, given)
    share = f"{int((given == TO_FILL).sum())} of {len(given)} values filled, the rest is kept"
    completed = ui.card(f"{COMPLETIONS} completions", view.row(filled, 4), share)
    return [ui.card("given", view.row(masked[None], 1)), completed]


def fill_text(run: Run, known: Known) -> list[Markup]:
    assert isinstance(run.kind, TextKind)
    gaps, new, old = run.kind.fill_text(known.text), Markup("<mark>{}</mark>"), Markup("{}")
    rows = [gaps.marked(gaps.templates[0], row) for row in known.completions(run, gaps.x[0])]
    lines = [Markup("").join((new if filled else old).format(text) for text, filled in row) for row in rows]
    return [Markup('<div class="card wide">{}</div>').format(texts(lines))]


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
        given = np.array([int(word) for word in known.row.replace(",", " ").split()], np.int64)
    except (ValueError, OverflowError):
        raise UserError("write whole numbers, separated by blanks, -1 where the model is to fill") from None
    if len(given) != run.model.positions or TO_FILL not in given:
        raise UserError(f"examples have {run.model.positions} numbers, and {TO_FILL} stands where one is to be filled")
    return [ui.card(f"{COMPLETIONS} completions", NumberView(run).show(known.completions(run, given)))]


def fill_row(run: Run, known: Known) -> list[Markup]:
    """Of a table: the names of its columns, and below them a row with empty cells."""
    try:
        lines = [line for line in csv.reader(io.StringIO(known.row, newline="")) if line]
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
    return [Markup('<div class="card wide">{}</div>').format(table(codec.names, rows))]


def row_with_gaps(run: Run) -> str:
    """The first half of a held-out example."""
    example = held_out(run, 0)
    known = np.arange(len(example)) < (len(example) + 1) // 2
    if not isinstance(run.kind, TableKind):
        return " ".join(map(str, np.where(known, example, TO_FILL).tolist()))
    known &= example != run.model.mask_value  # a missing cell of the example is a gap too
    cells = TableView(run).spelled(np.where(known, example, 0)[None])[0]
    written = io.StringIO()
    gapped = [cell if kept else "" for cell, kept in zip(cells, known[run.kind.codec.origins], strict=True)]
    csv.writer(written, lineterminator="\n").writerows([run.kind.codec.names, gapped])
    return written.getvalue()


FILLERS: dict[type[View], Callable[[Run, Known], list[Markup]]] = {
    ImageView: fill_picture,
    TextView: fill_text,
    PointView: fill_point,
    NumberView: fill_numbers,
    TableView: fill_row,
}


def fill_all(runs: OpenRuns, names: Sequence[str], known: Callable[[Progress], Known], progress: Progress) -> str:
    """By each of the runs whose examples look like those of the first."""
    if not names:
        raise UserError("choose a run above")
    if len(names) > SIDE_BY_SIDE:
        raise UserError(f"at most {SIDE_BY_SIDE} runs side by side; {len(names)} are chosen")
    first, shown = runs.about(names[0]), []
    for name in names:
        run, about = runs.get(name), runs.about(name)
        if (about.view, about.kind.shape) == (first.view, first.kind.shape):
            parts = FILLERS[type(view_of(run))](run, known(named(progress, name)))
            shown.append(f"<h4>{Markup.escape(title_of(run, name))}</h4>" + ui.cards(parts))
    return "".join(shown)


def _image_controls() -> ui.Answer:
    example = ui.number("Held-out example", "The picture to begin with, by number.")
    script = resources.files("vadd").joinpath("studio", "painter.js").read_text()
    painter = gr.HTML(html_template=PAINTER, js_on_load=script, elem_id="painter")
    ui.hint("Paint over what is to be forgotten (grey), or pixels light and dark; or arrow keys and space.")
    blank = ui.button("Forget everything", "infill-blank", size="sm")
    ui.hint("Then draw a few pixels: the model adds the rest.")
    return example, painter, blank


def _point_controls(about: About | None) -> ui.Answer:
    coordinates = ["first", "second"]
    coordinate = gr.Radio(coordinates, value="first", label="Known coordinate", info="The model draws the other.")
    return coordinate, ui.slider("Its value", "Moving it fills in anew.", (0, _last_value(about)), 0, "infill-value")


def _box(label: str, info: str, value: str, most: int) -> gr.Textbox:
    return gr.Textbox(value, label=label, info=info, lines=3, max_length=most)


def infill_tab(runs: OpenRuns, chosen: gr.CheckboxGroup, tab: gr.Tab) -> None:
    """The first picture reads data: it waits until the ``tab`` is opened."""
    names = runs.names()
    first = runs.about(names[0]) if names else None
    with gr.Row():
        with ui.controls():
            with gr.Group(visible=_is(first, ImageView), elem_id="infill-images") as images:
                example, painter, blank = _image_controls()
            with gr.Group(visible=_is(first, TextView), elem_id="infill-text") as written:
                about = "Two or more underscores are a gap; where tokens are characters, one for each."
                text = _box("Text with gaps", about, "the ____ sat", 20_000)
            with gr.Group(visible=_is(first, PointView), elem_id="infill-points") as points:
                coordinate, value = _point_controls(first)
            with gr.Group(visible=_is(first, NumberView, TableView), elem_id="infill-numbers") as numbers:
                about = "-1 where the model is to fill a number; of a table, leave the cell empty."
                row = _box("Row", about, "", 100_000)
            start = ui.button("Fill in", "infill-button", variant="primary")
            ui.hint("Eight times; of points 2,000 times, to see how they are distributed.")
            about = "With one step all gaps are filled at once."
            steps = ui.slider("Steps T", about, (1, MOST_STEPS), 8, "infill-steps")
            seed = ui.number("Seed", "Another seed, other completions.")
        with ui.results():
            shown = gr.HTML(elem_id="infill-shown", min_height=200)
    built: Any = gr.State(None)
    groups: dict[Any, tuple[type[View], ...]] = {
        images: (ImageView,),
        written: (TextView,),
        points: (PointView,),
        numbers: (NumberView, TableView),
    }

    def rebuilt(names: list[str], before: str | None) -> ui.Answer:
        """What to begin with, for the first of the chosen runs; the same run is left as it is."""
        name = names[0] if names else None
        if name == before:
            return (gr.skip(),) * (len(groups) + 5)
        about, painting, line = None if name is None else runs.about(name), None, ""
        if name is not None and _is(about, ImageView):
            painting = painting_of(runs.get(name), 0)
        elif name is not None and _is(about, NumberView, TableView):
            line = row_with_gaps(runs.get(name))
        visible = [gr.Group(visible=_is(about, *kinds)) for kinds in groups.values()]
        said = ui.note("Choose a run above, and give it something to fill.") if name is None else ""
        return said, *visible, painting, line, gr.Slider(maximum=_last_value(about), value=0), name

    def on_choose(turn: ui.Turn, names: list[str], before: str | None) -> ui.Answer:
        return rebuilt(names, before if turn.tab == "tab-infill" else names[0] if names else None)

    def painted(names: list[str], example: int | None) -> ui.Answer:
        if not names:
            raise UserError("choose a run above")
        return "", painting_of(runs.get(names[0]), example)

    def on_example(turn: ui.Turn, names: list[str], example: int | None) -> ui.Answer:
        return painted(names, int(example or 0))

    def on_fill(turn: ui.Turn, names: list[str], *given: Any) -> str:
        painting, text, coordinate, value, row, steps, seed = given
        if not 1 <= steps <= MOST_STEPS or (seed or 0) < 0:
            raise UserError(f"between 1 and {MOST_STEPS} steps are taken here, and a seed is 0 or more")
        fields = (painting, text or "", coordinate, int(value or 0), row or "", int(steps), int(seed or 0))
        return fill_all(runs, names, lambda progress: Known(*fields, progress), turn.progress)

    building, outputs = ui.Turns(), [shown, *groups, painter, row, value, built]
    building.on([tab.select], lambda turn, *given: rebuilt(*given), [chosen, built], outputs)
    building.on([chosen.change], on_choose, [chosen, built], outputs)
    building.on([example.change], on_example, [chosen, example], [shown, painter])
    building.on([blank.click], lambda turn, names: painted(names, None), [chosen], [shown, painter])
    given = [chosen, painter, text, coordinate, value, row, steps, seed]
    ui.Turns().on([start.click, text.submit, value.release], on_fill, given, [shown])


def _is(about: About | None, *kinds: type[View]) -> bool:
    return about is not None and about.view in kinds


def _last_value(about: About | None) -> int:
    return 1 if about is None else about.kind.vocab_size - 1
