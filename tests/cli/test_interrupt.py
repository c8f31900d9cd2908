"""Ctrl-C in a real process: a checkpoint, exit code 130, and a line that says how to go on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

import vadd
from tests.helpers.children import CONTEXT, command
from tests.helpers.commands import Command
from tests.helpers.tiny import TINY
from vadd.run.checkpoint import read_checkpoint
from vadd.run.directory import RunDirectory


def wait_for(file: Path, process: "subprocess.Popen[str]", seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.05)


def test_a_stopped_training_is_saved_and_goes_on(tmp_path: Path, vadd_command: Command) -> None:
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "vadd",
        "train",
        "checkerboard",
        *TINY,
        "training.steps=1000000",
        "--out",
        str(out),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as process:
        wait_for(out / "metrics.jsonl", process)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == ""
    last = complained.splitlines()[-1]
    assert "saved" in last
    assert f"vadd train --out {out} --resume" in last
    directory = RunDirectory(out)
    stopped_at = read_checkpoint(directory.checkpoints()[-1]).step
    assert f"stopped after {stopped_at} steps" in last
    assert vadd.load(out).sample(3).shape == (3, 2)
    assert vadd_command("train", "--out", out, "--resume", f"training.steps={stopped_at + 10}").code == 0
    assert read_checkpoint(directory.checkpoints()[-1]).step == stopped_at + 10
    places = [(record["step"], record["split"]) for record in directory.metrics()]
    assert len(places) == len(set(places))
    assert [step for step, split in places if split == "train" and step <= stopped_at] == list(
        range(5, stopped_at + 1, 5)
    )


WORK: dict[str, tuple[object, ...]] = {
    "samples": ("sample", "run", "-n", 200_000_000, "--steps", 2, "--out", "samples.npy"),
    "comparison with the data": ("eval", "run", "--steps", 2, "--samples", 20_000_000),
    "bounds": ("eval", "run", "--steps", 1, "--samples", 100, "--bound", 100, "--particles", 100_000),
    "prior": ("fit-prior", "run", "--steps", 1_000_000),
    "array": ("train", "--data", "large.npy"),
    "text": ("train", "--data", "large.txt"),
    "tokenizer": ("train", "--data", "large.txt", "data.tokenizer=bpe"),  # one call of a library for all of the text
    "images": ("train", "--data", "images"),
}
SECONDS = 1.5
"""Of the processor, until the work is under way."""


@pytest.fixture
def place(vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a run and data that take long to read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "cache"))
    shutil.copytree(vadd_run, "run")
    np.lib.format.open_memmap("large.npy", "w+", np.uint8, (3_000_000, 1000))
    words = np.random.default_rng(0).integers(97, 123, (100_000, 9)).astype(np.uint8)
    words[:, -1] = 32
    with Path("large.txt").open("wb") as file:
        for _ in range(60):
            file.write(words.tobytes() + b"\n")
    Path("images").mkdir()
    Image.fromarray(np.zeros((1500, 1500, 3), np.uint8)).save("images/0.png")
    for number in range(1, 2000):
        os.link("images/0.png", f"images/{number}.png")
    return tmp_path


@pytest.mark.parametrize("work", WORK)
def test_long_work_ends_within_a_second_and_leaves_nothing(work: str, place: Path) -> None:
    """A second of processor time: the machine may be busy."""
    before = {path.name for path in place.iterdir()} | {"cache", "said", "runs"}
    child = CONTEXT.Process(target=command, args=(WORK[work], place / "said", {}))
    child.start()
    measured = psutil.Process(child.pid)
    while not (place / "said").exists():  # once everything is imported
        time.sleep(0.02)
    begun = sum(measured.cpu_times()[:2])
    while sum(measured.cpu_times()[:2]) < begun + SECONDS:
        assert child.is_alive(), (place / "said").read_text()
        time.sleep(0.02)
    os.kill(child.pid or 0, signal.SIGINT)
    asked = used = measured.cpu_times().user
    with suppress(psutil.NoSuchProcess):
        while child.is_alive():
            used = measured.cpu_times().user
            time.sleep(0.01)
    child.join()
    said = (place / "said").read_text()
    assert child.exitcode == 130, said
    assert used - asked < 1
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last == "interrupted" or (work == "prior" and "saved; run the same command again to go on" in last)
    assert {path.name for path in place.iterdir()} <= before
    assert not [*place.glob("run/**/.*"), *place.glob("runs/*")]


def test_the_first_moment_of_a_command_can_be_interrupted(tmp_path: Path) -> None:
    code = "import sys; sys.modules['vadd.cli'] = None; import vadd.__main__ as m; m.run()"
    code = code.replace("None", "type('Late', (), {'__getattr__': lambda self, name: signal.raise_signal(2)})()")
    ended = subprocess.run([sys.executable, "-c", f"import signal; {code}"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
