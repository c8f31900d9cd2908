"""``vadd infill``."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from vadd.files import writing
from vadd.words import plural

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.cli.infill_tasks import Task
    from vadd.run.run import Run


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

    def task(self, run: "Run", seed: int) -> "Task":
        from vadd.cli import infill_tasks as tasks
        from vadd.cli.infill_tables import table_task

        if self.text is not None:
            return tasks.text_task(run, self.text, self.gap)
        if self.ends is not None:
            return tasks.ends_task(run, self.prefix or "", self.suffix or "", self.length)
        if self.file is not None:
            return tasks.file_task(run, self.file, self.gap)
        if self.array is not None:
            return tasks.number_task(run, self.array)
        if self.table is not None:
            return table_task(run, self.table, seed)
        return tasks.picture_task(
            run, self.image, self.from_data, self.mask, None if self.keep is None else self.keep.value
        )


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
    from vadd.run.options import resolve

    options = drawing.sampling()
    loaded = drawing.load(run)
    refuse_strip(loaded, trajectory)
    task = gaps.task(loaded, drawing.seed)
    task.check_format(out)
    settings = resolve(loaded.model, loaded.recipe.sampling, **options)
    filled, states = _complete(task.run_for(loaded), task, n, drawing, 0 if trajectory is None else RECORDED)
    if trajectory is not None:
        with writing(trajectory):
            write_trajectory(loaded, states, trajectory, [extent for extent in task.extents for _ in range(n)])
        out_console.print(f"how the completions come about: {trajectory}", soft_wrap=True)
    if out is None:
        task.show(filled.numpy())
    else:
        with writing(out):
            task.write(filled.numpy(), out)
        summary = f"{plural(n * len(task.x), 'completion')} in {plural(settings.steps, 'step')}"
        out_console.print(f"{summary}: {out}", soft_wrap=True)
    if probabilities is not None:
        task.write_probabilities(loaded, filled.numpy(), probabilities)
        out_console.print(f"how probable they were: {probabilities}", soft_wrap=True)


def _complete(run: "Run", task: "Task", n: int, drawing: DrawingOptions, record: int) -> "tuple[Tensor, list[Tensor]]":
    """``n`` completions of each example, (examples, n, N), and how the first ones came about."""
    import torch

    from vadd.run.infilling import masked_starts

    starts = masked_starts(run.model, run.shape, task.x, None, n)
    memory = drawing.bytes_at_once()
    with progress_bar() as progress:
        parts = list(run.stream(starts, record=record, memory=memory, progress=progress, **drawing.sampling()))
    filled = torch.cat([part.tokens for part in parts]).view(len(task.x), n, -1)
    return filled, [part.trajectory for part in parts if part.trajectory is not None]
