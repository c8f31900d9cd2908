"""``vadd studio``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.console import err_console, out_console
from vadd.cli.options import check_run
from vadd.errors import UserError


def studio(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run directories, or exported models; without one, digits are learnt.",
            show_default=False,
            callback=check_run,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Where trainings, uploads and comparisons of the page go.")] = Path(
        "runs/studio"
    ),
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other machines reach it only with a --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="If it is in use, the next free one is taken.")] = 7860,
    token: Annotated[
        str | None, typer.Option(help="A secret that visitors must know, 8 characters or more.", metavar="SECRET")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Open a page in the browser: draw from models, fill in, walk through the latent, compare, train. Ctrl-C ends it.

    Without a run both models learn digits while you watch, in about two minutes.

    The page is for this machine alone and needs no internet. It can open the runs that are named here, and no others.

    \b
    Examples:
      vadd studio
      vadd studio runs/digits-mdlm runs/digits-vadd
      vadd studio runs/book --port 8000 --no-open
      vadd studio runs/digits-vadd --host 0.0.0.0 --token correct-horse-battery
    """
    from vadd.studio.gate import check_host
    from vadd.studio.server import free_port, private_folder, serve

    check_host(host, token)
    listening = free_port(host, port)
    taken = listening.getsockname()[1]
    if taken != port:
        err_console.print(f"port {port} is in use; taking {taken}", soft_wrap=True)
    address = f"http://{f'[{host}]' if ':' in host else host}:{taken}/" + ("" if token is None else f"?token={token}")

    def ready() -> None:
        out_console.print(f"the studio is at {address} (Ctrl-C ends it)", soft_wrap=True)
        if open_browser and _has_display():
            import webbrowser

            webbrowser.open(address)

    with private_folder():
        try:
            from vadd.studio.page import build_page
        except ImportError as error:
            if error.name != "gradio":
                raise
            raise UserError("the studio needs Gradio: pip install 'vadd[studio]'") from None
        from vadd.studio.opened import OpenRuns
        from vadd.studio.trainings import Trainings

        opened = OpenRuns(runs or [])
        trainings = Trainings(opened, out)
        try:
            if not runs:
                trainings.start_demo()
            serve(build_page(opened, trainings), opened, listening, host=host, token=token, ready=ready)
        except KeyboardInterrupt:
            pass
        finally:
            asked = trainings.running()
            if asked:
                err_console.print("the trainings are asked to save and to stop")
            saved = trainings.close()
            if saved:
                err_console.print(f"saved and stopped: {', '.join(saved)}", soft_wrap=True)
            if gone := [name for name in asked if name not in saved]:
                err_console.print(f"stopped, with nothing to save yet: {', '.join(gone)}", soft_wrap=True)
        err_console.print("the studio is closed")


def _has_display() -> bool:
    """Else a browser for terminals would take this one over."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
