"""``vadd export``."""

from vadd.cli.console import out_console
from vadd.cli.options import parse_checkpoint
from vadd.cli.syntax import Export
from vadd.files import writing
from vadd.report.results import card_results
from vadd.run.directory import RunDirectory
from vadd.run.export import export as write


def export(options: Export) -> None:
    source, directory = RunDirectory.open(options.run), options.directory
    which = parse_checkpoint(options.checkpoint)
    results = None if options.results is None else card_results(options.results)
    with writing(directory):
        exported = write(source, directory, checkpoint=which, results=results)
    out_console.print(
        f"{directory}: {exported.recipe.name} {exported.recipe.model}, weights of step {exported.step}. "
        f"Choose a license in {directory / 'README.md'} before you publish it; "
        f"try: vadd sample {directory} -n 5",
        soft_wrap=True,
    )
