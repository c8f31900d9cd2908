"""In front of everything that the server answers: who may come in, which routes exist, and what a request may hold.

Gradio trusts its own page: it copies and serves files that a request names, takes values of any type, and has routes
that the studio does not use. Here only the routes of the page are let through, and every call of one of its functions
is checked against the controls that it reads: a number is finite, a text is a text, and a file is one that was uploaded
to this server. Anything else is refused in one line.
"""

import hmac
import json
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vadd.studio.server import is_loopback

COOKIE = "vadd-studio"
LARGEST_JSON = 8 * 2**20
LARGEST_NUMBER = 2**53
LONGEST_TEXT = 100_000
MOST_CHOICES = 1_000
API = "/gradio_api"
ROUTES = {
    "GET": re.compile(
        r"/|/(config|theme\.css|favicon\.ico|robots\.txt|manifest\.json)/?|/(assets|static|svelte)/.+|"
        rf"{API}/(info|app_id|login_check|startup-events|queue/data|upload_progress|heartbeat/\w+|file=.+)/?"
    ),
    "POST": re.compile(rf"/live/latent|{API}/(queue/join|run/predict|cancel|reset|upload)/?"),
}
ROUTES["HEAD"] = ROUTES["GET"]
CALLS = (f"{API}/queue/join", f"{API}/run/predict")
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; worker-src 'self' blob:; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""The browser itself refuses whatever would come from another server."""
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class RefusedError(Exception):
    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class Gate:
    """Lets through the requests of the page itself and, where there is a token, of visitors who know it."""

    def __init__(
        self, app: ASGIApp, *, page: gr.Blocks, folder: Path, host: str, token: str | None, largest: int
    ) -> None:
        self.app, self.page, self.folder, self.largest = app, page, folder.resolve(), largest
        self.local, self.token = is_loopback(host), token
        # A browser shows it once its visitor has shown the token; it dies with the server.
        self.ticket = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        begun = False
        answer: Response | None = None

        async def send_with_policy(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] != 500:
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            if begun:
                await send(message)

        try:
            answer = self.answer(HTTPConnection(scope))
            if answer is None:
                await self.app(scope, await self.checked(scope, receive), send_with_policy)
        except RefusedError as refused:
            answer = PlainTextResponse(str(refused), refused.status)
        except Exception:  # headers, an address or JSON that cannot be read, or what the app fails on
            pass
        if not begun:
            answer = answer or PlainTextResponse("this request cannot be read", 400)
            await answer(scope, receive, send)

    def answer(self, asked: HTTPConnection) -> Response | None:
        """What a request is answered that may not come in."""
        address = asked.headers.get("host", "")
        if self.local and not is_loopback(urlsplit(f"//{address}").hostname or ""):
            # A name that a foreign server has pointed at this machine.
            raise RefusedError("this studio answers to 127.0.0.1 and localhost only", 403)
        origin = asked.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != address:
            raise RefusedError("the studio answers to its own page only", 403)
        path, routes = asked.url.path, ROUTES.get(asked.scope.get("method", ""))
        if routes is None or not routes.fullmatch(path):
            raise RefusedError("the studio has no such page", 404)
        if path.startswith(prefix := f"{API}/file=") and not self.is_ours(path.removeprefix(prefix)):
            raise RefusedError("the studio has no such file", 404)
        return None if self.token is None else self._answer_stranger(asked, self.token)

    def _answer_stranger(self, asked: HTTPConnection, token: str) -> Response | None:
        if hmac.compare_digest(asked.cookies.get(COOKIE, "").encode(), self.ticket.encode()):
            return None
        if hmac.compare_digest(asked.query_params.get("token", "").encode(), token.encode()):
            # Not kept in the address, where it would end up in histories and screenshots.
            welcome = RedirectResponse(asked.url.path, 303)
            welcome.set_cookie(COOKIE, self.ticket, httponly=True, samesite="strict")
            return welcome
        raise RefusedError("this studio asks for a token: open its address with ?token=... behind it", 401)

    async def checked(self, scope: Scope, receive: Receive) -> Receive:
        """The body, limited in any case: read, checked and written anew where it is JSON."""
        path, is_upload = scope["path"].rstrip("/"), scope["path"].startswith(f"{API}/upload")
        limit, taken = self.largest if is_upload else LARGEST_JSON, 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise RefusedError("this is more than the studio takes", 413)
            return message

        if int(dict(scope["headers"]).get(b"content-length", b"0")) > limit:
            raise RefusedError("this is more than the studio takes", 413)
        if scope["method"] != "POST" or is_upload:
            return limited
        value = json.loads(await Request(scope, limited).body(), parse_constant=_refused_constant)
        value = self.checked_call(value) if path in CALLS else value
        # Refuses infinities, and text that is no Unicode.
        content = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        pending = [{"type": "http.request", "body": content, "more_body": False}]

        async def replayed() -> Message:
            return pending.pop() if pending else await receive()

        return replayed

    def checked_call(self, call: Any) -> dict[str, Any]:
        """A call of one of the page's functions, with nothing in it but what the page sends."""
        if not isinstance(call, dict):
            raise RefusedError("a call is a JSON object")
        session, values, trigger = call.get("session_hash"), call.get("data"), call.get("trigger_id")
        index = call.get("fn_index")
        function = self.page.fns.get(index) if type(index) is int else None
        named = isinstance(session, str) and re.fullmatch(r"\w{1,64}", session)
        if function is None or function.fn is None or not named:
            raise RefusedError("the studio has no such function")
        if not isinstance(values, list) or len(values) != len(function.inputs):
            raise RefusedError(f"this function takes {len(function.inputs)} values")
        checked = [self.checked_value(control, value) for control, value in zip(function.inputs, values, strict=True)]
        trigger = trigger if type(trigger) is int else None
        return {"data": checked, "fn_index": index, "session_hash": session, "trigger_id": trigger}

    def checked_value(self, control: Any, value: Any) -> Any:
        """What one control of the page may hold."""
        if isinstance(control, gr.State) or (value is None and not isinstance(control, gr.Slider | gr.CheckboxGroup)):
            return None  # a state is kept on the server
        match control:
            case gr.Slider() | gr.Number():
                fits = type(value) in (int, float) and abs(value) <= LARGEST_NUMBER
            case gr.CheckboxGroup():
                fits = isinstance(value, list) and len(value) <= MOST_CHOICES and all(map(_is_text, value))
            case gr.File():
                return self.checked_file(value)
            case gr.HTML():
                fits = _has_no_file(value)
            case _:
                fits = _is_text(value)
        if not fits:
            raise RefusedError(f"this is no value for {getattr(control, 'label', None) or 'this control'}")
        return value

    def checked_file(self, value: Any) -> dict[str, Any]:
        path = value.get("path") if isinstance(value, dict) else None
        if not isinstance(path, str) or path not in self.page.upload_file_set or not self.is_ours(path):
            raise RefusedError("this file was not uploaded to this studio")
        return {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": Path(path).name}

    def is_ours(self, path: str) -> bool:
        """Whether it is a file in the private folder, where this server alone writes."""
        try:
            file = Path(path).resolve()
            return file.is_relative_to(self.folder) and file.is_file()
        except (OSError, ValueError):
            return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _has_no_file(value: Any) -> bool:
    """Gradio copies what any part of a value names as a file."""
    if isinstance(value, dict):
        return not {"path", "meta", "url"} & value.keys() and all(map(_has_no_file, value.values()))
    if isinstance(value, list):
        return all(map(_has_no_file, value))
    return True


def _refused_constant(name: str) -> None:
    raise ValueError(name)
