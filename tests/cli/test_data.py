"""``vadd data``: the list, and the data sets it fetches."""

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.helpers.files import write_all
from tests.helpers.fixtures import official_data
from tests.helpers.published import cifar10_batches, in_folder, mnist_files, tar_of, zip_of
from tests.helpers.server import serve
from vadd.cli import app
from vadd.cli.data import KNOWN
from vadd.data import cifar10, mnist
from vadd.data.text import named_corpora as text8
from vadd.errors import UserError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def said(*arguments: object) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout.splitlines()


def refusal(*arguments: object) -> str:
    error = run(*arguments).exception
    assert isinstance(error, UserError)
    assert "\n" not in str(error)
    return str(error)


def line_of(name: str) -> str:
    (line,) = (line for line in said() if line.split()[0] == name)
    return line


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory. The name has brackets, which must not be taken for markup."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "data [red]"))
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:1/",))
    monkeypatch.setattr(cifar10, "MIRRORS", ("http://127.0.0.1:1/",))
    monkeypatch.setattr(text8, "MIRRORS", ("http://127.0.0.1:1/",))
    return tmp_path / "data [red]"


def test_the_list_has_a_line_for_every_data_set() -> None:
    lines = said()
    assert [line.split()[0] for line in lines] == list(KNOWN)
    assert {"checkerboard", "digits", "mnist", "cifar10"} <= set(KNOWN)
    assert line_of("digits").endswith("built in")
    assert line_of("mnist").endswith("fetch with: vadd data mnist")
    assert line_of("cifar10").endswith("fetch with: vadd data cifar10 (170 MB)")
    assert line_of("pydocs").endswith("built in")
    assert line_of("text8").endswith("fetch with: vadd data text8 (31 MB)")
    assert "from the hub" in line_of("lm1b")
    assert "from the hub" in line_of("openwebtext")


def test_mnist_is_fetched_then_listed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = mnist_files()
    monkeypatch.setattr(mnist, "MD5", {name: hashlib.md5(content).hexdigest() for name, content in files.items()})
    with serve(files) as url:
        monkeypatch.setattr(mnist, "MIRRORS", (url,))
        assert said("mnist") == [f"mnist: in {place / 'mnist'}"]
    assert sorted(file.name for file in (place / "mnist").iterdir()) == sorted(files)
    assert line_of("mnist").endswith(f"present in {place / 'mnist'}")
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:1/",))
    assert said("mnist") == [f"mnist: in {place / 'mnist'}"]


def test_cifar10_is_fetched_to_another_directory(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar_of(in_folder(cifar10_batches()))
    monkeypatch.setattr(cifar10, "BATCH_IMAGES", 4)
    monkeypatch.setattr(cifar10, "MD5", hashlib.md5(archive).hexdigest())
    with serve({cifar10.ARCHIVE: archive}) as url:
        monkeypatch.setattr(cifar10, "MIRRORS", (url,))
        assert said("cifar10", "--dir", tmp_path / "there") == [f"cifar10: in {tmp_path / 'there'}"]
        assert not place.exists()
        said("cifar10")
    assert line_of("cifar10").endswith(f"present in {place / 'cifar10'}")


def test_text8_is_fetched_then_listed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text8, "SIZE", 1100)
    with serve({text8.ARCHIVE: zip_of(b"some words " * 100)}) as url:
        monkeypatch.setattr(text8, "MIRRORS", (url,))
        assert said("text8") == [f"text8: in {place / 'text8' / 'text8'}"]
    assert line_of("text8").endswith(f"present in {place / 'text8'}")


def test_cifar10_that_was_put_there_by_hand_is_listed(place: Path) -> None:
    write_all(place / "cifar10", cifar10_batches())
    assert line_of("cifar10").endswith(f"present in {place / 'cifar10'}")


def test_the_real_mnist_passes_the_check() -> None:
    there = official_data("mnist")
    assert said("mnist", "--dir", there) == [f"mnist: in {there}"]


@pytest.mark.parametrize("name", ["mnist", "cifar10", "text8"])
def test_offline_the_error_says_so_and_nothing_is_left(place: Path, name: str) -> None:
    message = refusal(name)
    assert message.startswith("could not fetch ")
    assert "127.0.0.1:1: Connection refused" in message
    assert f"put the file into {place / name} yourself" in message
    assert [file for file in place.rglob("*") if file.is_file()] == []


def test_what_needs_no_download_says_so(tmp_path: Path) -> None:
    assert said("digits") == ["digits: built in; nothing to fetch"]
    assert "where to put a download" in refusal("digits", "--dir", tmp_path)


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    assert refusal("imagenet").startswith("there is no data set 'imagenet'; known are checkerboard, ")
    assert "where to put a download" in refusal("--dir", tmp_path)
