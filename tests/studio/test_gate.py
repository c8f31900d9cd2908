"""Who may come in, and where the server listens."""

import socket
from pathlib import Path

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.helpers.studio_calls import in_a_loop
from vadd.errors import UserError
from vadd.studio.gate import Gate
from vadd.studio.server import check_host, free_port, is_loopback

UPLOAD = "/gradio_api/upload"


def client(base: str = "http://127.0.0.1:7860", *, host: str = "127.0.0.1", token: str | None = None) -> TestClient:
    async def page(request: Request) -> PlainTextResponse:
        await request.body()
        return PlainTextResponse("page")

    inner = Starlette(routes=[Route("/", page), Route(UPLOAD, page, methods=["POST"])])
    gate = Gate(inner, page=in_a_loop(gr.Blocks), folder=Path("/nowhere"), host=host, token=token, largest=1000)
    return TestClient(gate, base_url=base, follow_redirects=False)


def test_this_machine_comes_in_and_may_fetch_from_nowhere_else() -> None:
    answer = client().get("/")
    assert (answer.status_code, answer.text) == (200, "page")
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("base", ["http://evil.example:7860", "http://192.168.1.5:7860"])
def test_a_foreign_name_for_this_machine_is_refused(base: str) -> None:
    assert client(base).get("/").status_code == 403


def test_another_page_cannot_use_the_studio() -> None:
    headers = {"Origin": "http://evil.example"}
    assert client().post(UPLOAD, headers=headers).status_code == 403
    assert client().post(UPLOAD, headers={"Origin": "http://127.0.0.1:7860"}).status_code == 200


def test_too_much_at_once_is_refused() -> None:
    assert client().post(UPLOAD, content=b"x" * 1001).status_code == 413
    assert client().post(UPLOAD, content=b"x" * 1000).status_code == 200


def test_a_token_opens_the_door_once_and_is_not_left_in_the_address() -> None:
    visitor = client("http://box:7860", host="0.0.0.0", token="correct-horse")
    assert visitor.get("/").status_code == 401
    assert visitor.get("/?token=wrong-horse").status_code == 401
    welcome = visitor.get("/?token=correct-horse")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert "HttpOnly" in welcome.headers["set-cookie"]
    assert visitor.get("/").status_code == 200
    assert "correct-horse" not in welcome.headers["set-cookie"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "box.example"])
def test_other_machines_need_a_token(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UserError, match="--token"):
        check_host(host, None)
    check_host(host, "long-enough")


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(UserError, match="at least 8 characters"):
        check_host("127.0.0.1", "1234567")


def test_a_port_in_use_gives_the_next_one() -> None:
    with free_port("127.0.0.1", 18000) as first, free_port("127.0.0.1", first.getsockname()[1]) as second:
        assert second.getsockname()[1] > first.getsockname()[1]


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen on port 18000 of 203\.0\.113\.7"):
        free_port("203.0.113.7", 18000)


def test_when_no_port_is_free_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadd.studio.server.PORTS_TRIED", 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match="all in use"):
            free_port("127.0.0.1", taken.getsockname()[1])
