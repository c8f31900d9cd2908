"""What ``vadd infill`` can fill: texts, pictures, and any numbers. Each task knows its unfinished examples and how to
show and write the completions (n, count, N).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.text import Text

from vadd.cli.console import out_console
from vadd.data.array import read_integers
from vadd.data.dataset import TO_FILL, Array
from vadd.data.inpainting import Side, half_mask, picture_shape, read_mask, read_pictures
from vadd.data.text import Tokenizer
from vadd.data.text.pieces import marked_text
from vadd.errors import UserError
from vadd.kinds.text.templates import Template, Templates
from vadd.recipe import TextData
from vadd.run.run import Run

FILLED = "bold cyan"
MOST_SHOWN = 20


class Task(ABC):
    formats: ClassVar[tuple[str, ...]]
    """Of the file that the completions go to."""
    needs_file: ClassVar[bool] = False
    x: Array
    """(n, N), -1 where there is something to fill."""

    @property
    def extents(self) -> list[slice]:
        """The part of each example that was asked for."""
        return [slice(None)] * len(self.x)

    def check_format(self, out: Path | None) -> None:
        """Refuse, before anything is drawn, what the completions cannot be written to."""
        if out is not None and out.suffix not in self.formats:
            raise UserError(f"these completions can be written as {' or '.join(self.formats)}, not to {out}")
        if out is None and self.needs_file:
            raise UserError(f"these completions need a file: --out FILE{' or '.join(self.formats)}")

    def show(self, filled: Array) -> None:
        """Print them, unless they need a file."""
        raise UserError("these completions go to a file: add --out")

    @abstractmethod
    def write(self, filled: Array, out: Path) -> None: ...

    def run_for(self, run: Run) -> Run:
        """The run that fills, perhaps with a part of its values only."""
        return run

    def write_probabilities(self, run: Run, filled: Array, out: Path) -> None:
        raise UserError("--probabilities is for --table")


def show_marked(parts: Sequence[tuple[str, bool]]) -> None:
    """What was filled stands out on a terminal; elsewhere the text is as it is."""
    if out_console.is_terminal:
        line = Text.assemble(*((text, FILLED if filled else "") for text, filled in parts))
        out_console.print(line, soft_wrap=True)
    else:
        out_console.out("".join(text for text, _ in parts), highlight=False)


class TextTask(Task):
    formats = (".txt", ".jsonl")

    def __init__(self, tokenizer: Tokenizer, templates: Sequence[Template], *, padded: bool) -> None:
        self.tokenizer, self.templates, self.padded = tokenizer, templates, padded
        self.x = np.stack([template.values for template in templates])

    @property
    def extents(self) -> list[slice]:
        return [template.extent for template in self.templates]

    def show(self, filled: Array) -> None:
        for name, template, row in self._completions(filled):
            out_console.out(f"--- {name} ---")
            show_marked(self._marked(template, row))
            out_console.out("")

    def write(self, filled: Array, out: Path) -> None:
        if out.suffix == ".txt":
            texts = (
                f"--- {name} ---\n{self._text(template, row)}\n" for name, template, row in self._completions(filled)
            )
            out.write_text("\n".join(texts), encoding="utf-8")
            return
        records = (
            {
                "prompt": template.prompt,
                "text": self._text(template, row),
                "ids": self.tokenizer.to_ids(row[template.extent]).tolist(),
                "known": (template.values[template.extent] != TO_FILL).tolist(),
            }
            for _, template, row in self._completions(filled)
        )
        out.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")

    def _completions(self, filled: Array) -> Iterator[tuple[str, Template, Array]]:
        for prompt, (template, rows) in enumerate(zip(self.templates, filled, strict=True), start=1):
            for number, row in enumerate(rows, start=1):
                yield str(number) if len(self.templates) == 1 else f"{prompt}.{number}", template, row

    def _marked(self, template: Template, row: Array) -> list[tuple[str, bool]]:
        extent = template.extent
        return marked_text(self.tokenizer, row[extent], template.values[extent] == TO_FILL)

    def _text(self, template: Template, row: Array) -> str:
        return self.tokenizer.text(row[template.extent], padded=self.padded)


def templates_of(run: Run) -> tuple[Tokenizer, Templates]:
    if run.tokenizer is None or not isinstance(run.recipe.data, TextData):
        raise UserError(f"{run.directory.path} is not a run on text; give it an --image or an --array")
    return run.tokenizer, Templates(run.tokenizer, run.recipe.data.wrap, run.model.positions)


def is_padded(run: Run) -> bool:
    """Whether a sequence is one document, filled up with pads."""
    return isinstance(run.recipe.data, TextData) and run.recipe.data.wrap == "padded"


def text_task(run: Run, text: str, gap: int | None) -> TextTask:
    tokenizer, templates = templates_of(run)
    return TextTask(tokenizer, [templates.from_text(text, gap)], padded=is_padded(run))


def ends_task(run: Run, prefix: str, suffix: str, length: int | None) -> TextTask:
    tokenizer, templates = templates_of(run)
    return TextTask(tokenizer, [templates.from_ends(prefix, suffix, length)], padded=is_padded(run))


def file_task(run: Run, file: Path, gap: int | None) -> TextTask:
    tokenizer, templates = templates_of(run)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text in UTF-8") from None
    made = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                made.append(templates.from_text(line, gap))
            except UserError as error:
                raise UserError(f"{file}, line {number}: {error}") from None
    if not made:
        raise UserError(f"{file} holds no text")
    return TextTask(tokenizer, made, padded=is_padded(run))


@dataclass(frozen=True)
class PictureTask(Task):
    formats = (".png", ".npy")
    needs_file = True
    x: Array
    shape: tuple[int, ...]
    values: int

    def write(self, filled: Array, out: Path) -> None:
        """As a picture a row for each image: what was given, then its completions."""
        if out.suffix == ".npy":
            np.save(out, filled.reshape(*filled.shape[:2], *self.shape))
            return
        from vadd.report.images import image_grid, save_image, tokens_to_images

        masked = np.where(self.x == TO_FILL, self.values, self.x)
        rows = np.concatenate([masked[:, None], filled], axis=1)
        images = tokens_to_images(rows.reshape(-1, rows.shape[-1]), self.shape, self.values, masks=True)
        save_image(image_grid(images, rows.shape[1]), out, scale=max(1, 64 // self.shape[0]))


def picture_task(
    run: Run, image: Path | None, from_data: str | None, mask: Path | None, keep: Side | None
) -> PictureTask:
    shape, values = run.shape, run.model.vocab_size
    picture_shape(shape)
    if mask is not None:
        fill = read_mask(mask, shape)
    elif keep is not None:
        fill = half_mask(keep, shape)
    else:
        raise UserError("which part of the image is to be filled? Give a --mask (white) or --keep one half")
    if image is not None:
        pictures = read_pictures(image, shape, values)
    else:
        assert from_data is not None
        pictures = held_out(run, from_data)
    return PictureTask(np.where(fill, TO_FILL, pictures), shape, values)


def held_out(run: Run, numbers: str) -> Array:
    """ "0,5" -> these held-out examples, (n, N) int64."""
    test = run.data.test
    try:
        chosen = [int(number) for number in numbers.split(",")]
    except ValueError:
        raise UserError(f"held-out examples are named by their numbers, like 0,5,7; not {numbers!r}") from None
    for number in chosen:
        if not 0 <= number < len(test):
            raise UserError(f"there is no held-out example {number}; there are {len(test)}, the first is 0")
    return np.asarray(test[chosen].long())


@dataclass(frozen=True)
class NumberTask(Task):
    formats = (".npy", ".csv")
    x: Array
    shape: tuple[int, ...]

    def show(self, filled: Array) -> None:
        rows = [(row, start) for completions, start in zip(filled, self.x, strict=True) for row in completions]
        for row, start in rows[:MOST_SHOWN]:
            parts = [(str(value), bool(missing)) for value, missing in zip(row, start == TO_FILL, strict=True)]
            blanks = [(" ", False)] * len(parts)
            show_marked([part for pair in zip(parts, blanks, strict=True) for part in pair][:-1])
        if len(rows) > MOST_SHOWN:
            out_console.out(f"... {len(rows) - MOST_SHOWN} more; write them all with --out FILE.npy")

    def write(self, filled: Array, out: Path) -> None:
        if out.suffix == ".npy":
            np.save(out, filled.reshape(*filled.shape[:2], *self.shape))
        else:
            np.savetxt(out, filled.reshape(-1, filled.shape[-1]), fmt="%d", delimiter=",")


def number_task(run: Run, file: Path) -> NumberTask:
    shape = run.shape
    array = read_integers(file)
    several = array[None] if array.shape in (shape, (run.model.positions,)) else array
    if several.shape[1:] not in (shape, (run.model.positions,)) or not len(several):
        wanted = f"(n, {', '.join(map(str, shape))})"
        raise UserError(f"{file} has the shape {array.shape}; the model's examples need {wanted}")
    flat = several.reshape(len(several), -1).astype(np.int64)
    if not (flat == TO_FILL).any():
        raise UserError(f"there is nothing to fill in {file}: mark it with {TO_FILL}")
    return NumberTask(flat, shape)
