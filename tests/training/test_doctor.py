"""``vadd doctor``, and what is refused before a training on devices or with several processes begins."""

import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.accelerator.pretend import NAME, pretend_device
from tests.helpers.children import CONTEXT, command, together
from tests.helpers.commands import Command
from tests.helpers.tiny import tiny_recipe
from vadd import parallel
from vadd.errors import UserError
from vadd.parallel import LONGEST_WAIT, Processes, accelerator_device, check_half_precision, on_main_process
from vadd.recipe import build_dataset
from vadd.run.directory import RunDirectory
from vadd.training import doctor
from vadd.training.loop import train
from vadd.training.start import check_trainable


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the minute that compilers take, and with small matrices."""
    monkeypatch.setattr(doctor, "_compiled", lambda device: "not tried")
    monkeypatch.setattr(doctor, "SIZE", 64)
    monkeypatch.setattr(doctor, "STEPS", 2)


@pytest.mark.usefixtures("quick")
def test_the_command_says_what_is_well_and_what_is_not(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = vadd_command("doctor", "--json", tmp_path / "found.json")
    assert done.code == 0
    assert "cpu: training, transformer, bfloat16" in done.out
    assert all(finding["ok"] for finding in json.loads((tmp_path / "found.json").read_text()))
    monkeypatch.setattr(doctor, "HALF", -1.0)
    wrong = vadd_command("doctor", "--device", "cpu")
    assert wrong.code == 2
    assert wrong.err == "error: 2 problems found, see above\n"
    assert wrong.out.count("PROBLEM") == 2


@pytest.mark.usefixtures("quick")
def test_a_device_is_held_against_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretend_device():
        assert [str(device) for device in doctor.found_devices()] == ["cpu", f"{NAME}:0"]
        compared = [found for found in doctor.examine(NAME) if "training" in found.what]
        assert len(compared) == 4
        assert all(found.ok for found in compared), compared
    # A device that computes something else is found out.
    recipe, device = doctor._recipe(doctor.NETWORKS["perceptron"]), torch.device("cpu")
    expected = doctor._losses(recipe, device)
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, weight, bias=None: x @ (1.5 * weight.T))
    assert not doctor._compared("cpu", recipe, device, expected, doctor.SINGLE).ok


def talk(shared: Path) -> None:
    found = {finding.what: finding for finding in doctor.between_processes(shared)}
    assert all(finding.ok for finding in found.values()), found
    assert "2 on 1 hosts over gloo: the sum is 3" in found["processes"].said
    unshared = shared / str(Processes().index)
    assert not doctor._shared_directory(unshared, Processes()).ok


def disagree() -> None:
    processes = Processes()
    check_trainable(tiny_recipe())
    with pytest.raises(UserError, match="started with different recipes"):
        check_trainable(tiny_recipe(f"training.learning_rate=0.{processes.index + 1}"))


def share_nothing(place: Path) -> None:
    """Each process has a directory of its own by the same name, as on two hosts without a common file system."""
    parallel.LATEST = 0.1
    processes, recipe, directory = Processes(), tiny_recipe(), RunDirectory("run")
    os.chdir(place / str(processes.index))
    on_main_process(partial(directory.create, recipe))
    with pytest.raises(UserError, match="put run on a file system that all hosts share"):
        train(recipe, directory, build_dataset(recipe))
    assert not directory.path.exists()
    shared = place / "recipe.yaml"
    processes.check_shared(shared, "step 8")
    with pytest.raises(UserError, match="different run directories"):
        processes.check_shared(shared, f"step {processes.index}")


def test_processes_talk_and_those_that_disagree_are_refused(tmp_path: Path) -> None:
    together(2, talk, tmp_path)
    together(2, disagree)
    for name in ("0", "1"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "recipe.yaml").touch()
    together(2, share_nothing, tmp_path)


@pytest.mark.parametrize("device", ["cuda:7", "nonsense", "cpu:x"])
def test_a_device_that_does_not_exist_is_refused_in_one_line(vadd_command: Command, device: str) -> None:
    done = vadd_command("doctor", "--device", device)
    assert done.code == 2
    assert done.err.startswith(f"error: the device {device!r} cannot be used here")
    assert done.err.count("\n") == 1


def test_a_device_without_half_precision_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pretend_device():
        device = accelerator_device()
        check_half_precision.cache_clear()
        check_half_precision(device)
        check_half_precision.cache_clear()

        def refuse(*_: Any, **__: Any) -> torch.Tensor:
            raise RuntimeError("BFloat16 is not supported\non this device")

        monkeypatch.setattr(torch, "ones", refuse)
        with pytest.raises(UserError, match=r"has no bfloat16; leave .* out \(BFloat16 is not supported\)$"):
            check_half_precision(device)
    check_half_precision.cache_clear()


def test_a_host_that_never_comes_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    arguments = ("train", "checkerboard", "--out", tmp_path / "run")
    child = CONTEXT.Process(target=command, args=(arguments, tmp_path / "said", {}, place | {"VADD_TIMEOUT": "1"}))
    child.start()
    child.join(300)
    said = (tmp_path / "said").read_text()
    assert child.exitcode == 2, said
    assert f"error: not all of 2 processes came to 127.0.0.1:{port} within 1 seconds (VADD_TIMEOUT)" in said
    assert "Traceback" not in said


def test_the_patience_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VADD_TIMEOUT", raising=False)
    assert parallel.longest_wait() == LONGEST_WAIT
    for wrong in ("", "soon", "-1", "nan", "inf"):
        monkeypatch.setenv("VADD_TIMEOUT", wrong)
        with pytest.raises(UserError, match="VADD_TIMEOUT is a number of seconds"):
            parallel.longest_wait()
