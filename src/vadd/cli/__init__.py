"""The command line: parse, call, show. Every command has a file of its name."""

import sys
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
from vadd.cli.console import err_console, out_console
from vadd.errors import Interrupted, UserError
from vadd.version import __version__

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says on a CUDA device, on Linux, on Windows."""

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
    """The ``vadd`` command: a mistake of the user's is one line and exit code 2, an interruption exit code 130."""
    try:
        app()
    except UserError as error:
        _end(f"error: {error}")
    except OSError as error:
        _end(f"error: {error.filename or 'the system'}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        if not isinstance(error, MemoryError) and not any(sign in reason for sign in OUT_OF_MEMORY):
            raise
        _end(f"error: there is not enough memory for this: {reason or 'the system gave none'}")
    except (Interrupted, KeyboardInterrupt) as stop:
        _end(f"{stop}; run the same command again to go on" if str(stop) else "interrupted", code=130)


def _end(line: str, *, code: int = 2) -> None:
    err_console.print(line, soft_wrap=True)
    sys.exit(code)
