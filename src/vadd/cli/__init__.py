"""The command line: parse, call, show. Every command has a file of its name."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from vadd.cli import (
    compare,
    data,
    demo,
    eval,
    export,
    fit_prior,
    infill,
    judge,
    latent,
    plan,
    recipes,
    reproduce,
    runs,
    sample,
    status,
    studio,
    train,
    zoo,
)
from vadd.cli.console import out_console
from vadd.cli.ending import one_line_for_mistakes
from vadd.version import __version__

app = typer.Typer(
    help="Few-step generation of discrete data: train, sample and judge masked diffusion models "
    "with a latent variable (VADD) and without (MDLM).",
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
    """What every command understands."""


app.command()(demo.demo)
app.command()(train.train)
app.command()(sample.sample)
app.command()(infill.infill)
app.command("fit-prior")(fit_prior.fit_prior)
app.command()(latent.latent)
app.command("eval")(eval.evaluate)
app.command()(compare.compare)
app.command()(judge.judge)
app.command()(studio.studio)
app.command()(status.status)
app.command()(runs.runs)
app.command()(plan.plan)
app.command()(export.export)
app.command()(recipes.recipes)
app.command()(zoo.zoo)
app.command()(data.data)
app.add_typer(reproduce.reproduce, name="reproduce")


def main() -> None:
    """The ``vadd`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Texts have letters that not every terminal knows, and file names bytes that are no letters at all.
            stream.reconfigure(errors="backslashreplace")
    with one_line_for_mistakes():
        app()
