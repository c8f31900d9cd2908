"""The command line: every command parses, calls Python and shows the result."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from vadd.cli.commands import Lazy, LazyGroup
from vadd.cli.console import one_line_for_mistakes, out_console
from vadd.version import __version__

COMMANDS = {
    "demo": Lazy("Train MDLM and VADD on a toy for a minute or so each, show what one step gives.", "reproduce:demo"),
    "train": Lazy("Train a model."),
    "sample": Lazy("Draw samples from a trained model."),
    "infill": Lazy("Fill what is missing in texts, images, arrays or tables.", "sample:infill"),
    "fit-prior": Lazy("Learn the prior of a trained model's latent.", "train:fit_prior"),
    "latent": Lazy("Use the latent as a control: points, paths, what each dimension does."),
    "eval": Lazy("Measure a model: distance of its samples from the data, bounds.", "measure:evaluate"),
    "compare": Lazy("Compare runs: numbers, figures and one HTML page.", "measure:compare"),
    "judge": Lazy("Score texts from any source: generative perplexity, variety.", "measure:judge"),
    "studio": Lazy("Open a page in the browser: draw, fill in, compare, train."),
    "status": Lazy("Show how far a training is, how fast, and how it is doing."),
    "runs": Lazy("List all runs below a directory.", "status:runs"),
    "doctor": Lazy("Test this installation: devices, precision, torch.compile, processes."),
    "plan": Lazy("Show what a training will take: parameters, FLOPs, memory, disk, hours."),
    "export": Lazy("Write a model to a folder that can be published.", "train:export"),
    "recipes": Lazy("List the recipes, or show one with every key and value.", "status:recipes"),
    "zoo": Lazy("List the models that can be trained and compared.", "plan:zoo"),
    "data": Lazy("List the data sets, fetch one, or look at the columns of a table."),
    "reproduce": Lazy("Repeat the paper's experiments beside its own results."),
}


class Commands(LazyGroup):
    lazy = COMMANDS


app = typer.Typer(
    help="Few-step generation of discrete data: train, sample and evaluate masked diffusion models "
    "with a latent variable (VADD) and without (MDLM).",
    cls=Commands,
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
        app(prog_name="vadd")
