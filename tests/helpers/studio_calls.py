"""What a hostile visitor sends to the studio: calls of its functions by number, and files that are not theirs."""

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

API = "/gradio_api"
Made = TypeVar("Made")
FILE = {"_type": "gradio.FileData"}


def in_a_loop(make: Callable[[], Made]) -> Made:
    """Outside one, Gradio opens event loops and never closes them. In a thread: Playwright has one in the main one."""

    async def made() -> Made:
        return make()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(made())).result()


def functions(client: TestClient) -> dict[int, list[str]]:
    """The types of the controls that each function of the page reads, by the function's number."""
    config = client.get("/config").json()
    types = {component["id"]: component["type"] for component in config["components"]}
    return {each["id"]: [types[control] for control in each["inputs"]] for each in config["dependencies"]}


def call(client: TestClient, index: object, values: object, session: str, route: str = "queue/join") -> str:
    """All that the server says to it."""
    body = {"data": values, "fn_index": index, "session_hash": session}
    answer = client.post(f"{API}/{route}", json=body)
    if answer.status_code != 200 or "queue" not in route:
        return answer.text
    return answer.text + client.get(f"{API}/queue/data", params={"session_hash": session}).text


def named(path: Path | str) -> Iterator[Any]:
    """Values in which Gradio would find a file."""
    file = {"path": str(path), "meta": FILE}
    yield file
    yield {"value": file, "cells": [file]}
    yield [file]
    yield {**file, "url": f"file://{path}", "orig_name": "x.txt", "is_stream": True}
    yield {"path": str(path)}


def routes() -> Iterator[tuple[str, str]]:
    """Every method and path that Gradio knows."""
    app = in_a_loop(lambda: gr.routes.App.create_app(gr.Blocks()))
    yield from _routes(app.routes, "")


def _routes(known: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for route in known:
        if isinstance(route, Mount):
            yield from _routes(route.routes, prefix + route.path)
        elif hasattr(route, "original_router"):  # of newer versions of FastAPI
            yield from _routes(route.original_router.routes, prefix)
        elif isinstance(route, Route):
            for method in sorted(route.methods or ()):
                yield method, prefix + route.path


def filled(path: str, value: str) -> str:
    """A route's path with its parameters set."""
    return re.sub(r"\{[^}]+\}", lambda _: value, path)
