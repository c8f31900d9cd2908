"""Who may come in: in front of everything the server answers."""

import hmac
import ipaddress
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vadd.errors import UserError

COOKIE = "vadd-studio"
SHORTEST_TOKEN = 8
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; worker-src 'self' blob:; connect-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""The browser itself refuses whatever would come from another server."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, token: str | None) -> None:
    """Whoever can reach the page can use this machine: others need a token."""
    if not is_loopback(host) and token is None:
        raise UserError(
            f"--host {host} lets other machines in, and whoever opens the page can use this one's processor and disk: "
            "add --token SECRET, which every visitor has to know"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(f"a --token needs at least {SHORTEST_TOKEN} characters")


class Gate:
    """Lets through what comes from the page itself and, where there is a token, from who knows it."""

    def __init__(self, app: ASGIApp, *, host: str, token: str | None, largest: int) -> None:
        self.app, self.local, self.token, self.largest = app, is_loopback(host), token, largest
        # What a browser shows once its visitor has shown the token; it dies with the server.
        self.ticket = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refused = self.answer(HTTPConnection(scope))
        if refused is not None:
            await refused(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
            await send(message)

        await self.app(scope, receive, send_with_policy)

    def answer(self, asked: HTTPConnection) -> Response | None:
        """What is said instead of the page; None for who may come in."""
        address = asked.headers.get("host", "")
        if self.local and not is_loopback(urlsplit(f"//{address}").hostname or ""):
            # A name that somebody else's server has pointed at this machine.
            return PlainTextResponse("this studio answers to 127.0.0.1 and localhost only", 403)
        origin = asked.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != address:
            return PlainTextResponse("the studio answers to its own page only", 403)
        length = asked.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.largest:
            return PlainTextResponse("this is more than the studio takes", 413)
        return None if self.token is None else self._answer_stranger(asked, self.token)

    def _answer_stranger(self, asked: HTTPConnection, token: str) -> Response | None:
        if hmac.compare_digest(asked.cookies.get(COOKIE, "").encode(), self.ticket.encode()):
            return None
        if hmac.compare_digest(asked.query_params.get("token", "").encode(), token.encode()):
            # Not kept in the address, where it would end up in histories and screenshots.
            welcome = RedirectResponse(asked.url.path, 303)
            welcome.set_cookie(COOKIE, self.ticket, httponly=True, samesite="strict")
            return welcome
        return PlainTextResponse("this studio asks for a token: open its address with ?token=... behind it", 401)
