"""The command line: parse, call, show."""

import sys
from typing import Annotated

import typer

from vadd.cli import data, export, infill, latent, plan, reproduce, sample, status, train
from vadd.cli import eval as evaluating
from vadd.cli.common import err_console, out_console
from vadd.errors import Interrupted, UserError
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


app.command()(reproduce.demo)
app.command()(train.train)
app.command()(sample.sample)
app.command()(infill.infill)
app.command()(latent.latent)
app.command("eval")(evaluating.evaluate)
app.command()(evaluating.compare)
app.command()(status.status)
app.command()(status.runs)
app.command()(plan.plan)
app.command()(export.export)
app.command()(train.recipes)
app.command()(data.data)
app.add_typer(reproduce.reproduce, name="reproduce")


def main() -> None:
    """The ``vadd`` command: a mistake of the user's is one line and exit code 2, an interruption exit code 130."""
    try:
        app()
    except UserError as error:
        err_console.print(f"error: {error}", soft_wrap=True)
        sys.exit(2)
    except OSError as error:
        err_console.print(f"error: {error.filename or 'the system'}: {error.strerror or error}", soft_wrap=True)
        sys.exit(2)
    except (Interrupted, KeyboardInterrupt) as stop:
        err_console.print(
            f"{stop}; run the same command again to go on" if str(stop) else "interrupted", soft_wrap=True
        )
        sys.exit(130)
