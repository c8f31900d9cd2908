"""Hostile visitors: files of this machine, bodies without an end, headers and values that make no sense."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.helpers.studio_calls import API, FILE, call, filled, functions, named, routes
from vadd.studio.gate import LARGEST_JSON

pytestmark = pytest.mark.filterwarnings("ignore")  # of Gradio: loops and sockets that stay open, old pandas
SECRET = "the-secret-of-another-user"


FITTING: dict[str, Any] = {
    "number": [None, 0, 1, 7, -3, 2.5, 10**9, 2**53],
    "slider": [1, 2, 3, 0, -1, 0.5, 10**6, 2**53],
    "textbox": ["", "the ____ sat", "1 2 -1", "a,b\n1,", "____", "\n", "x" * 3000],
    "dropdown": [None, "", "digits", "parallel", "ancestral", "uniform", "fixed", "nothing"],
    "radio": [None, "first", "second", "vadd", "nothing"],
    "checkboxgroup": [[], ["digits-vadd"], ["script"], ["vadd"], ["digits-mdlm"], ["1"], ["nothing"], ["vadd"] * 4],
    "html": [None, {}, {"cells": [-1] * 64}, {"cells": [1] * 64}, {"cells": [-1] * 63}, {"cells": [-1, 10**18] * 32}],
    "file": [None],
    "state": [None],
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.txt"
    file.write_text(f"{SECRET}\n" * 20)
    return file


@pytest.fixture(params=["visitor", "token_holder"])
def attacker(request: pytest.FixtureRequest) -> TestClient:
    client: TestClient = request.getfixturevalue(request.param)
    return client


def fetched(client: TestClient, text: str) -> str:
    """The text, and the content of every file that it names."""
    paths = {part for part in text.replace('"', " ").replace("'", " ").split() if part.startswith("/")}
    return text + "".join(client.get(f"{API}/file={path}").text for path in sorted(paths))


def test_no_function_copies_or_reads_a_foreign_file(
    attacker: TestClient, visitor: TestClient, secret: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = 0
    for index, controls in functions(attacker).items():
        for place, number in itertools.product(range(len(controls)), range(5 if attacker is visitor else 1)):
            values = [FITTING[control][0] for control in controls]
            values[place] = list(named(secret))[number]
            others = () if place else ("run/predict", "run/predict/", "api/predict", "call/predict", "call/v2/predict")
            for route in ("queue/join", *others):
                said = call(attacker, index, values, f"s{index}x{place}x{number}", route)
                assert SECRET not in fetched(attacker, said), (index, place, values)
                calls += 1
    assert calls > 150
    assert capfd.readouterr() == ("", "")


def test_no_route_hands_out_a_foreign_file(
    attacker: TestClient, secret: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = [str(secret), f"file://{secret}", "../" * 12 + str(secret)[1:], str(secret).replace("/", "%2F")]
    known = sorted(set(routes()))
    assert ("GET", f"{API}/file={{path_or_url:path}}") in known
    for method, path in known:
        for name in names:
            address = filled(path, name)
            body = None if method in ("GET", "HEAD") else {"data": [{"path": name, "meta": FILE}], "path": name}
            answer = attacker.request(method, address, json=body, params={"session_hash": "a", "path": name})
            assert SECRET not in answer.text, (method, address)
            assert answer.status_code < 500, (method, address)
    assert capfd.readouterr() == ("", "")


def test_files_that_were_uploaded_are_taken_and_no_others(visitor: TestClient, secret: Path) -> None:
    uploaded = visitor.post(f"{API}/upload", files={"files": ("mine.txt", b"mine " * 200)}).json()[0]
    assert "mine" in visitor.get(f"{API}/file={uploaded}").text
    upload = next(index for index, controls in functions(visitor).items() if "file" in controls)
    controls = functions(visitor)[upload]
    values: dict[str, Any] = {"number": 1, "textbox": "", "dropdown": "digits", "radio": "vadd"}

    def planned(path: str) -> str:
        given = [{"path": path, "meta": FILE} if each == "file" else values[each] for each in controls]
        return call(visitor, upload, given, "plans")

    assert "steps of batch" in planned(uploaded)
    link = Path(uploaded).with_name("link.txt")
    link.symlink_to(secret)
    for path in (str(link), str(secret), f"{Path(uploaded).parent}/../{Path(uploaded).parent.name}/link.txt", ""):
        assert "was not uploaded" in planned(path)
        assert SECRET not in visitor.get(f"{API}/file={path}").text


def test_without_the_token_nothing_is_answered(token_holder: TestClient, secret: Path) -> None:
    stranger = TestClient(token_holder.app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False)
    for method, path in sorted(set(routes())):
        answer = stranger.request(method, filled(path, str(secret)))
        assert answer.status_code in (401, 404), (method, path)
        assert SECRET not in answer.text


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 2**20):
        yield b" " * 2**20


@pytest.mark.parametrize("path", [f"{API}/queue/join", f"{API}/run/predict", f"{API}/cancel", "/live/latent"])
def test_a_body_without_a_length_has_a_limit(visitor: TestClient, path: str) -> None:
    answer = visitor.post(path, content=chunks(LARGEST_JSON + 2**21))
    assert (answer.status_code, answer.text) == (413, "this is more than the studio takes")


def test_an_upload_without_a_length_has_a_limit(visitor: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    small = visitor.post(f"{API}/upload", content=iter([head, b"hello", b"\r\n--x--\r\n"]), headers=kind)
    assert Path(small.json()[0]).read_bytes() == b"hello"
    # TestClient gathers a body before it is sent: 210 MB are enough.
    large = visitor.post(f"{API}/upload", content=iter([head, *chunks(210 * 2**20), b"\r\n--x--\r\n"]), headers=kind)
    assert large.status_code == 413


def one_line(answer: Any) -> bool:
    return answer.status_code == 400 and 0 < len(answer.text.splitlines()) <= 1 and len(answer.text) < 200


@pytest.mark.parametrize("header", ["host", "origin"])
@pytest.mark.parametrize("value", ["[::1", "http://[::1", "[", "a]b[c"])
def test_headers_that_cannot_be_read(
    visitor: TestClient, header: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = visitor.get("/", headers={header: value})
    assert one_line(answer) or answer.status_code == 403
    assert visitor.get("/", headers={"host": "[::1"}).status_code == 400
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [None, "", "\\", "/", "..", "."])
def test_file_names_that_name_nothing(visitor: TestClient, name: str | None, capfd: pytest.CaptureFixture[str]) -> None:
    named = "" if name is None else f'; filename="{name}"'
    head = f'--x\r\nContent-Disposition: form-data; name="files"{named}\r\n\r\nhello\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = visitor.post(f"{API}/upload", content=head.encode(), headers=kind)
    assert one_line(answer) or answer.status_code == 200
    assert capfd.readouterr() == ("", "")


def test_an_upload_that_cannot_be_read_is_not_logged(visitor: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert visitor.post(f"{API}/upload", content=b"  broken", headers=kind).status_code == 400
    assert not [record for record in caplog.records if record.name.startswith("python_multipart")]


PLACE = {"run": "digits-vadd", "example": 1, "steps": 1, "temperature": 0, "values": [0.0]}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1e308", "-1e308", '"\\ud800"', "[[", "{}"])
@pytest.mark.parametrize("key", ["values", "temperature", "example", "run"])
def test_numbers_that_are_no_place_of_the_sliders(
    visitor: TestClient, key: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps(PLACE | {key: "HERE"}).replace('"HERE"', f"[{value}]" if key == "values" else value)
    assert one_line(visitor.post("/live/latent", content=body))
    assert capfd.readouterr() == ("", "")


def wrong_value(chance: random.Random, secret: Path, depth: int = 0) -> Any:
    plain: list[Any] = [
        None, True, False, 0, 1, -1, 3, 0.5, 10**6, 10**30, -(10**30), 1e308, -1e308, 2**53, "", "x" * 5000, "0",
        "digits-vadd", "digits", "vadd", "mdlm", "../" * 9 + "etc/passwd", str(secret), "\x00", "<script>", "first",
        "\u2028\u202e", [], {}, [[]], ["digits-vadd"], ["digits-vadd", "script", "vadd"], ["nothing"] * 3, ["1", "2"],
        {"cells": [-1] * 64}, {"cells": [10**40] * 64}, {"cells": "x"}, {"shown": ""}, *named(secret),
    ]  # fmt: skip
    if depth < 3 and chance.random() < 0.15:
        inner = [wrong_value(chance, secret, depth + 1) for _ in range(chance.randint(0, 4))]
        return (
            inner if chance.random() < 0.5 else {chance.choice(["path", "meta", "value", "a"]): each for each in inner}
        )
    return chance.choice(plain)


def test_functions_called_with_anything_answer_or_refuse(
    visitor: TestClient, secret: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong types and foreign paths in any place, and now and then values of the right type that make no sense."""
    monkeypatch.setattr("vadd.studio.trainings.Trainings._run", lambda *given: None)  # no training is started
    monkeypatch.setattr("vadd.studio.compare.compare", lambda *given, **more: None)  # nor is anything compared
    chance = random.Random(0)
    known = {index: controls for index, controls in functions(visitor).items() if controls}
    for number in range(600):
        index: Any = chance.choice(list(known))
        values: Any = [chance.choice(FITTING[control]) for control in known[index]]
        if number % 8:
            for place in chance.sample(range(len(values)), chance.randint(1, len(values))):
                values[place] = wrong_value(chance, secret)
        if number % 16 == 1:
            index = chance.choice([-1, 10**9, None, "0", 1.0, True, [0]])
        if number % 16 == 2:
            values = chance.choice([None, {}, values[:-1], [*values, None], "x"])
        said = call(visitor, index, values, f"f{number}", "run/predict" if number % 4 == 3 else "queue/join")
        assert SECRET not in fetched(visitor, said), (index, values)
        assert "Traceback" not in said
        errors = capfd.readouterr().err
        assert not errors, (index, values, errors[-3000:])
