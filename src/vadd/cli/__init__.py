"""The command line: every command parses, calls Python and shows the result. Each has a file of its name."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from vadd.cli.commands import lazy_group
from vadd.cli.console import out_console
from vadd.cli.ending import one_line_for_mistakes
from vadd.version import __version__

COMMANDS = {
    "demo": "Train MDLM and VADD on a toy for about a minute each and show what one step gives.",
    "train": "Train a model.",
    "sample": "Draw samples from a trained model.",
    "infill": "Fill what is missing in texts, images, arrays or tables.",
    "fit-prior": "Learn the prior of a trained model's latent.",
    "latent": "Use the latent as a control: points, paths, what each dimension does.",
    "eval": "Measure a model: distance of its samples from the data, likelihood bounds.",
    "compare": "Compare runs: numbers, figures and one HTML page.",
    "judge": "Score texts from any source: generative perplexity, variety.",
    "studio": "Open a page in the browser: draw, fill in, compare, train.",
    "status": "Show how far a training is, how fast, and how it is doing.",
    "runs": "List all runs below a directory.",
    "plan": "Show what a training will take: parameters, FLOPs, memory, disk and hours.",
    "export": "Write a model to a folder that can be published.",
    "recipes": "List the recipes, or show one with every key and value.",
    "zoo": "List the models that can be trained and compared.",
    "data": "List the data sets, fetch one, or look at the columns of a table.",
    "reproduce": "Repeat the paper's experiments beside its own results.",
}
"""Each is the function of its name in the module of its name, but for:"""
ELSEWHERE = {"eval": "vadd.cli.eval:evaluate", "runs": "vadd.cli.status:runs"}

app = typer.Typer(
    help="Few-step generation of discrete data: train, sample and evaluate masked diffusion models "
    "with a latent variable (VADD) and without (MDLM).",
    cls=lazy_group(COMMANDS, ELSEWHERE),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        out_console.print(f"vadd {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """The ``vadd`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Texts have letters that not every terminal knows, and file names bytes that are no letters at all.
            stream.reconfigure(errors="backslashreplace")
    with one_line_for_mistakes():
        app()
