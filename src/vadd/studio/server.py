"""The server: one process, for this machine unless a host is named."""

import errno
import ipaddress
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vadd.errors import UserError

if TYPE_CHECKING:
    import gradio as gr
    from fastapi import FastAPI

    from vadd.studio.runs import OpenRuns

SHORTEST_TOKEN = 8
PORTS_TRIED = 50
GRACE = 1
"""Seconds that open connections are given when the server stops."""
LARGEST_UPLOAD = 200 * 2**20


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, token: str | None) -> None:
    """A visitor can use this machine: visitors from others need a token."""
    if not is_loopback(host) and token is None:
        raise UserError(
            f"--host {host} lets other machines in, and every visitor can use this one's processor and disk: "
            "add --token SECRET, which every visitor has to know"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(f"a --token needs at least {SHORTEST_TOKEN} characters")


def free_port(host: str, port: int) -> socket.socket:
    """A socket that listens on ``port``, or on the next one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, min(port + PORTS_TRIED, 2**16)):
        listening = socket.socket(family, socket.SOCK_STREAM)
        if os.name != "nt":  # there it would share a port that is in use
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(f"cannot listen on port {number} of {host}: {error.strerror or error}") from None
        else:
            return listening
    raise UserError(f"the ports from {port} to {port + PORTS_TRIED - 1} are all in use; choose another --port")


@contextmanager
def private_folder() -> Iterator[Path]:
    """Where Gradio keeps uploads and downloads, removed with the server. Gradio looks where to once, when it is
    imported.
    """
    with tempfile.TemporaryDirectory(prefix="vadd-studio-", ignore_cleanup_errors=True) as folder:
        os.environ |= {"GRADIO_TEMP_DIR": folder, "GRADIO_ANALYTICS_ENABLED": "False"}
        yield Path(folder)


def build_app(page: "gr.Blocks", runs: "OpenRuns", folder: Path, *, host: str, token: str | None) -> "FastAPI":
    import gradio as gr
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.responses import PlainTextResponse

    from vadd.studio.gate import Gate
    from vadd.studio.latent import live_route
    from vadd.studio.page import theme
    from vadd.studio.widgets import asset

    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it tells the terminal of every broken upload
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Gate, page=page, folder=folder, host=host, token=token, largest=LARGEST_UPLOAD + 2**20)
    app.include_router(live_route(runs))
    refusal = PlainTextResponse("this request cannot be read", 400)
    app.add_exception_handler(RequestValidationError, lambda request, error: refusal)
    quiet = {"footer_links": [], "run_history": False, "ssr_mode": False, "pwa": False, "mcp_server": False}
    looks = {"theme": theme(), "css": asset("style.css"), "show_error": False, "max_file_size": LARGEST_UPLOAD}
    gr.mount_gradio_app(app, page, path="/", enable_monitoring=False, **quiet, **looks)
    # Mounting does not set it, and without it Gradio copies and serves any file that a request names.
    page.has_launched = True
    return app


def serve(app: "FastAPI", listening: socket.socket, ready: Callable[[], object]) -> None:
    """Until Ctrl-C; ``ready`` is called when the page can be opened."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=GRACE))
    ready()
    server.run(sockets=[listening])
