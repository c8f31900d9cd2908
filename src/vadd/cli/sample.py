"""``vadd sample``."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from vadd.cli.console import err_console, out_console
from vadd.cli.syntax_sampling import Sample
from vadd.files import writing
from vadd.kinds import How
from vadd.parallel import Processes, leave, process_count
from vadd.progress import named, progress_bar
from vadd.report.samples import draw_sample_file
from vadd.report.trajectory import check_trajectory, write_trajectory
from vadd.run.run import Run
from vadd.run.tables import starts_given
from vadd.words import plural

ALL_LABELS = "all"
SHOWN = 20
"""Samples that are printed where no file is named."""
RECORDED = 4
"""Samples or completions in a trajectory."""


def sample(options: Sample) -> None:
    processes = Processes() if process_count() > 1 else None
    run = options.load(options.checkpoint, None if processes is None else processes.device)
    labels = labels_to_draw(run, options.label)
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
        out_console.out(line, highlight=False)
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
    (err_console if options.out is None else out_console).print("; ".join(summary), soft_wrap=True)


def labels_to_draw(run: Run, label: str | None) -> tuple[str, ...]:
    """The label that was asked for, or all there are."""
    names = run.kind.labels or ()
    # A label may be called "all" itself.
    return names if label == ALL_LABELS and names and ALL_LABELS not in names else () if label is None else (label,)


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
    out_console.print(f"how the {what} come about: {out}", soft_wrap=True)
