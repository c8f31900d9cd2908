"""``vadd latent``: examples by name, paths through the latent, and how they are shown."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import vadd
from vadd.cli.console import out_console
from vadd.cli.syntax_sampling import PATH_POINTS, TRAVERSAL_POINTS
from vadd.cli.syntax_sampling import Latent as Options
from vadd.core import TokenSampler
from vadd.errors import UserError, check_range
from vadd.evaluation.latent_paths import cross, decode, encode, informative_dimensions, line
from vadd.kinds import TextKind
from vadd.kinds.arrays import TO_FILL, Array
from vadd.report.figures import save_figure
from vadd.report.images import as_pillow, enlarged, image_grid, save_animation, tokens_to_images, traversal_figure
from vadd.run.run import Run

SIDE = 256
FRAME, TURN = 120, 700
"""Milliseconds of an animation's frames, and of those at its ends."""


@dataclass(frozen=True)
class Walk:
    z: Tensor
    """(rows, columns, d)"""
    rows: list[str]
    columns: list[str]

    @property
    def names(self) -> list[str]:
        return [f"{row} {column}".strip() for row in self.rows for column in self.columns]


def latent(options: Options) -> None:
    ways = (options.encode is not None) + (options.interpolate is not None) + options.traverse
    if ways != 1:
        raise UserError("give one of --encode, --interpolate and --traverse")
    if options.around is not None and not options.traverse:
        raise UserError("--around is for --traverse")
    run = vadd.load(options.run)
    if options.encode is not None:
        write_points(encode(run, examples(run, options.encode)), options.out)
    else:
        present(run, _walk(run, options), options)
    if options.out is not None:
        out_console.print(f"written: {options.out}", soft_wrap=True)


def _walk(run: Run, options: Options) -> Walk:
    if options.interpolate is not None:
        return interpolation(run, *options.interpolate, PATH_POINTS if options.points is None else options.points)
    points = TRAVERSAL_POINTS if options.points is None else options.points
    return traversal(run, options.around, options.dimensions, options.span, points)


def interpolation(run: Run, first: str, last: str, points: int) -> Walk:
    ends = encode(run, torch.cat([_one_example(run, first), _one_example(run, last)]))
    shares = torch.linspace(0, 1, points).tolist()
    return Walk(line(ends[0], ends[1], points)[None], [""], [f"{share:.2f}" for share in shares])


def traversal(run: Run, around: str | None, dimensions: int, span: float, points: int) -> Walk:
    if points < 2 or not span > 0:
        raise UserError(f"a traversal takes at least 2 points and a span above 0, not {points} and {span}")
    moving = informative_dimensions(run, run.model.latent.dim)
    centre = encode(run, _one_example(run, "0" if around is None else around))[0]
    if around is None:
        centre[moving] = 0.0  # and nothing else: a code stays one
    chosen = moving[:dimensions]
    values = torch.linspace(-span, span, points).tolist()
    return Walk(cross(centre, chosen, values), [f"z{d}" for d in chosen], [f"{value:+.2f}" for value in values])


def examples(run: Run, name: str) -> Tensor:
    """Held-out examples by their numbers, all rows or one of an .npy, an image, or a text of which what follows is
    missing: (n, N), V where something is missing.
    """
    array = re.fullmatch(r"(.+\.npy)(?::(\d+))?", name)
    if re.fullmatch(r"\d+(,\d+)*", name):
        found = run.data.held_out(name)
    elif array is not None:
        found = _rows(run, Path(array[1]), None if array[2] is None else int(array[2]))
    elif run.kind.name == "image":
        found = run.kind.read_images(Path(name))
    elif isinstance(run.kind, TextKind):
        found = run.kind.templates.whole(name).values[None]
    else:
        raise UserError(f"{name!r} names no example: give the number of a held-out one or a row of a file, x.npy:0")
    low, high = int(found.min()), int(found.max())
    check_range(low, high, run.model.vocab_size, f"{name} holds the value", also=(TO_FILL,))
    return torch.from_numpy(np.where(found == TO_FILL, run.model.vocab_size, found).astype(np.int64))


def _rows(run: Run, file: Path, row: int | None) -> Array:
    """All rows of an .npy or one of them, (n, N)."""
    found = run.kind.read_examples(file)
    if row is not None and row >= len(found):
        raise UserError(f"{file} has no row {row}; it has {len(found)}")
    return found if row is None else found[row : row + 1]


def _one_example(run: Run, name: str) -> Tensor:
    """(1, N)"""
    found = examples(run, name)
    if len(found) != 1:
        raise UserError(f"{name} holds {len(found)} examples; name one of them")
    return found


def write_points(z: Tensor, out: Path | None) -> None:
    if out is None:
        for row in z.tolist():
            out_console.out(" ".join(f"{value:.4f}" for value in row))
    elif out.suffix == ".npy":
        np.save(out, z.numpy())
    elif out.suffix == ".csv":
        np.savetxt(out, z.numpy(), fmt="%.6f", delimiter=",")
    else:
        raise UserError(f"the points z can be written as .npy or .csv, not to {out}")


def present(run: Run, walk: Walk, options: Options) -> None:
    """Samples at all points of the walk, printed or written."""
    out = options.out
    _check_format(run, out)
    tokens = decode(
        run,
        walk.z.flatten(0, 1),
        steps=options.steps,
        seed=options.seed,
        token_sampler=TokenSampler(temperature=options.temperature),
    )
    if out is None:
        _print(run, walk, tokens)
    elif out.suffix == ".npy":
        np.save(out, tokens.numpy().reshape(*walk.z.shape[:2], *run.shape))
    elif out.suffix == ".csv":
        np.savetxt(out, tokens.numpy(), fmt="%d", delimiter=",")
    elif out.suffix == ".txt":
        named = zip(walk.names, run.texts(tokens), strict=True)
        out.write_text("\n".join(f"--- {name} ---\n{text}\n" for name, text in named), encoding="utf-8")
    else:
        _draw(tokens.numpy().reshape(*walk.z.shape[:2], -1), walk, run.shape, run.model.vocab_size, out)


def _check_format(run: Run, out: Path | None) -> None:
    images, text = run.kind.name == "image", run.kind.name == "text"
    formats = [".png", ".gif", ".npy"] if images else [".txt", ".npy"] if text else [".csv", ".npy"]
    if (images and out is None) or (out is not None and out.suffix not in formats):
        raise UserError(f"this needs a file that ends in {', '.join(formats)}" + (f", not {out}" if out else ": --out"))


def _print(run: Run, walk: Walk, tokens: Tensor) -> None:
    if run.kind.name == "text":
        for name, text in zip(walk.names, run.texts(tokens), strict=True):
            out_console.out(f"--- {name} ---\n{text}", highlight=False)
    else:
        for name, row in zip(walk.names, tokens.tolist(), strict=True):
            out_console.out(f"{name}: {' '.join(map(str, row))}", highlight=False)


def _draw(tokens: Array, walk: Walk, shape: tuple[int, ...], values: int, out: Path) -> None:
    """Rows and columns as a picture, or as an animation that goes along the columns and back."""
    if out.suffix == ".png":
        save_figure(traversal_figure(tokens, shape, values, walk.rows, walk.columns), out)
        return
    grids = [image_grid(tokens_to_images(column, shape, values), len(walk.rows)) for column in tokens.swapaxes(0, 1)]
    scale = max(1, SIDE // shape[0] // 2)
    there = [as_pillow(enlarged(grid, scale)) for grid in grids]
    back = there[-2:0:-1]
    save_animation(out, there + back, [TURN, *[FRAME] * (len(there) - 2), TURN, *[FRAME] * len(back)])
