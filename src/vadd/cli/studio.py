"""``vadd studio``."""

import os
import sys
import webbrowser
from pathlib import Path

from vadd.cli.console import err_console, out_console
from vadd.cli.syntax import Studio
from vadd.errors import UserError
from vadd.run.directory import shipped_models
from vadd.studio.server import build_app, check_host, free_port, private_folder, serve

SHOWN_FIRST = ("mnist-pretrained", "mnist-mdlm-pretrained")
"""Of the models of the package, side by side when the page opens."""


def studio(options: Studio) -> None:
    host, token = options.host, options.token
    check_host(host, token)
    listening = free_port(host, options.port)
    port = listening.getsockname()[1]
    if port != options.port:
        err_console.out(f"port {options.port} is in use; taking {port}")
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/" + ("" if token is None else f"?token={token}")

    def ready() -> None:
        out_console.out(f"the studio is at {address} (Ctrl-C ends it)")
        if options.open_browser and _has_display():
            webbrowser.open(address)

    with private_folder() as folder:
        try:  # Gradio reads where the folder is when it is imported
            from vadd.studio.page import build_page
            from vadd.studio.runs import OpenRuns
            from vadd.studio.trainings import Trainings
        except ImportError as error:
            if error.name != "gradio":
                raise
            raise UserError("the studio needs Gradio: pip install 'vadd[studio]'") from None
        opened = OpenRuns(options.runs or [Path(name) for name in dict.fromkeys((*SHOWN_FIRST, *shipped_models()))])
        trainings = Trainings(opened, options.out)
        try:
            app = build_app(build_page(opened, trainings), opened, folder, host=host, token=token)
            serve(app, listening, ready)
        except KeyboardInterrupt:
            pass
        finally:
            if trainings.running():
                err_console.print("the trainings are asked to save and to stop")
            if saved := trainings.close():
                err_console.out(f"saved and stopped: {', '.join(saved)}")
        err_console.print("the studio is closed")


def _has_display() -> bool:
    """Else a browser for terminals would take this one over."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
