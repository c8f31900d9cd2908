"""``vadd infill``."""

from collections.abc import Sequence

import torch
from rich.text import Text
from torch import Tensor

from vadd.cli.console import err_console, out_console
from vadd.cli.sample import RECORDED, show_trajectory
from vadd.cli.syntax_sampling import Infill
from vadd.errors import UserError
from vadd.files import write_whole, writing
from vadd.kinds.files import csv_lines
from vadd.kinds.gaps import Gaps, Line
from vadd.progress import progress_bar
from vadd.report.samples import draw_completions
from vadd.report.trajectory import check_trajectory
from vadd.run.infilling import masked_starts
from vadd.run.run import Run
from vadd.run.tables import cell_probabilities
from vadd.words import plural

FILLED = "bold cyan"


def infill(options: Infill) -> None:
    _check(options)
    n = options.n if options.n is not None else 4 if options.table is None else 1
    run = options.load()
    check_trajectory(run.kind, options.trajectory)
    gaps = _gaps(run, options)
    gaps.check_file(options.out)
    settings = run.options(**options.sampling())
    tokens, states = _complete(run, gaps, n, options)
    filled = tokens.numpy()
    if options.trajectory is not None:
        extents = [extent for extent in gaps.extents for _ in range(n)]
        show_trajectory(run, states, options.trajectory, "completions", extents)
    if options.out is None:
        for line in gaps.lines(filled):
            show_marked(line)
    else:
        with writing(options.out):
            gaps.write(filled, options.out, draw_completions)
        summary = f"{plural(n * len(gaps.x), 'completion')} in {plural(settings.steps, 'step')}"
        out_console.print(f"{summary}: {options.out}", soft_wrap=True)
    if reasons := run.inexact_completions(**options.sampling()):
        (err_console if options.out is None else out_console).print(f"not exact: {', '.join(reasons)}", soft_wrap=True)
    if options.probabilities is not None:
        chance = cell_probabilities(run, gaps.x, seed=options.seed)
        write_whole(options.probabilities, csv_lines(gaps.probability_rows(filled, chance)))
        out_console.print(f"how probable they were: {options.probabilities}", soft_wrap=True)


SOURCES = ("text", "prefix", "suffix", "file", "image", "from_data", "array", "table")
"""Options that say what is to be filled."""
NEEDS = {
    "mask": ("image", "from_data"),
    "keep": ("image", "from_data"),
    "length": ("prefix", "suffix"),
    "gap": ("text", "file"),
    "probabilities": ("table",),
}
"""Options that need one of these."""


def _check(options: Infill) -> None:
    """Exactly one thing to fill, and only options that fit it."""
    given = [name for name in SOURCES if getattr(options, name) is not None]
    if len(given) != 1 and given != ["prefix", "suffix"]:
        problem = f"{_flags(given, ' and ')} exclude each other" if given else "what is to be filled?"
        raise UserError(f"{problem}; give one of {_flags(SOURCES, ', ')}")
    for name, needed in NEEDS.items():
        if getattr(options, name) is not None and given[0] not in needed:
            raise UserError(f"--{name} is for {_flags(needed, ' or ')}")
    if options.mask is not None and options.keep is not None:
        raise UserError("--mask and --keep exclude each other")


def _flags(names: Sequence[str], between: str) -> str:
    return between.join(f"--{name.replace('_', '-')}" for name in names)


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
    images = kind.read_images(options.image) if options.image is not None else run.data.held_out(str(options.from_data))
    return kind.fill_images(images, options.mask, options.keep)


def _complete(run: Run, gaps: Gaps, n: int, options: Infill) -> tuple[Tensor, list[Tensor]]:
    """``n`` completions of each example, (examples, n, N), and how the first ones came about."""
    starts = masked_starts(run.model, run.shape, gaps.x, None, n)
    run = run if gaps.allowed is None else run.restricted(gaps.allowed)
    record = 0 if options.trajectory is None else RECORDED
    with progress_bar() as progress:
        parts = list(run.stream(starts, record=record, progress=progress, **options.drawing()))
    filled = torch.cat([part.tokens for part in parts]).view(len(gaps.x), n, -1)
    return filled, [part.trajectory for part in parts if part.trajectory is not None]


def show_marked(parts: Line) -> None:
    """What was filled stands out on a terminal; elsewhere the text is as it is."""
    if out_console.is_terminal:
        line = Text.assemble(*((text, FILLED if filled else "") for text, filled in parts))
        out_console.print(line, soft_wrap=True)
    else:
        out_console.out("".join(text for text, _ in parts), highlight=False)
