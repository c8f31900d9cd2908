"""Downloads from a server on this machine: the file is whole and right, or it is not there and the reason is told."""

import hashlib
import socket
from pathlib import Path

import pytest

from tests.helpers.progress import Told
from tests.helpers.server import serve
from vadd.data.download import CHUNK, data_directory, download
from vadd.errors import UserError
from vadd.files import whole_file

CONTENT = bytes(range(256)) * (CHUNK // 100)
"""More than one chunk."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def closed_port() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}/"


def refusal(urls: list[str], target: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        download(urls, target, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names_in(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


@pytest.mark.parametrize("name", ["sized", "unsized"])
def test_a_file_arrives_whole_with_its_progress(tmp_path: Path, name: str) -> None:
    told = Told()
    target = tmp_path / "new" / "folder" / "file.bin"
    with serve({name: CONTENT}) as url:
        back = download([url + name], target, md5=md5(CONTENT), progress=told)
    assert back == target
    assert target.read_bytes() == CONTENT
    assert names_in(target.parent) == ["file.bin"]
    total = len(CONTENT) if name == "sized" else None
    assert told[0] == ("file.bin", 0, total)
    assert told[-1] == ("file.bin", len(CONTENT), total)
    done = [count for _, count, _ in told]
    assert len(done) > 2
    assert done == sorted(done)


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    with serve({"empty": b""}) as url:
        assert download([url + "empty"], tmp_path / "e", md5=md5(b"")).read_bytes() == b""


def test_mirrors_are_tried_in_order_until_one_delivers(tmp_path: Path) -> None:
    files = {"wrong": b"captive portal", "cut": CONTENT, "right": CONTENT, "never": b"not reached"}
    with serve(files) as url:
        urls = [closed_port() + "right", url + "missing", url + "wrong", url + "cut", url + "right", url + "never"]
        download(urls, tmp_path / "file.bin", md5=md5(CONTENT))
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["file.bin"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "HTTP Error 404: Not Found"),
        ("wrong", f"sent a file with md5 {md5(b'other')}, not {md5(CONTENT)}"),
        ("cut", f"the connection ended after {len(CONTENT) // 2} of {len(CONTENT)} bytes"),
        ("slow", "timed out"),
    ],
)
def test_a_mirror_that_fails_leaves_nothing_and_is_named_with_the_reason(tmp_path: Path, name: str, told: str) -> None:
    with serve({"wrong": b"other", "cut": CONTENT, "slow": CONTENT}) as url:
        message = refusal([url + name], tmp_path / "file.bin", md5=md5(CONTENT), timeout=0.1)
        assert f"could not fetch file.bin (127.0.0.1:{url.rstrip('/').rpartition(':')[2]}: " in message
    assert told in message
    assert names_in(tmp_path) == []


def test_without_a_checksum_a_cut_file_is_still_noticed(tmp_path: Path) -> None:
    with serve({"cut": CONTENT}) as url:
        assert "the connection ended" in refusal([url + "cut"], tmp_path / "file.bin")
    assert names_in(tmp_path) == []


def test_offline_every_mirror_is_named_and_the_user_told_what_to_do(tmp_path: Path) -> None:
    first, second = closed_port(), closed_port()
    message = refusal([first + "a", second + "a"], tmp_path / "file.bin")
    assert message.count("Connection refused") == 2
    assert first.removeprefix("http://").rstrip("/") in message
    assert f"put the file into {tmp_path} yourself" in message
    assert names_in(tmp_path) == []


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    target.write_bytes(CONTENT)
    assert download([closed_port() + "a"], target, md5=md5(CONTENT)) == target
    assert download([closed_port() + "a"], target) == target


def test_a_file_with_other_content_is_refused_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    target.write_bytes(b"mine")
    with serve({"a": CONTENT}) as url:
        message = refusal([url + "a"], target, md5=md5(CONTENT))
    assert f"{target} is not the official file" in message
    assert target.read_bytes() == b"mine"


def test_a_directory_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file.bin").mkdir()
    assert "cannot read" in refusal(["http://127.0.0.1/"], tmp_path / "file.bin", md5="0")


def test_a_place_that_cannot_be_written_is_told_and_no_fault_of_the_mirror(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with serve({"a": CONTENT}) as url:
        message = refusal([url + "a"], tmp_path / "file" / "a")
    assert message.startswith(f"cannot write {tmp_path / 'file' / 'a'}: ")


def test_stopped_in_the_middle_nothing_is_left(tmp_path: Path) -> None:
    def stop(what: str, done: int = 0, total: int | None = None) -> None:
        if done:
            assert len(names_in(tmp_path)) == 1
            assert names_in(tmp_path) != ["file.bin"]
            raise KeyboardInterrupt

    with serve({"a": CONTENT}) as url, pytest.raises(KeyboardInterrupt):
        download([url + "a"], tmp_path / "file.bin", progress=stop)
    assert names_in(tmp_path) == []


def test_a_whole_file_replaces_what_was_there_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def stop_half() -> None:
        with whole_file(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half()
    assert target.read_bytes() == b"old"
    with whole_file(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"VADD_DATA": "/data", "XDG_CACHE_HOME": "/cache"}, "/data/mnist"),
        ({"VADD_DATA": "~/data"}, "/home/me/data/mnist"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/vadd/mnist"),
        ({"VADD_DATA": "", "XDG_CACHE_HOME": ""}, "/home/me/.cache/vadd/mnist"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/vadd/mnist"),
        ({}, "/home/me/.cache/vadd/mnist"),
    ],
)
def test_data_sets_live_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: str
) -> None:
    for name in ("VADD_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert data_directory("mnist") == Path(place)
