"""Ctrl-C in a real process: a checkpoint, exit code 130, and a line that says how to go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
