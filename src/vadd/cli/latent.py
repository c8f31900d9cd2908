"""``vadd latent``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import RunArgument, out_console, refuse_existing
from vadd.cli.options import OverwriteOption, SeedOption, TemperatureOption
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.cli.latent_walks import Walk


def latent(
    run: RunArgument,
    encode: Annotated[
        str | None,
        typer.Option(help="Print or write the points z of examples: an .npy, or held-out ones by number, like 0,5,7."),
    ] = None,
    interpolate: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="From one example to another: each the number of a held-out one, FILE.npy:ROW, an image or a text.",
            metavar="A B",
        ),
    ] = None,
    traverse: Annotated[
        bool, typer.Option("--traverse", help="Move each of the most telling dimensions by itself.")
    ] = False,
    around: Annotated[
        str | None, typer.Option(help="Traverse around this example instead of around z = 0.", show_default=False)
    ] = None,
    points: Annotated[int | None, typer.Option(help="Of a path. [default: 8; 9 to traverse]")] = None,
    dimensions: Annotated[int, typer.Option(min=1, help="To traverse.")] = 6,
    span: Annotated[float, typer.Option(help="Traverse from -span to span.")] = 2.0,
    steps: Annotated[int, typer.Option(help="Sampling steps, with one z for all of them.")] = 1,
    temperature: TemperatureOption = 1.0,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: images .png, .gif or .npy, text .txt or .npy, else .csv or .npy.", show_default=False
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
    if (encode is not None) + (interpolate is not None) + traverse != 1:
        raise UserError("give one of --encode, --interpolate and --traverse")
    if around is not None and not traverse:
        raise UserError("--around is for --traverse")
    if out is not None:
        refuse_existing(out, overwrite)
    from vadd.cli import latent_walks as walks
    from vadd.core import TokenSampler
    from vadd.runs.run import load

    token_sampler = TokenSampler(temperature=temperature)
    loaded = load(run)
    if encode is not None:
        walks.write_points(walks.points_of(loaded, encode), out)
    else:
        walk: Walk
        if interpolate is not None:
            walk = walks.interpolation(loaded, *interpolate, 8 if points is None else points)
        else:
            walk = walks.traversal(loaded, around, dimensions, span, 9 if points is None else points)
        walks.present(loaded, walk, out, steps=steps, seed=seed, token_sampler=token_sampler)
    if out is not None:
        out_console.print(f"written: {out}", soft_wrap=True)
