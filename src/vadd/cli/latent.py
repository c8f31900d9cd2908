"""``vadd latent``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import vadd
from vadd.cli.console import out_console
from vadd.cli.options import OverwriteOption, RunArgument, TemperatureOption, check_out, grouped, latent_option
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.cli.latent_walks import Walk
    from vadd.run.run import Run

PATH_POINTS, TRAVERSAL_POINTS = 8, 9


@dataclass(frozen=True)
class WalkOptions:
    """Where to go in the latent."""

    encode: Annotated[
        str | None,
        typer.Option(help="Print or write the points z of examples: an .npy, or held-out ones by number, like 0,5,7."),
    ] = None
    interpolate: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="From one example to another: each the number of a held-out one, FILE.npy:ROW, an image or a text.",
            metavar="A B",
        ),
    ] = None
    traverse: Annotated[
        bool, typer.Option("--traverse", help="Move each of the most informative dimensions by itself.")
    ] = False
    around: Annotated[
        str | None, typer.Option(help="Traverse around this example instead of around z = 0.", show_default=False)
    ] = None
    points: Annotated[
        int | None, latent_option(help=f"Of a path. [default: {PATH_POINTS}; {TRAVERSAL_POINTS} to traverse]")
    ] = None
    dimensions: Annotated[int, latent_option(min=1, help="To traverse.")] = 6
    span: Annotated[float, latent_option(help="Traverse from -span to span.")] = 2.0

    def check(self) -> None:
        if (self.encode is not None) + (self.interpolate is not None) + self.traverse != 1:
            raise UserError("give one of --encode, --interpolate and --traverse")
        if self.around is not None and not self.traverse:
            raise UserError("--around is for --traverse")

    def walk(self, run: "Run") -> "Walk":
        from vadd.cli.latent_walks import interpolation, traversal

        if self.interpolate is not None:
            return interpolation(run, *self.interpolate, PATH_POINTS if self.points is None else self.points)
        points = TRAVERSAL_POINTS if self.points is None else self.points
        return traversal(run, self.around, self.dimensions, self.span, points)


@grouped
def latent(
    run: RunArgument,
    *,
    way: WalkOptions,
    steps: Annotated[int, typer.Option(help="Sampling steps, with one z for all of them.")] = 1,
    temperature: TemperatureOption = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers that all samples share.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: images .png, .gif or .npy, text .txt or .npy, else .csv or .npy.",
            show_default=False,
            callback=check_out(),
        ),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Use the latent as a control: points z of examples, paths between them, and what each dimension does.

    An example's z is the mean of the recognition model, with everything masked. All samples of a path are drawn with
    the same random numbers, so that the differences come from z.

    \b
    Examples:
      vadd latent runs/mnist --interpolate 0 1 --steps 5 --out path.png
      vadd latent runs/mnist --traverse --around 3 --out dimensions.gif
      vadd latent runs/book --interpolate "the cat" "the dog" --steps 16
      vadd latent runs/mine --encode codes.npy --out z.npy
    """
    way.check()
    from vadd.cli.latent_walks import points_of, present, write_points
    from vadd.core import TokenSampler

    token_sampler = TokenSampler(temperature=temperature)
    loaded = vadd.load(run)
    if way.encode is not None:
        write_points(points_of(loaded, way.encode), out)
    else:
        present(loaded, way.walk(loaded), out, steps=steps, seed=seed, token_sampler=token_sampler)
    if out is not None:
        out_console.print(f"written: {out}", soft_wrap=True)
