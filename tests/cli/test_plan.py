"""``vadd plan``."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.tiny import TINY


def test_a_plan_is_shown_and_written(vadd_command: Command, tmp_path: Path) -> None:
    done = vadd_command(
        "plan", "checkerboard", *TINY, "model=mdlm", "network.denoiser.latent_frequencies=[]", "--flops", "1e9",
        "--json", tmp_path / "plan.json",
    )  # fmt: skip
    assert done.code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    weights = 2 * 9 * 16 + (16 * 16 + 16) + (16 * 16 + 16)  # two tables, a hidden layer, a head of 2 x 8
    assert plan["parameters"] == {"denoiser": weights, "recognition": 0, "trained": weights}
    assert plan["rate"] == 1e9
    assert (plan["shape"], plan["values"]) == ([2], 8)
    memory = plan["memory"][0]  # weights, their average, two moments, and the gradients there are at the worst moment
    assert memory["total"] == 16 * weights + memory["gradients"] + memory["activations"]
    assert 0 <= memory["gradients"] <= 4 * weights
    assert "activations, an estimate" in done.out
    assert f"{weights:,}" in done.out
    assert f"{plan['flops_per_step']:.3e}" in done.out
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.json"]


def test_several_devices_are_shown_with_and_without_sharding(vadd_command: Command) -> None:
    done = vadd_command("plan", "checkerboard", *TINY, "--devices", 2, "--flops", 1e9)
    assert done.code == 0
    assert "float32, DDP" in done.out
    assert "bfloat16, full sharding" in done.out
    assert "s, at 2 devices x 1e+09 FLOP/s (as given)" in done.out


def test_the_time_on_other_devices_needs_their_rate(vadd_command: Command, tmp_path: Path) -> None:
    done = vadd_command("plan", "checkerboard", *TINY, "--devices", 8, "--json", tmp_path / "plan.json")
    assert done.code == 0, done.err
    assert done.out.endswith("time on 8 devices: add --flops RATE, what one of them reaches, like 50e12\n")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["rate"], plan["hours"]) == (None, None)
    assert "--flops RATE" in vadd_command("plan", "checkerboard", *TINY).out


def test_data_that_is_not_here_need_not_be(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path))
    done = vadd_command("plan", "mnist", "network.blocks=1", "--flops", 1e9)
    assert done.code == 0
    assert "mnist vadd: examples of 32 x 32 x 1 with 2 values, 200,000 steps of batch 256" in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("chekerboard",), "did you mean 'checkerboard'"),
        (("checkerboard", "training.stepz=1"), "did you mean 'training.steps'"),
        (("checkerboard", "--devices", 0), "at least 1, not 0"),
        (("checkerboard", "--devices", 3), "divisible by 3 processes"),
        (("checkerboard", "--flops", -1), "positive number"),
        (("checkerboard", "--json", "no/plan.json"), "there is no directory no"),
        (("gone.yaml",), "without the data the shape"),
    ],
)
def test_bad_input_is_one_line(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gone.yaml").write_text("data: {kind: array, path: gone.npy}\n")
    ended = vadd_command("plan", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert told in ended.err
