"""Two hosts train as one: each a network namespace with an address of its own, torchrun between them."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen

import pytest
import torch

from tests.helpers.host_training import hosts_recipe
from tests.helpers.hosts import Hosts, two_hosts, why_not
from tests.helpers.runs import newest
from tests.helpers.tiny import train_in
from vadd.run.directory import RunDirectory

STEPS = 12
PATIENCE = 240
"""Seconds, for what takes a quarter of a minute on an idle machine."""
REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@contextmanager
def training(
    hosts: Hosts, path: Path, sharding: str = "none", seconds: float = 0, *, restarts: int = 0, wait: float = 60
) -> Iterator[list[Popen[bytes]]]:
    """torchrun on both hosts, their outputs in ``path.0`` and ``path.1``."""
    words = ["tests.helpers.host_training", str(path), str(STEPS), sharding, str(seconds)]
    logs = [path.with_suffix(f".{host}") for host in (0, 1)]
    processes = [hosts.start(host, words, logs[host], restarts=restarts, wait=wait) for host in (0, 1)]
    try:
        yield processes
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.1)


def assert_finished(processes: list[Popen[bytes]], path: Path) -> None:
    for host, process in enumerate(processes):
        assert process.wait(PATIENCE) == 0, path.with_suffix(f".{host}").read_text(encoding="utf-8")[-2000:]


def assert_same(one: Path, two: Path, tolerance: float) -> None:
    first, second = newest(one), newest(two)
    assert first.step == second.step == STEPS
    for name, value in first.model.items():
        torch.testing.assert_close(value, second.model[name], rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two hosts."""
    path = tmp_path_factory.mktemp("hosts") / "undisturbed"
    with two_hosts() as hosts, training(hosts, path) as processes:
        assert_finished(processes, path)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "alone"
    assert train_in(path, hosts_recipe(STEPS)).finished
    return path


def test_two_hosts_train_like_one(undisturbed: Path, alone: Path) -> None:
    """DDP; gradients are summed in another order, nothing else differs."""
    assert_same(undisturbed, alone, 1e-4)


def test_two_hosts_that_shard_the_weights_train_like_one(alone: Path, tmp_path: Path) -> None:
    with two_hosts() as hosts, training(hosts, tmp_path / "run", "full") as processes:
        assert_finished(processes, tmp_path / "run")
    assert_same(tmp_path / "run", alone, 1e-4)


def test_a_cut_link_and_a_killed_process_change_nothing(undisturbed: Path, tmp_path: Path) -> None:
    """The link is cut for five seconds; then the second host's process is killed. torchrun starts all processes again,
    which go on from the newest checkpoint: bit for bit the undisturbed training.
    """
    path = tmp_path / "run"
    with two_hosts() as hosts, training(hosts, path, seconds=0.5, restarts=2, wait=12) as processes:
        wait_until(RunDirectory(path).checkpoints)
        hosts.set_link("down")
        time.sleep(5)
        hosts.set_link("up")
        agent = processes[1].pid
        os.kill(
            int(Path(f"/proc/{agent}/task/{agent}/children").read_text(encoding="ascii").split()[0]), signal.SIGKILL
        )
        assert_finished(processes, path)
    assert_same(path, undisturbed, 0)


def test_a_link_that_does_not_come_back_ends_the_training_with_a_line_on_both_hosts(tmp_path: Path) -> None:
    """Within a minute: VADD_TIMEOUT is 10 seconds. torchrun's own processes wait longer for each other."""
    path = tmp_path / "run"
    with two_hosts() as hosts, training(hosts, path, seconds=0.5, wait=10) as processes:
        wait_until(RunDirectory(path).checkpoints)
        hosts.set_link("down")
        line = "refused: the connection to another process was lost, or it did not answer for 10 seconds"
        logs = [path.with_suffix(f".{host}") for host in range(len(processes))]
        wait_until(lambda: all(line in log.read_text(encoding="utf-8") for log in logs), 60)
        assert not any("[rank" in log.read_text(encoding="utf-8") for log in logs), "a traceback of a training process"
