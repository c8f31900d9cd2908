"""``vadd sample``."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.console import err_console, out_console, progress_bar
from vadd.cli.options import (
    CheckpointOption,
    DrawingOptions,
    OverwriteOption,
    RunArgument,
    check_out,
    grouped,
    sampler_option,
)
from vadd.cli.trajectories import RECORDED, TrajectoryOption, refuse_strip, write_trajectory
from vadd.errors import UserError
from vadd.files import writing
from vadd.progress import Progress, named
from vadd.words import plural

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.core import Samples
    from vadd.kinds import How
    from vadd.kinds.table.conditions import Condition
    from vadd.parallel import Processes
    from vadd.run.options import SamplingOptions
    from vadd.run.run import Run

ALL_LABELS = "all"
FORMATS = (".npy", ".csv", ".png", ".txt", ".jsonl", ".parquet")
SHOWN = 20
"""Samples that are printed where no file is named."""


@grouped
def sample(
    run: RunArgument,
    *,
    n: Annotated[
        int | None, typer.Option("-n", help="How many samples. [default: 1000; 64 for a picture of images; 8 texts]")
    ] = None,
    drawing: DrawingOptions,
    checkpoint: CheckpointOption = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: .npy, .csv, or .png for a picture; text also .txt or .jsonl, rows of a table .parquet.",
            show_default=False,
            callback=check_out(*FORMATS),
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a table, only rows with: COLUMN=VALUE, COLUMN=ONE|ANOTHER, COLUMN=FROM-TO (dates FROM..TO), "
            "COLUMN>=FROM, COLUMN<=TO, or COLUMN= for a missing cell. May be repeated.",
            show_default=False,
            metavar="CONDITION",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Of a run trained with data.labels=true: only samples of this label; all: -n of each label.",
            show_default=False,
        ),
    ] = None,
    guidance: Annotated[
        float | None,
        sampler_option(
            help="With --label: above 1 follows the label more closely than the model by itself would (not exact).",
            show_default=False,
        ),
    ] = None,
    trajectory: TrajectoryOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw samples from a trained model.

    Any number of them, in memory that does not grow with it; started with torchrun, on several devices.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 8 --sampler parallel --checkpoint best --out grid.png
      vadd sample runs/digits --steps 20 --trajectory denoising.gif
      vadd sample runs/book -n 8 --steps 32 --temperature 0.9 --top-p 0.95 --trajectory denoising.html
      vadd sample runs/digits --steps 4 --energy runs/digits-ar --energy-candidates 16 --out grid.png
      vadd sample runs/book --grid 0,0.1,0.4,1
      vadd sample runs/digits --label 7 --guidance 1.5 --out sevens.png
      vadd sample runs/digits --label all -n 12 --out digits.png
      vadd sample runs/people -n 10000 --out synthetic.csv
      vadd sample runs/people -n 1000 --where age=40-49 --where sex=F --out women.csv
      torchrun --nproc-per-node 4 -m vadd sample runs/book -n 5000 --steps 64 --out texts.jsonl
    """
    if n is not None and n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    from vadd.parallel import Processes, leave, process_count

    options = drawing.sampling()
    processes = Processes() if process_count() > 1 else None
    loaded = drawing.load(run, checkpoint, None if processes is None else processes.device)
    labels = labels_to_draw(loaded, label)
    if labels or guidance is not None:
        loaded = loaded.labelled(labels[0] if labels else None, 1.0 if guidance is None else guidance)
    count = loaded.kind.default_count(out, len(labels)) if n is None else n * max(1, len(labels))
    settings = loaded.options(**options)  # refused before a file is begun
    refuse_strip(loaded, trajectory)
    if out is not None:
        loaded.kind.check_file(out, count)
    plan = _plan(loaded, count, where or [], labels, drawing)
    drawn = _draw(loaded, plan, drawing, out, processes, record=0 if trajectory is None else RECORDED)
    if trajectory is not None and drawn.states:
        with writing(trajectory):
            write_trajectory(loaded, drawn.states, trajectory)
        out_console.print(f"how the samples come about: {trajectory}", soft_wrap=True)
    leave()
    _show(loaded, drawn, count, out, settings)


def labels_to_draw(run: "Run", label: str | None) -> tuple[str, ...]:
    """One after the other: the label that was asked for, or all there are."""
    names = run.kind.labels or ()
    # A label may be called that itself.
    return names if label == ALL_LABELS and names and ALL_LABELS not in names else () if label is None else (label,)


@dataclass(frozen=True)
class Plan:
    """How many samples, from what start, and what is said of their columns."""

    n: int
    start: "int | Tensor"
    conditions: "dict[int, Condition]"
    labels: tuple[str, ...] = ()
    """Equally many of each."""

    def how(self, seed: int) -> "How":
        from vadd.kinds import How

        return How(seed, self.conditions, self.labels)


def _plan(run: "Run", n: int, where: list[str], labels: tuple[str, ...], drawing: DrawingOptions) -> Plan:
    if not where:
        return Plan(n, n // max(1, len(labels)), {}, labels)
    from vadd.run.tables import starts_given

    conditions = run.kind.where(where)
    with progress_bar() as progress:
        progress("drawing the columns of --where")
        return Plan(n, starts_given(run, n, conditions, **drawing.sampling()), conditions)


@dataclass
class Drawn:
    """What is printed about the samples."""

    shown: list[str] = field(default_factory=list)
    labels_shown: dict[str | None, int] = field(default_factory=dict)
    """How many samples of each label are among them."""
    evaluations: int = 0
    sequences: int = 0
    seconds: float = 0.0
    states: "list[Tensor]" = field(default_factory=list)
    """How the first samples came about."""

    def show(self, run: "Run", tokens: "Tensor", label: str | None, seed: int, plan: Plan) -> None:
        """Samples to be printed, as texts, as rows of a table or as they are; some of each label."""
        begun = self.labels_shown.setdefault(label, 0)
        tokens = tokens[: max(1, SHOWN // max(1, len(plan.labels))) - begun]
        self.labels_shown[label] += len(tokens)
        if len(tokens):
            lines = run.kind.lines(tokens.numpy(), plan.how(seed), first=len(self.shown))
            self.shown += lines if label is None else [f"{label}: {line}" for line in lines]


def _draw(
    run: "Run", plan: Plan, drawing: DrawingOptions, out: Path | None, processes: "Processes | None", record: int
) -> Drawn:
    """The samples into the file, or the first of them to be shown; of several processes, the main one does that."""
    from vadd.report.sample_pictures import draw_sample_file

    drawn, began = Drawn(), time.perf_counter()
    is_main = processes is None or processes.is_main
    with ExitStack() as stack:
        file = None
        if out is not None and is_main:
            file = stack.enter_context(run.kind.sample_file(out, plan.n, plan.how(drawing.seed), draw_sample_file))
        progress = stack.enter_context(progress_bar())
        for label, part in _parts(run, plan, drawing, processes, record, progress):
            drawn.evaluations += part.evaluations
            drawn.sequences += part.sequences
            drawn.states += [] if part.trajectory is None else [part.trajectory]
            if file is not None:
                file.write(part.tokens.numpy())
            else:
                drawn.show(run, part.tokens, label, drawing.seed, plan)
    drawn.seconds = time.perf_counter() - began
    return drawn


def _parts(
    run: "Run",
    plan: Plan,
    drawing: DrawingOptions,
    processes: "Processes | None",
    record: int,
    progress: Progress,
) -> "Iterator[tuple[str | None, Samples]]":
    """Chunk by chunk, with the label that they are drawn of. Every label has the noise that it has alone."""
    drawn = partial(run.stream, plan.start, memory=drawing.bytes_at_once(), processes=processes)
    if len(plan.labels) < 2:
        whole = drawn(record=record, progress=progress, **drawing.sampling())
        yield from ((None, part) for part in whole)
        return
    for number, label in enumerate(plan.labels):
        told = named(progress, label)
        options = drawing.sampling()
        options["label"] = label
        parts = drawn(record=int(number < record), progress=told, **options)
        yield from ((label, part) for part in parts)


def _show(run: "Run", drawn: Drawn, n: int, out: Path | None, settings: "SamplingOptions") -> None:
    for line in drawn.shown:
        out_console.out(line, highlight=False)
    if out is None and n > sum(drawn.labels_shown.values()):
        shown = sum(drawn.labels_shown.values())
        out_console.out(f"... {n - shown} more; write them all with --out {run.kind.file}")
    summary = [
        f"{plural(n, 'sample')} in {plural(settings.steps, 'step')}" + ("" if out is None else f": {out}"),
        f"{drawn.seconds:.1f} s, {n / drawn.seconds:.3g} samples/s",
        f"{plural(drawn.evaluations, 'evaluation')} of the network, {plural(drawn.sequences, 'sequence')} shown to it",
        *([] if settings.exact else ["not exact: " + ", ".join(settings.inexact)]),
    ]
    # Where samples are printed they have the output for themselves.
    (err_console if out is None else out_console).print("; ".join(summary), soft_wrap=True)
