"""Models put on the Hugging Face Hub: its own client, and a stand-in for what it talks to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import vadd
from tests.helpers.commands import Command
from tests.helpers.files import contents
from tests.helpers.hub import Stored, local_hub
from vadd.errors import UserError
from vadd.run.export import read_exported

# The client's own way of uploading.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    with local_hub(monkeypatch) as stored:
        yield stored


def test_a_run_is_pushed_as_it_is_exported(hub: Stored, vadd_run: Path, tmp_path: Path) -> None:
    run = vadd.load(vadd_run)
    assert run.push_to_hub("me/checkers", private=True).endswith("/me/checkers")
    folder = run.export(tmp_path / "model")
    assert hub.files["me/checkers"] == {name: (folder / name).read_bytes() for name in contents(folder)}
    assert hub.private["me/checkers"]
    again = tmp_path / "again"
    again.mkdir()
    for name, content in hub.files["me/checkers"].items():
        (again / name).write_bytes(content)
    assert read_exported(again).step == run.step


def test_the_command_pushes_what_it_wrote(hub: Stored, vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    done = vadd_command("export", vadd_run, tmp_path / "new", "--push", "me/other")
    assert done.code == 0
    assert "/me/other" in done.out
    assert hub.files["me/other"].keys() == contents(tmp_path / "new").keys()
    assert not hub.private["me/other"]


def test_what_the_hub_refuses_is_one_line(
    hub: Stored, vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"is called owner/name, not 'checkers'"):
        vadd.load(vadd_run).push_to_hub("checkers")
    misnamed = vadd_command("export", vadd_run, tmp_path / "new", "--push", "checkers")
    assert (misnamed.code, (tmp_path / "new").exists()) == (2, False), "refused before anything is written"
    assert hub.files == {}
    monkeypatch.setenv("HF_TOKEN", "another")
    done = vadd_command("export", vadd_run, tmp_path / "new", "--push", "me/checkers")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "did not take me/checkers" in done.err
    assert "hf auth login" in done.err
    assert hub.files == {}
