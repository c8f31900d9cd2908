"""Faults of the machine and of files: a full disk, devices in the place of files, damaged runs. Every call ends in a
line, and what was there before stays.
"""

import os
import resource
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.attacks import Watched, problem
from tests.helpers.files import contents
from tests.helpers.forks import forked, in_forks

WRITING = (
    "sample points -n 3000 --out new.npy",
    "sample points -n 3000 --out new.csv",
    "sample digits -n 64 --trajectory new.npz --steps 20",
    "sample digits -n 20 --out new.png",
    "sample book -n 200 --out new.jsonl",
    "sample people -n 200 --out new.csv",
    "infill book --text a____ -n 400 --out new.jsonl",
    "infill people --table table/people.csv --out new.csv",
    "latent digits --traverse --out new.png",
    "export points new",
    "train checkerboard training.steps=2 --out new",
    "fit-prior points --steps 1",
    "compare points --bound none --steps 1 --samples 20 --out new",
)


@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk(arena: Path, command: str, size: int) -> None:
    watched = Watched(arena)
    ended = forked(*command.split(), limits={resource.RLIMIT_FSIZE: size})
    assert problem(ended) is None
    assert ended.code == 2
    assert not [path for path in arena.rglob("*") if "partial" in path.name]
    watched.check()


@pytest.fixture(params=["device", "pipe", "socket", "link to a device"])
def special(request: pytest.FixtureRequest, arena: Path) -> Iterator[Path]:
    """Something in the place of a file to write."""
    path = arena / "special.json"
    with socket.socket(socket.AF_UNIX) as listening:
        if request.param == "device":
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            except PermissionError:
                pytest.skip("only root makes devices")
        elif request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "socket":
            listening.bind("special.json")
        else:
            path.symlink_to("/dev/null")
        yield path
        path.unlink()


@pytest.mark.parametrize(
    "command",
    [
        "status points --json",
        "eval points --steps 1 --samples 20 --json",
        "plan checkerboard --json",
        "judge book.txt --json",
    ],
)
def test_only_files_are_replaced(special: Path, command: str) -> None:
    kind = stat.S_IFMT(special.lstat().st_mode)
    ended = forked(*command.split(), special.name, "--overwrite")
    assert problem(ended) is None
    assert ended.code == 2
    assert stat.S_IFMT(special.lstat().st_mode) == kind


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "deep": lambda path: path.write_text(5_000 * "["),
    "gone": Path.unlink,
    "folder": folder_instead,
    "loop": link_to_itself,
}
DAMAGED = (
    "recipe.yaml",
    "data.json",
    "metrics.jsonl",
    "checkpoints/step-00000030/checkpoint.json",
    "checkpoints/step-00000030/ema.safetensors",
)


@pytest.fixture
def broken(arena: Path) -> Iterator[Path]:
    """A copy of a run, to be damaged."""
    yield Path(shutil.copytree("points", "broken"))
    shutil.rmtree("broken")
    shutil.rmtree("new", ignore_errors=True)


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_runs(broken: Path, damage: str, name: str) -> None:
    DAMAGE[damage](broken / name)
    before = contents(broken)
    commands = ("status broken", "sample broken -n 2", "runs .")
    ends = in_forks([command.split() for command in commands])
    wrong = {command: problem(ended) for command, ended in zip(commands, ends, strict=True)}
    assert {command: found for command, found in wrong.items() if found is not None} == {}
    assert contents(broken) == before


@pytest.mark.parametrize("name", ["step-²", "step-", "step--1", "step-x", "step-" + 200 * "9", "step-00000099"])
def test_folders_that_are_no_checkpoints(broken: Path, name: str) -> None:
    (broken / "checkpoints" / name).mkdir()
    commands = ("status broken", "sample broken -n 2", "runs .", "sample broken -n 2 --checkpoint best")
    ends = in_forks([command.split() for command in commands])
    assert [problem(ended) for ended in ends] == [None] * len(commands)
