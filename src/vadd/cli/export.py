"""``vadd export``."""

from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.console import out_console
from vadd.cli.options import CheckpointOption, RunArgument, check_there, parse_checkpoint
from vadd.files import writing
from vadd.run.directory import RunDirectory


def export(
    run: RunArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)],
    checkpoint: CheckpointOption = "latest",
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Put the numbers of `vadd eval --json FILE`, of the same checkpoint, into the model card.",
            callback=check_there,
        ),
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
    which, source = parse_checkpoint(checkpoint), RunDirectory.open(run)
    from vadd.report.results import card_results
    from vadd.run.export import export as write

    card = None if results is None else card_results(results)
    with writing(directory):
        exported = write(source, directory, checkpoint=which, results=card)
    out_console.print(
        f"{directory}: {exported.recipe.name} {exported.recipe.model}, weights of step {exported.step}. "
        f"Choose a license in {directory / 'README.md'} before you publish it; "
        f"try: vadd sample {directory} -n 5",
        soft_wrap=True,
    )
