"""Where output goes: files that may be replaced and others, pipes that close, messages and tables of limited width."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from vadd.errors import UserError
from vadd.files import whole_path, write_json

HUGE = "9" * 400


def identity(path: Path) -> tuple[int, int]:
    entry = os.lstat(path)
    return entry.st_ino, entry.st_mode


@pytest.fixture(params=["pipe", "socket", "link to a device"])
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = Path("special.json")
    if request.param == "pipe":
        os.mkfifo(file)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(file))
    else:
        file.symlink_to("/dev/null")
    return file


def test_overwrite_replaces_no_pipe_socket_or_device(special: Path, vadd_command: Command, vadd_run: Path) -> None:
    before = identity(special)
    commands: list[tuple[object, ...]] = [
        ("status", vadd_run, "--json", special),
        ("eval", vadd_run, "--steps", "1", "--samples", 20, "--json", special),
        ("plan", "checkerboard", "--flops", "1e9", "--json", special),
        ("zoo", "--json", special),
    ]
    for command in commands:
        refused = vadd_command(*command, "--overwrite")
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == "error: special.json is a device, a pipe or a socket; name a file to write\n"
    for suffix in (".npy", ".csv"):
        special.rename(Path(f"special{suffix}"))
        refused = vadd_command("sample", vadd_run, "-n", 3, "--out", f"special{suffix}", "--overwrite")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        Path(f"special{suffix}").rename(special)
    assert identity(special) == before


def test_python_replaces_none_of_them_either(special: Path) -> None:
    before = identity(special)
    with pytest.raises(UserError, match="device, a pipe or a socket"):
        write_json(special, {})
    with pytest.raises(UserError, match="device, a pipe or a socket"), whole_path(special):
        pytest.fail("nothing may be written")
    assert identity(special) == before


def test_a_reader_that_stops_reading_ends_the_command_by_its_signal(vadd_run: Path) -> None:
    """As every other program in a pipe ends; silently."""
    command = [sys.executable, "-m", "vadd", "sample", str(vadd_run), "-n", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == -signal.SIGPIPE
    assert said == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("infill", "{run}", "--keep", "x" * 5000, "--image", "none.png"),
        ("infill", "{run}", "--text", "x" * 5000),
        ("sample", "{run}", "--steps", "x" * 5000),
        ("sample", "{run}", "--sampler", "x" * 5000),
        ("sample", "{run}", "--label", "x" * 5000),
        ("sample", "{run}", "--checkpoint", "x" * 5000),
        ("sample", "{run}", "--memory", HUGE),
        ("sample", "{run}", "--where", "x" * 5000),
        ("eval", "{run}", "--steps", "x" * 5000),
        ("eval", "{run}", "--bound", "1", "--proposals", "x" * 5000),
        ("train", "x" * 200),
        ("train", "checkerboard", "x" * 5000),
        ("train", "checkerboard", "x" * 5000 + "=1"),
        ("train", "checkerboard", "training.steps=" + "x" * 5000),
        ("zoo", "x" * 5000),
        ("data", "x" * 5000),
        ("reproduce", "paper", "--only", "x" * 5000),
        ("x" * 5000,),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:40],
)
def test_messages_repeat_little_of_a_value(
    vadd_command: Command, vadd_run: Path, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = vadd_command(*(vadd_run if each == "{run}" else each for each in arguments))
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), refused.err[:300]
    assert "x" * 100 not in refused.err
    assert "9" * 100 not in refused.err
    assert len(refused.err) < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sample", "{vadd}", "-n", 2, "--memory", HUGE), "--memory takes a size"),
        (("sample", "{vadd}", "-n", 10**23), "n must be at most"),
        (("infill", "{book}", "--text", "the ____ cat", "-n", 10**23), "do not fit into memory"),
        (("infill", "{book}", "--text", "the ____ cat", "-n", 10**12), "do not fit into memory"),
        (("infill", "{book}", "--text", "the ____ cat", "--gap", 10**23), "a gap takes 1 to 24 tokens"),
        (("infill", "{book}", "--prefix", "the", "--length", 10**23), "too much"),
        (
            ("infill", "{book}", "--text", "the ____ cat", "--latent-policy", "fixed", "--candidates", 10**12),
            "candidates must be at most",
        ),
        (("eval", "{vadd}", "--bound", 1, "--particles", 10**9), "at most 1,048,576"),
        (("eval", "{vadd}", "--bound", 1, "--particles", 10**23), "at most 1,048,576"),
    ],
    ids=str,
)
def test_numbers_without_bounds_are_refused_at_once(
    vadd_command: Command, vadd_run: Path, book_run: Path, arguments: tuple[object, ...], message: str
) -> None:
    runs = {"{vadd}": vadd_run, "{book}": book_run}
    refused = vadd_command(*(runs.get(str(each), each) for each in arguments))
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), refused.err[-300:]
    assert message in refused.err


def test_a_table_of_bounds_is_a_table_on_80_columns(
    vadd_command: Command, vadd_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vadd.cli.measure.out_console.width", 80)
    few = ("--bound", "1,2,16", "--particles", 2, "--limit", 5, "--delbo")
    done = vadd_command("eval", vadd_run, *few)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("Likelihood of held-out examples")
    assert lines[1].startswith("┏")


def test_a_fresh_folder_says_what_to_type(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = vadd_command("runs")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("no runs in runs; ")
    assert "vadd train RECIPE" in done.out
    assert vadd_command("runs", "nowhere").err == "error: there is no directory nowhere\n"
