"""``vadd sample``."""

import time
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
    check_run,
    grouped,
    parse_checkpoint,
    parse_prior,
    with_energy,
)
from vadd.cli.trajectories import RECORDED, TrajectoryOption, check_trajectory, refuse_strip, write_trajectory
from vadd.errors import UserError
from vadd.files import writing
from vadd.words import plural

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.data.tables.conditions import Condition
    from vadd.generation.options import SamplingSettings
    from vadd.parallel import Processes
    from vadd.runs.run import Run

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
        typer.Option(help="Of a run trained with data.labels=true: only samples of this class.", show_default=False),
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(
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
      vadd sample runs/people -n 10000 --out synthetic.csv
      vadd sample runs/people -n 1000 --where age=40-49 --where sex=F --out women.csv
      torchrun --nproc-per-node 4 -m vadd sample runs/book -n 5000 --steps 64 --out texts.jsonl
    """
    if n is not None and n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    which = parse_checkpoint(checkpoint)
    drawing.check()
    _check_files(out, trajectory, overwrite)
    check_run(run)
    from vadd.cli.sample_files import check_format
    from vadd.generation.options import resolve
    from vadd.parallel import Processes, leave, process_count
    from vadd.runs.run import load

    options = drawing.sampling()
    processes = Processes() if process_count() > 1 else None
    loaded = load(
        run, None if processes is None else processes.device, checkpoint=which, prior=parse_prior(drawing.prior)
    )
    loaded = with_energy(loaded, drawing.energy, drawing.energy_candidates)
    if label is not None or guidance is not None:
        loaded = loaded.labelled(label, 1.0 if guidance is None else guidance)
    count = _default_count(loaded, out) if n is None else n
    settings = resolve(loaded.model, loaded.recipe.sampling, **options)  # refused before a file is begun
    refuse_strip(loaded, trajectory)
    if out is not None:
        check_format(loaded, out, count)
    plan = _plan(loaded, count, where or [], drawing)
    drawn = _draw(loaded, plan, drawing, out, processes, record=0 if trajectory is None else RECORDED)
    if trajectory is not None and drawn.states:
        with writing(trajectory):
            write_trajectory(loaded, drawn.states, trajectory)
        out_console.print(f"how the samples come about: {trajectory}", soft_wrap=True)
    leave()
    _show(loaded, drawn, count, out, settings, drawing.sampler or loaded.recipe.sampling.sampler)


def _check_files(out: Path | None, trajectory: Path | None, overwrite: bool) -> None:
    if out is not None and out.suffix not in FORMATS:
        raise UserError(
            "--out takes a file that ends in .npy, .csv or .png, for text .txt or .jsonl, for tables .parquet, "
            f"not {out}"
        )
    check_out(out, overwrite)
    check_trajectory(trajectory, overwrite)


def _default_count(run: "Run", out: Path | None) -> int:
    if run.tokenizer is not None:
        return 8
    return 64 if out is not None and out.suffix == ".png" and len(run.shape) == 3 else 1000


@dataclass(frozen=True)
class Plan:
    """How many samples, from what start, and what is said of their columns."""

    n: int
    start: "int | Tensor"
    conditions: "dict[int, Condition]"


def _plan(run: "Run", n: int, where: list[str], drawing: DrawingOptions) -> Plan:
    if not where:
        return Plan(n, n, {})
    from vadd.runs.tables import conditions_of, starts_given

    conditions = conditions_of(run, where)
    with progress_bar() as progress:
        progress("drawing the columns of --where")
        return Plan(n, starts_given(run, n, conditions, **drawing.sampling()), conditions)


@dataclass
class Drawn:
    """What is printed about the samples."""

    shown: list[str] = field(default_factory=list)
    evaluations: int = 0
    sequences: int = 0
    seconds: float = 0.0
    states: "list[Tensor]" = field(default_factory=list)
    """How the first samples came about."""


def _draw(
    run: "Run", plan: Plan, drawing: DrawingOptions, out: Path | None, processes: "Processes | None", record: int
) -> Drawn:
    """The samples into the file, or the first of them to be shown; of several processes, the main one does that."""
    from vadd.cli.sample_files import sample_file

    drawn, began = Drawn(), time.perf_counter()
    is_main = processes is None or processes.is_main
    with ExitStack() as stack:
        to_file = partial(sample_file, run, n=plan.n, seed=drawing.seed, conditions=plan.conditions)
        file = stack.enter_context(to_file(out)) if out is not None and is_main else None
        progress = stack.enter_context(progress_bar())
        memory = drawing.bytes_at_once()
        for part in run.stream(
            plan.start, record=record, memory=memory, processes=processes, progress=progress, **drawing.sampling()
        ):
            drawn.evaluations += part.evaluations
            drawn.sequences += part.sequences
            drawn.states += [] if part.trajectory is None else [part.trajectory]
            if file is not None:
                file.write(part.tokens.numpy())
            elif len(drawn.shown) < SHOWN:
                shown = part.tokens[: SHOWN - len(drawn.shown)]
                drawn.shown += _lines(run, shown, len(drawn.shown) + 1, drawing.seed, plan.conditions)
    drawn.seconds = time.perf_counter() - began
    return drawn


def _lines(run: "Run", tokens: "Tensor", first: int, seed: int, conditions: "dict[int, Condition]") -> list[str]:
    """Samples to be printed, the first of which is number ``first``, as texts, as rows of a table or as they are."""
    from vadd.cli.sample_files import csv_lines, numbered

    if run.tokenizer is not None:
        return numbered(run.texts(tokens), first)
    if run.table is not None:
        cells = run.table.decode(tokens.numpy(), seed, first - 1, conditions)
        header = [run.table.names] if first == 1 else []
        return csv_lines([*header, *run.table.spelled(cells)]).splitlines()
    return [" ".join(map(str, row)) for row in tokens.tolist()]


def _show(run: "Run", drawn: Drawn, n: int, out: Path | None, settings: "SamplingSettings", sampler: str) -> None:
    for line in drawn.shown:
        out_console.out(line, highlight=False)
    if out is None and n > SHOWN:
        file = "FILE.csv" if run.table is not None else "FILE.npy" if run.tokenizer is None else "FILE.txt"
        out_console.out(f"... {n - SHOWN} more; write them all with --out {file}")
    summary = [
        f"{plural(n, 'sample')} in {plural(settings.steps, 'step')}" + ("" if out is None else f": {out}"),
        f"{drawn.seconds:.1f} s, {n / drawn.seconds:.3g} samples/s",
        f"{plural(drawn.evaluations, 'evaluation')} of the network, {plural(drawn.sequences, 'sequence')} shown to it",
        *_inexact(settings, sampler),
    ]
    # Where samples are printed they have the output for themselves.
    (err_console if out is None else out_console).print("; ".join(summary), soft_wrap=True)


def _inexact(settings: "SamplingSettings", sampler: str) -> list[str]:
    """Why the samples do not follow the model's own distribution, if they do not."""
    values = settings.token_sampler
    reasons = {
        f"the sampler {sampler}": not settings.sampler.exact,
        f"temperature {values.temperature:g}": values.temperature != 1,
        f"top-k {values.top_k}": values.top_k is not None,
        f"top-p {values.top_p}": values.top_p is not None,
        "float32 draws (parity mode)": values.precision == "float32",
        f"guidance {settings.guidance:g}": settings.guidance != 1,
    }
    return [] if settings.exact else ["not exact: " + ", ".join(why for why, holds in reasons.items() if holds)]
