"""A part is known, the model writes the rest, eight times: what the page "Infill" shows."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from vadd.errors import UserError
from vadd.kinds import TableKind, TextKind
from vadd.kinds.arrays import TO_FILL, Array
from vadd.kinds.pictures import picture_shape
from vadd.kinds.table.reading import MISSING_WORDS, RawTable
from vadd.progress import Progress, silent
from vadd.run.run import Run
from vadd.run.tables import fill_rows, table_of
from vadd.studio.opened import alone
from vadd.studio.views import ImageView, NumberView, PointView, TableView, card, cards, marked_text, pixels, table

COMPLETIONS = 8
POINTS = 2_000
"""Completions of a point: enough to see how they are distributed."""
BARS = 60
"""Pixels that the tallest bar of a distribution has."""


@dataclass(frozen=True)
class How:
    """How completions are drawn."""

    steps: int
    seed: int
    progress: Progress = silent


def painting_of(run: Run, example: int | None) -> dict[str, Any]:
    """What the painter shows: a held-out example, or nothing but pixels to fill."""
    height, width, channels = picture_shape(run.shape)
    cells = [TO_FILL] * run.model.positions if example is None else held_out(run, example).tolist()
    return {"height": height, "width": width, "channels": channels, "levels": run.model.vocab_size, "cells": cells}


def held_out(run: Run, number: int) -> Array:
    """(N,)"""
    example: Array = run.data.held_out(str(number))[0]
    return example


def fill_picture(run: Run, painting: Mapping[str, Any] | None, how: How) -> str:
    cells = (painting or {}).get("cells")
    if not isinstance(cells, list) or not all(type(cell) is int for cell in cells):
        raise UserError("there is no picture to fill")
    given = np.array(cells, np.int64)
    if TO_FILL not in given:
        raise UserError("nothing is forgotten: paint over what the model is to fill")
    filled = _filled(run, given, COMPLETIONS, how)
    view = ImageView(run)
    masked = np.where(given == TO_FILL, run.model.mask_value, given)
    return cards(
        [
            card("given", view.row(masked[None], 1)),
            card(f"{COMPLETIONS} completions", view.row(filled, 4), _share(given)),
        ]
    )


def fill_text(run: Run, text: str, how: How) -> str:
    assert isinstance(run.kind, TextKind)
    gaps = run.kind.fill_text(text)
    filled = _filled(run, gaps.x[0], COMPLETIONS, how)
    parts = [marked_text(gaps.marked(gaps.templates[0], row)) for row in filled]
    return cards([Markup('<div class="card wide">{}</div>').format(Markup("").join(parts))])


def fill_point(run: Run, coordinate: str, value: int, how: How) -> str:
    given = np.full(2, TO_FILL, np.int64)
    known = 0 if coordinate == "first" else 1
    given[known] = value
    filled = _filled(run, given, POINTS, how)
    other = np.bincount(filled[:, 1 - known], minlength=run.model.vocab_size)
    return cards(
        [
            card("completions on the plane", PointView(run).show(filled), f"{POINTS} of them"),
            card("the other coordinate", pixels(_bars(other), "distribution"), f"0 to {len(other) - 1}, left to right"),
        ]
    )


def fill_numbers(run: Run, text: str, how: How) -> str:
    try:
        given = np.array([int(word) for word in text.replace(",", " ").split()], np.int64)
    except (ValueError, OverflowError):
        raise UserError("write whole numbers, separated by blanks, -1 where the model is to fill") from None
    if len(given) != run.model.positions or TO_FILL not in given:
        raise UserError(f"examples have {run.model.positions} numbers, and {TO_FILL} stands where one is to be filled")
    return cards([card(f"{COMPLETIONS} completions", NumberView(run).show(_filled(run, given, COMPLETIONS, how)))])


def fill_row(run: Run, text: str, how: How) -> str:
    """Of a table: the names of its columns, and below them a row with empty cells."""
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
    except csv.Error:
        lines = []
    if len(lines) != 2 or len(lines[0]) != len(lines[1]) or len(set(lines[0])) != len(lines[0]):
        raise UserError("write a line of column names and below it as many cells, empty where the model is to fill")
    names, cells = lines
    known = [None if cell.strip() in MISSING_WORDS else cell for cell in cells]
    given = RawTable("the row", {name: [cell] for name, cell in zip(names, known, strict=True)}, spelled=True)
    codec = table_of(run)
    asked = codec.gaps(given)[0] == TO_FILL
    if not asked.any():
        raise UserError("no cell of the row is empty: there is nothing to fill")
    with alone(run):
        filled = fill_rows(run, given, COMPLETIONS, steps=how.steps, seed=how.seed, progress=how.progress)
    new, old = Markup("<td><mark>{}</mark></td>"), Markup("<td>{}</td>")
    rows = [
        [
            new.format(column.spell(copy[column.name][0])) if gap else old.format(copy[column.name][0])
            for column, gap in zip(codec.columns, asked, strict=True)
        ]
        for copy in filled
    ]
    return cards([Markup('<div class="card wide">{}</div>').format(table(codec.names, rows))])


def row_with_gaps(run: Run) -> str:
    """Something to begin with: the first half of a held-out example."""
    example = held_out(run, 0)
    known = np.arange(len(example)) < (len(example) + 1) // 2
    if not isinstance(run.kind, TableKind):
        return " ".join(map(str, np.where(known, example, TO_FILL).tolist()))
    # What nobody knows of the example is a gap too.
    known &= example != run.model.mask_value
    cells = TableView(run).spelled(np.where(known, example, 0)[None])[0]
    written = io.StringIO()
    gapped = [cell if there else "" for cell, there in zip(cells, known, strict=True)]
    csv.writer(written, lineterminator="\n").writerows([run.kind.codec.names, gapped])
    return written.getvalue()


def _filled(run: Run, given: Array, count: int, how: How) -> Array:
    """(count, N), as ``vadd infill`` fills it."""
    if len(given) != run.model.positions:
        raise UserError(f"examples of this run have {run.model.positions} positions, not {len(given)}")
    with alone(run):
        filled = run.infill(given[None], count=count, steps=how.steps, seed=how.seed, progress=how.progress)
    return np.asarray(filled[0])


def _share(given: Array) -> str:
    return f"{int((given == TO_FILL).sum())} of {len(given)} values filled, the rest is kept"


def _bars(counts: Array) -> Array:
    """(BARS, at least 2 BARS, 1) bytes: a bar for each value, wide where there are few."""
    heights = np.rint(BARS * counts / max(1, counts.max()))
    filled = np.arange(BARS)[::-1, None] < heights[None]
    wide = filled.repeat(math.ceil(2 * BARS / len(counts)), axis=1)
    return np.where(wide, 235, 40).astype(np.uint8)[..., None]
