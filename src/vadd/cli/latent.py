"""``vadd latent``."""

from pathlib import Path

import numpy as np

import vadd
from vadd.cli.console import out_console
from vadd.cli.syntax_sampling import Latent as Options
from vadd.core import TokenSampler
from vadd.errors import UserError, refuse_if
from vadd.evaluation.latent_paths import decode, encode, examples, interpolation, traversal
from vadd.files import whole_file, write_whole
from vadd.report.images import draw_walk
from vadd.run.run import Run
from vadd.words import listed

PATH_POINTS, TRAVERSAL_POINTS = 8, 9
FORMATS = {"image": (".png", ".gif", ".npy"), "text": (".txt", ".npy")}
NUMBERS = (".csv", ".npy")


def latent(options: Options) -> None:
    ways = (options.encode is not None) + (options.interpolate is not None) + options.traverse
    refuse_if((ways != 1, "give one of --encode, --interpolate and --traverse"))
    run, out = vadd.load(options.run), options.out
    formats = NUMBERS if options.encode is not None else FORMATS.get(run.kind.name, NUMBERS)
    if out.suffix not in formats if out is not None else ".png" in formats:
        raise UserError(f"--out needs a file that ends in {listed(formats)}" + (f", not {out}" if out else ""))
    if options.encode is not None:
        z = encode(run, examples(run, options.encode))
        if out is not None:
            _write_numbers(out, z.numpy(), "%.6f")
        for row in z.tolist() if out is None else ():
            out_console.out(" ".join(f"{value:.4f}" for value in row))
    else:
        _show_walk(run, options)
    if out is not None:
        out_console.out(f"written: {out}")


def _show_walk(run: Run, options: Options) -> None:
    """Samples at all points of the walk."""
    if options.interpolate is not None:
        walk = interpolation(run, *options.interpolate, PATH_POINTS if options.points is None else options.points)
    else:
        points = TRAVERSAL_POINTS if options.points is None else options.points
        walk = traversal(run, options.around, options.dimensions, options.span, points)
    sampler = TokenSampler(temperature=options.temperature)
    tokens = decode(run, walk.z.flatten(0, 1), steps=options.steps, seed=options.seed, token_sampler=sampler)
    lines = run.texts(tokens) if run.kind.name == "text" else [" ".join(map(str, row)) for row in tokens.tolist()]
    head = "--- {} ---\n{}" if run.kind.name == "text" else "{}: {}"
    rows = [head.format(name, line) for name, line in zip(walk.names, lines, strict=True)]
    grid = tokens.numpy().reshape(*walk.z.shape[:2], -1)
    match options.out:
        case None:
            for row in rows:
                out_console.out(row)
        case out if out.suffix == ".txt":
            write_whole(out, "\n".join(f"{row}\n" for row in rows))
        case out if out.suffix in (".png", ".gif"):
            draw_walk(grid, run.shape, run.model.vocab_size, walk.rows, walk.columns, out)
        case out:
            shape = (*grid.shape[:2], *run.shape) if out.suffix == ".npy" else tokens.shape
            _write_numbers(out, grid.reshape(shape), "%d")


def _write_numbers(out: Path, numbers: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", how: str) -> None:
    with whole_file(out) as file:
        if out.suffix == ".npy":
            np.save(file, numbers)
        else:
            np.savetxt(file, numbers, fmt=how, delimiter=",")
