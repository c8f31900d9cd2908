"""``vadd latent``."""

import numpy as np
from torch import Tensor

import vadd
from vadd.cli.console import out_console
from vadd.cli.syntax_sampling import Latent as Options
from vadd.core import TokenSampler
from vadd.errors import UserError, refuse_if
from vadd.evaluation.latent_paths import Walk, decode, encode, examples, interpolation, traversal
from vadd.files import whole_file, write_whole
from vadd.report.images import draw_walk
from vadd.run.run import Run
from vadd.words import listed

PATH_POINTS, TRAVERSAL_POINTS = 8, 9
FORMATS = {"image": (".png", ".gif", ".npy"), "text": (".txt", ".npy")}
NUMBERS = (".csv", ".npy")


def latent(options: Options) -> None:
    ways = (options.encode is not None) + (options.interpolate is not None) + options.traverse
    around = options.around is not None and not options.traverse
    refuse_if((ways != 1, "give one of --encode, --interpolate and --traverse"), (around, "--around is for --traverse"))
    run, out = vadd.load(options.run), options.out
    formats = NUMBERS if options.encode is not None else FORMATS.get(run.kind.name, NUMBERS)
    if out.suffix not in formats if out is not None else ".png" in formats:
        raise UserError(f"this needs a file that ends in {listed(formats)}" + (f", not {out}" if out else ": --out"))
    if options.encode is not None:
        _show_points(encode(run, examples(run, options.encode)), options)
    else:
        _show_walk(run, _walk(run, options), options)
    if out is not None:
        out_console.out(f"written: {out}")


def _walk(run: Run, options: Options) -> Walk:
    if options.interpolate is not None:
        return interpolation(run, *options.interpolate, PATH_POINTS if options.points is None else options.points)
    points = TRAVERSAL_POINTS if options.points is None else options.points
    return traversal(run, options.around, options.dimensions, options.span, points)


def _show_points(z: Tensor, options: Options) -> None:
    if options.out is None:
        for row in z.tolist():
            out_console.out(" ".join(f"{value:.4f}" for value in row))
    else:
        _write_numbers(z.numpy(), options, "%.6f")


def _show_walk(run: Run, walk: Walk, options: Options) -> None:
    """Samples at all points of the walk."""
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
        case out if out.suffix == ".npy":
            _write_numbers(grid.reshape(*grid.shape[:2], *run.shape), options, "%d")
        case _:
            _write_numbers(tokens.numpy(), options, "%d")


def _write_numbers(numbers: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", options: Options, how: str) -> None:
    assert options.out is not None
    with whole_file(options.out) as file:
        if options.out.suffix == ".npy":
            np.save(file, numbers)
        else:
            np.savetxt(file, numbers, fmt=how, delimiter=",")
