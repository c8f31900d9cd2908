"""``vadd sample`` and ``vadd infill``."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from rich.text import Text
from torch import Tensor

from vadd.cli.commands import flag
from vadd.cli.console import err_console, out_console
from vadd.cli.syntax_sampling import Infill, Sample
from vadd.data.dataset import chosen_examples
from vadd.errors import UserError, refuse_if
from vadd.files import write_whole, writing
from vadd.kinds import How
from vadd.kinds.files import csv_lines
from vadd.kinds.gaps import Gaps, Line
from vadd.parallel import Processes, leave, process_count
from vadd.progress import named, progress_bar
from vadd.report.samples import draw_completions, draw_sample_file
from vadd.report.trajectory import check_trajectory, write_trajectory
from vadd.run.infilling import masked_starts
from vadd.run.run import Run
from vadd.run.tables import cell_probabilities, starts_given
from vadd.words import plural

ALL_LABELS = "all"
SHOWN = 20
"""Samples that are printed where no file is named."""
RECORDED = 4
"""Samples or completions in a trajectory."""


def sample(options: Sample) -> None:
    refuse_if((options.candidates is not None and not options.where, "--candidates is for --where, and vadd infill"))
    processes = Processes() if process_count() > 1 else None
    run = options.load(None if processes is None else processes.device)
    labels: tuple[str, ...] = () if options.label is None else (options.label,)
    names = run.kind.labels or ()
    if options.label == ALL_LABELS and names and ALL_LABELS not in names:  # a label may have that name itself
        labels = names
    if labels or options.guidance is not None:
        run = run.labelled(labels[0] if labels else None, 1.0 if options.guidance is None else options.guidance)
    n = run.kind.default_count(options.out, len(labels)) if options.n is None else options.n * max(1, len(labels))
    settings = run.options(**options.sampling())  # checked before a file is begun
    check_trajectory(run.kind, options.trajectory)
    if options.out is not None:
        run.kind.check_file(options.out, n)
    how = How(options.seed, run.kind.where(options.where) if options.where else {}, labels)
    began = time.perf_counter()
    drawn = _draw(run, options, n, how, processes)
    seconds = time.perf_counter() - began
    reasons = run.inexact_completions(**options.sampling()) if options.where else settings.inexact
    if options.trajectory is not None and drawn.states:
        show_trajectory(run, drawn.states, options.trajectory, "samples")
    leave()
    for line in drawn.lines:
        out_console.out(line)
    if options.out is None and n > drawn.shown:
        out_console.out(f"... {n - drawn.shown} more; write them all with --out {run.kind.file}")
    summary = [
        f"{plural(n, 'sample')} in {plural(settings.steps, 'step')}"
        + ("" if options.out is None else f": {options.out}"),
        f"{seconds:.1f} s, {n / seconds:.3g} samples/s",
        f"{plural(drawn.evaluations, 'evaluation')} of the network, {plural(drawn.sequences, 'sequence')} shown to it",
        *(["not exact: " + ", ".join(reasons)] if reasons else []),
    ]
    # Where samples are printed they have the output for themselves.
    (err_console if options.out is None else out_console).out("; ".join(summary))


@dataclass
class Drawn:
    """What is said about the samples."""

    evaluations: int = 0
    sequences: int = 0
    states: list[Tensor] = field(default_factory=list)
    """How the first samples came about."""
    lines: list[str] = field(default_factory=list)
    shown: int = 0
    """Samples that are in the lines."""


def _draw(run: Run, options: Sample, n: int, how: How, processes: Processes | None) -> Drawn:
    """The samples into the file, or the first of them, some of each label, to be printed; of several processes, the
    main one does that. Every label has the noise that it has alone.
    """
    drawn, several = Drawn(), len(how.labels) > 1
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar())
        start: int | Tensor = n // max(1, len(how.labels))
        if how.conditions:
            progress("drawing the columns of --where")
            start = starts_given(run, n, how.conditions, **options.sampling())
        write = None
        if options.out is not None and (processes is None or processes.is_main):
            write = stack.enter_context(run.kind.sample_file(options.out, n, how, draw_sample_file))
        for number, label in enumerate(how.labels or (None,)):
            record = 0 if options.trajectory is None else int(number < RECORDED) if several else RECORDED
            settings = options.drawing() | {"label": label, "record": record, "processes": processes}
            room = max(1, SHOWN // max(1, len(how.labels)))
            for part in run.stream(start, progress=named(progress, str(label)) if several else progress, **settings):
                drawn.evaluations += part.evaluations
                drawn.sequences += part.sequences
                drawn.states += [] if part.trajectory is None else [part.trajectory]
                if write is not None:
                    write(part.tokens.numpy())
                elif len(tokens := part.tokens[:room]):
                    room, drawn.shown = room - len(tokens), drawn.shown + len(tokens)
                    lines = run.kind.lines(tokens.numpy(), how, first=len(drawn.lines))
                    drawn.lines += [f"{label}: {line}" for line in lines] if several else lines
    return drawn


def show_trajectory(run: Run, states: list[Tensor], out: Path, what: str, extents: list[slice] | None = None) -> None:
    """Write how samples came about, chunk by chunk (steps + 1, n, N)."""
    with writing(out):
        whole = np.concatenate([part.numpy() for part in states], axis=1)
        write_trajectory(run.kind, whole, out, run.directory.path.name, extents)
    out_console.out(f"how the {what} come about: {out}")


FILLED = "bold cyan"


def infill(options: Infill) -> None:
    _check(options)
    n = options.n if options.n is not None else 4 if options.table is None else 1
    run = options.load()
    check_trajectory(run.kind, options.trajectory)
    gaps = _gaps(run, options)
    gaps.check_file(options.out)
    settings = run.options(**options.sampling())
    starts = masked_starts(run.model, run.shape, gaps.x, None, n)
    filling = run if gaps.allowed is None else run.restricted(gaps.allowed)
    record = 0 if options.trajectory is None else RECORDED
    with progress_bar() as progress:
        parts = list(filling.stream(starts, record=record, progress=progress, **options.drawing()))
    filled = torch.cat([part.tokens for part in parts]).view(len(gaps.x), n, -1).numpy()
    if options.trajectory is not None:
        states = [part.trajectory for part in parts if part.trajectory is not None]
        extents = [extent for extent in gaps.extents for _ in range(n)]
        show_trajectory(run, states, options.trajectory, "completions", extents)
    if options.out is None:
        for line in gaps.lines(filled):
            show_marked(line)
    else:
        with writing(options.out):
            gaps.write(filled, options.out, draw_completions)
        summary = f"{plural(n * len(gaps.x), 'completion')} in {plural(settings.steps, 'step')}"
        out_console.out(f"{summary}: {options.out}")
    if reasons := run.inexact_completions(**options.sampling()):
        (err_console if options.out is None else out_console).out(f"not exact: {', '.join(reasons)}")
    if options.probabilities is not None:
        chance = cell_probabilities(run, gaps.x, seed=options.seed)
        write_whole(options.probabilities, csv_lines(gaps.probability_rows(filled, chance)))
        out_console.out(f"how probable they were: {options.probabilities}")


SOURCES = ("text", "prefix", "suffix", "file", "image", "from_data", "array", "table")
"""Options that say what is to be filled."""


def _check(options: Infill) -> None:
    """Exactly one thing to fill."""
    given = [name for name in SOURCES if getattr(options, name) is not None]
    if len(given) != 1 and given != ["prefix", "suffix"]:
        problem = f"{_flags(given, ' and ')} exclude each other" if given else "what is to be filled?"
        raise UserError(f"{problem}; give one of {_flags(SOURCES, ', ')}")
    if options.mask is not None and options.keep is not None:
        raise UserError("--mask and --keep exclude each other: give one of them")


def _flags(names: Sequence[str], between: str) -> str:
    return between.join(map(flag, names))


def _gaps(run: Run, options: Infill) -> Gaps:
    kind = run.kind
    if options.text is not None:
        return kind.fill_text(options.text, options.gap)
    if options.prefix is not None or options.suffix is not None:
        return kind.fill_between(options.prefix or "", options.suffix or "", options.length)
    if options.file is not None:
        return kind.fill_lines(options.file, options.gap)
    if options.array is not None:
        return kind.fill_array(options.array)
    if options.table is not None:
        return kind.fill_table(options.table, options.seed)
    kind.check_images()
    if options.image is not None:
        images = kind.read_images(options.image)
    else:
        images = chosen_examples(run.data.test, str(options.from_data))
    return kind.fill_images(images, options.mask, options.keep)


def show_marked(parts: Line) -> None:
    """What was filled stands out on a terminal; elsewhere the text is as it is."""
    if out_console.is_terminal:
        line = Text.assemble(*((text, FILLED if filled else "") for text, filled in parts))
        out_console.print(line, soft_wrap=True)
    else:
        out_console.out("".join(text for text, _ in parts))
