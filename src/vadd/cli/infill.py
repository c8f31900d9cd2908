"""``vadd infill``."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from vadd.cli.console import out_console, progress_bar
from vadd.cli.options import (
    DrawingOptions,
    OverwriteOption,
    RunArgument,
    check_out,
    check_there,
    grouped,
    input_option,
    output_option,
)
from vadd.cli.trajectories import RECORDED, TrajectoryOption, refuse_strip, write_trajectory
from vadd.errors import UserError
from vadd.files import write_whole, writing
from vadd.words import plural

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.kinds.gaps import Gaps, Line
    from vadd.run.run import Run


FILLED = "bold cyan"


class Half(StrEnum):
    top = "top"
    bottom = "bottom"
    left = "left"
    right = "right"


@dataclass(frozen=True)
class GapOptions:
    """What is to be filled: one text or many, images, or any array."""

    text: Annotated[
        str | None,
        typer.Option(help=r"A text with gaps of two or more underscores; \_ is an ordinary one.", show_default=False),
    ] = None
    prefix: Annotated[str | None, typer.Option(help="A text to continue.", show_default=False)] = None
    suffix: Annotated[str | None, input_option(help="A text to lead to.")] = None
    image: Annotated[
        Path | None,
        typer.Option(
            help="An image in the model's size: .png, or .npy for several.", show_default=False, callback=check_there
        ),
    ] = None
    array: Annotated[
        Path | None,
        typer.Option(
            help="Any examples as .npy, -1 where there is something to fill.", show_default=False, callback=check_there
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            help="A table as .csv or .parquet: its missing cells are filled.", show_default=False, callback=check_there
        ),
    ] = None
    file: Annotated[
        Path | None,
        input_option(help="Many texts with gaps, one in each line.", callback=check_there),
    ] = None
    from_data: Annotated[
        str | None,
        input_option(help="Held-out images by their numbers, like 0,5,7."),
    ] = None
    gap: Annotated[
        int | None,
        input_option(
            help="Tokens in each gap. [default: one for each underscore where tokens are characters or bytes, else 3]"
        ),
    ] = None
    length: Annotated[
        int | None,
        input_option(
            help="Tokens of prefix, gap and suffix together. [default: as many as the model's sequences have]"
        ),
    ] = None
    mask: Annotated[
        Path | None,
        input_option(help="An image in the same size: white is filled, black kept.", callback=check_there),
    ] = None
    keep: Annotated[
        Half | None,
        input_option(help="Instead of a mask: the half to keep."),
    ] = None

    @property
    def ends(self) -> str | None:
        """A prefix or a suffix, if there is one."""
        return self.suffix if self.prefix is None else self.prefix

    def check(self) -> None:
        """Exactly one thing to fill, and only options that go with it."""
        sources = {
            "--text": self.text,
            "--prefix or --suffix": self.ends,
            "--file": self.file,
            "--image": self.image,
            "--from-data": self.from_data,
            "--array": self.array,
            "--table": self.table,
        }
        given = [name for name, source in sources.items() if source is not None]
        if len(given) != 1:
            problem = f"{' and '.join(given)} exclude each other" if given else "what is to be filled?"
            raise UserError(f"{problem}; give one of {', '.join(sources)}")
        if given[0] not in {"--image", "--from-data"} and (self.mask is not None or self.keep is not None):
            raise UserError("--mask and --keep are for --image and --from-data")
        if self.mask is not None and self.keep is not None:
            raise UserError("--mask and --keep exclude each other")
        if self.length is not None and self.ends is None:
            raise UserError("--length is for --prefix and --suffix")
        if self.gap is not None and self.text is None and self.file is None:
            raise UserError("--gap is for --text and --file")

    def read(self, run: "Run", seed: int) -> "Gaps":
        kind = run.kind
        if self.text is not None:
            return kind.fill_text(self.text, self.gap)
        if self.ends is not None:
            return kind.fill_between(self.prefix or "", self.suffix or "", self.length)
        if self.file is not None:
            return kind.fill_lines(self.file, self.gap)
        if self.array is not None:
            return kind.fill_array(self.array)
        if self.table is not None:
            return kind.fill_table(self.table, seed)
        kind.check_images()
        numbers, keep = self.from_data, None if self.keep is None else self.keep.value
        images = kind.read_images(self.image) if self.image is not None else run.data.held_out(str(numbers))
        return kind.fill_images(images, self.mask, keep)


@grouped
def infill(
    run: RunArgument,
    *,
    gaps: GapOptions,
    n: Annotated[
        int | None, typer.Option("-n", "--count", help="Completions of each. [default: 4; of a table 1]")
    ] = None,
    drawing: DrawingOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: text .txt or .jsonl, images .png or .npy, arrays .npy or .csv, tables .csv or .parquet.",
            show_default=False,
            callback=check_out(),
        ),
    ] = None,
    probabilities: Annotated[
        Path | None,
        output_option(
            help="Of a table: write here, as .csv, how probable every filled value was given what is known of its row.",
            show_default=False,
            callback=check_out(".csv"),
        ),
    ] = None,
    trajectory: TrajectoryOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Fill what is missing in texts, images or arrays; what is given stays.

    A text shorter than the model's sequences stands at their beginning; the model writes on to their end, and what it
    writes there is not shown. Where a sequence is one padded document, a text is the whole of it.

    \b
    Examples:
      vadd infill runs/book --text "The ____ of the ____" -n 8
      vadd infill runs/book --prefix "Once upon a time" --steps 64
      vadd infill runs/book --file prompts.txt --out filled.jsonl
      vadd infill runs/mnist --from-data 0,1,2 --keep top --out halves.png
      vadd infill runs/mnist --image seven.png --mask hole.png --out filled.png
      vadd infill runs/mine --array unfinished.npy --out filled.npy
      vadd infill runs/people --table gaps.csv --out filled.csv
      vadd infill runs/people --table gaps.csv --count 5 --probabilities sure.csv --out filled.csv
    """
    if n is None:
        n = 4 if gaps.table is None else 1
    if n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    gaps.check()
    if probabilities is not None and gaps.table is None:
        raise UserError("--probabilities is for --table")

    options = drawing.sampling()
    loaded = drawing.load(run)
    refuse_strip(loaded, trajectory)
    unfinished = gaps.read(loaded, drawing.seed)
    unfinished.check_file(out)
    settings = loaded.options(**options)
    filled, states = _complete(loaded, unfinished, n, drawing, 0 if trajectory is None else RECORDED)
    if trajectory is not None:
        with writing(trajectory):
            write_trajectory(loaded, states, trajectory, [extent for extent in unfinished.extents for _ in range(n)])
        out_console.print(f"how the completions come about: {trajectory}", soft_wrap=True)
    if out is None:
        for line in unfinished.lines(filled.numpy()):
            show_marked(line)
    else:
        from vadd.report.sample_pictures import draw_completions

        with writing(out):
            unfinished.write(filled.numpy(), out, draw_completions)
        summary = f"{plural(n * len(unfinished.x), 'completion')} in {plural(settings.steps, 'step')}"
        out_console.print(f"{summary}: {out}", soft_wrap=True)
    if probabilities is not None:
        from vadd.kinds.files import csv_lines
        from vadd.run.tables import cell_probabilities

        chance = cell_probabilities(loaded, unfinished.x, seed=drawing.seed)
        write_whole(probabilities, csv_lines(unfinished.probability_rows(filled.numpy(), chance)))
        out_console.print(f"how probable they were: {probabilities}", soft_wrap=True)


def show_marked(parts: "Line") -> None:
    """What was filled stands out on a terminal; elsewhere the text is as it is."""
    if out_console.is_terminal:
        line = Text.assemble(*((text, FILLED if filled else "") for text, filled in parts))
        out_console.print(line, soft_wrap=True)
    else:
        out_console.out("".join(text for text, _ in parts), highlight=False)


def _complete(run: "Run", gaps: "Gaps", n: int, drawing: DrawingOptions, record: int) -> "tuple[Tensor, list[Tensor]]":
    """``n`` completions of each example, (examples, n, N), and how the first ones came about."""
    import torch

    from vadd.run.infilling import masked_starts

    starts = masked_starts(run.model, run.shape, gaps.x, None, n)
    run = run if gaps.allowed is None else run.restricted(gaps.allowed)
    memory = drawing.bytes_at_once()
    with progress_bar() as progress:
        parts = list(run.stream(starts, record=record, memory=memory, progress=progress, **drawing.sampling()))
    filled = torch.cat([part.tokens for part in parts]).view(len(gaps.x), n, -1)
    return filled, [part.trajectory for part in parts if part.trajectory is not None]
