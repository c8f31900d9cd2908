"""``vadd export``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import out_console
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.run import Checkpoint


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.", show_default=False)],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)],
    checkpoint: Annotated[str, typer.Option(metavar="WHICH", help="best, latest or a step.")] = "latest",
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Put the numbers of `vadd eval --json FILE` into the model card."),
    ] = None,
) -> None:
    """Write a model to a folder that can be published: weights, recipe and a model card.

    Sampling from it needs neither the run nor its data. On the Hugging Face Hub it is found by its name "owner/name".

    \b
    Examples:
      vadd export runs/checkers published/checkers
      vadd export runs/checkers published/checkers --checkpoint best --results checkers.json
      vadd sample published/checkers -n 5
    """
    which = _parse(checkpoint)
    from vadd.publish import export as write
    from vadd.run import RunDirectory

    exported = write(RunDirectory.open(run), directory, checkpoint=which, results=results)
    out_console.print(
        f"{directory}: {exported.recipe.name} {exported.recipe.model}, weights of step {exported.step}. "
        f"Choose a license in {directory / 'README.md'} before you publish it; "
        f"try: vadd sample {directory} -n 5",
        soft_wrap=True,
    )


def _parse(text: str) -> "Checkpoint":
    match text:
        case "latest" | "best":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UserError(f"--checkpoint takes best, latest or a step, not {text!r}")
