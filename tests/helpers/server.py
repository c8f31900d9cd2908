"""A server of files on this machine."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serve(files: Mapping[str, bytes]) -> Iterator[str]:
    """A server of these files, on the loopback only: ``with serve({"a": b"..."}) as url``, then fetch ``url + "a"``.

    A name that starts with "cut" is promised whole and sent by half, "unsized" comes without a length, and "slow" with
    a pause.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            name = self.path.removeprefix("/")
            if name not in files:
                self.send_error(404)
                return
            content = files[name]
            self.send_response(200)
            if not name.startswith("unsized"):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if name.startswith("slow"):
                time.sleep(0.5)
            self.wfile.write(content[: len(content) // 2] if name.startswith("cut") else content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """The client hung up: what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
