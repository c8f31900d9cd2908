"""A stand-in for the Hugging Face Hub, on this machine: it takes what its own client uploads."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

TOKEN = "hf_for_tests"


class Stored:
    """What was uploaded, by repository, and who was refused."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.objects: dict[str, bytes] = {}


@contextmanager
def local_hub(patch: pytest.MonkeyPatch) -> Iterator[Stored]:
    """The client of the Hub talks to it in here; without the right HF_TOKEN it is refused."""
    from huggingface_hub import constants

    stored = Stored()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, content: Any = None, code: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer({"error": "not found"}, 404)

        def do_PUT(self) -> None:
            stored.objects[self.path.rpartition("/")[2]] = self.body()
            self.answer()

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def do_POST(self) -> None:
            content, place = self.body(), f"http://{self.headers['Host']}"
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.answer({"error": "Invalid username or password."}, 401)
            elif self.path == "/api/repos/create":
                asked = json.loads(content)
                name = f"{asked['organization']}/{asked['name']}"
                stored.files[name], stored.private[name] = (
                    {},
                    bool(asked.get("private") or asked.get("visibility") == "private"),
                )
                self.answer({"url": f"{place}/{name}"})
            elif self.path == "/api/validate-yaml":
                self.answer({"errors": [], "warnings": []})
            elif "/preupload/" in self.path:
                names = [file["path"] for file in json.loads(content)["files"]]
                modes = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in names}
                answered = [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes.items()]
                self.answer({"files": answered})
            elif self.path.endswith("/objects/batch"):
                objects = json.loads(content)["objects"]
                ways = [{**one, "actions": {"upload": {"href": f"{place}/lfs/{one['oid']}"}}} for one in objects]
                self.answer({"transfer": "basic", "objects": ways})
            else:
                repository = "/".join(self.path.split("/")[3:5])
                self.commit(stored.files[repository], [json.loads(line) for line in content.splitlines()])
                self.answer({"commitUrl": f"{place}/{repository}/commit/1", "commitOid": "1", "pullRequestUrl": None})

        def commit(self, files: dict[str, bytes], lines: list[dict[str, Any]]) -> None:
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = stored.objects[value["oid"]]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    patch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
    patch.setenv("HF_TOKEN", TOKEN)
    patch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        yield stored
    finally:
        server.shutdown()
        server.server_close()
