"""The server: one process, on this machine unless told otherwise."""

import errno
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vadd.errors import UserError

if TYPE_CHECKING:
    import gradio as gr

    from vadd.studio.opened import OpenRuns

PORTS_TRIED = 50
GRACE = 1
"""Seconds that open connections are given when the server stops."""
LARGEST_UPLOAD = 200 * 2**20
LARGEST_REQUEST = LARGEST_UPLOAD + 2**20


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
def private_folder() -> Iterator[None]:
    """Where Gradio keeps what visitors upload and fetch, gone with the server. Before Gradio is imported: it looks
    where to once.
    """
    with tempfile.TemporaryDirectory(prefix="vadd-studio-", ignore_cleanup_errors=True) as folder:
        os.environ |= {"GRADIO_TEMP_DIR": folder, "GRADIO_ANALYTICS_ENABLED": "False"}
        yield


def serve(
    page: "gr.Blocks",
    runs: "OpenRuns",
    listening: socket.socket,
    *,
    host: str,
    token: str | None,
    ready: Callable[[], object],
) -> None:
    """Until somebody presses Ctrl-C; ``ready`` is called when the page can be opened."""
    import gradio as gr
    import uvicorn
    from fastapi import FastAPI

    from vadd.studio.gate import Gate
    from vadd.studio.live import live_routes
    from vadd.studio.page import style, theme

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Gate, host=host, token=token, largest=LARGEST_REQUEST)
    app.include_router(live_routes(runs))
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        theme=theme(),
        css=style(),
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        max_file_size=LARGEST_UPLOAD,
        show_error=False,
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=GRACE))
    ready()
    server.run(sockets=[listening])
