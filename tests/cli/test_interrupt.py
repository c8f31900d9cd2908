"""Ctrl-C in a real process: a checkpoint, exit code 130, and a line that says how to go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import vadd
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


WORK: dict[str, tuple[str, ...]] = {
    "samples": ("sample", "{run}", "-n", "200000000", "--steps", "2", "--out", "samples.npy"),
    "comparison with the data": ("eval", "{run}", "--steps", "2", "--samples", "20000000"),
}


@pytest.mark.parametrize("work", WORK)
def test_long_work_ends_within_a_second_and_leaves_nothing(work: str, vadd_run: Path, tmp_path: Path) -> None:
    """A second of processor time: the machine may be busy."""
    before = set(tmp_path.iterdir())
    words = [str(vadd_run) if word == "{run}" else word for word in WORK[work]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "vadd", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
        child = psutil.Process(process.pid)
        while not any("/safetensors/" in each.path for each in child.memory_maps()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        begun = child.cpu_times().user
        while child.cpu_times().user < begun + 2.5:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        asked = child.cpu_times().user
        complained = "".join(process.stderr or ())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 130, complained
    assert used.ru_utime - asked < 1.5
    assert "Traceback" not in complained
    assert complained.splitlines()[-1] == "interrupted"
    assert set(tmp_path.iterdir()) == before
