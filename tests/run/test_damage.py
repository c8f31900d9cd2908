"""Checkpoints and folders that are not what they should be: one line that says so, and nothing else changes."""

import copy
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import vadd
from tests.helpers.commands import Command
from tests.helpers.model_runs import ModelRuns
from vadd.errors import UserError
from vadd.files import checksum, write_json
from vadd.parsing import read_json
from vadd.run.directory import EMA, MANIFEST, MODEL, OPTIMIZER, RunDirectory

Change = Callable[[dict[str, Tensor]], None]


def resigned(run: Path, file: str, change: Change) -> Path:
    """The run with its newest checkpoint alone, one file of it changed and signed again."""
    newest = RunDirectory(run).checkpoints()[-1]
    for other in RunDirectory(run).checkpoints()[:-1]:
        shutil.rmtree(other)
    tensors = load_file(newest / file)
    change(tensors)
    save_file(tensors, newest / file)
    manifest = read_json(newest / MANIFEST)
    write_json(newest / MANIFEST, manifest | {"sha256": manifest["sha256"] | {file: checksum(newest / file)}})
    return run


@pytest.fixture
def damaged(vadd_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(vadd_run, tmp_path / "run")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_with_their_name(
    damaged: Path, vadd_command: Command, value: float
) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        next(iter(tensors.values())).view(-1)[0] = value

    name = sorted(load_file(RunDirectory(damaged).checkpoints()[-1] / EMA))[0]
    resigned(damaged, EMA, spoil)
    with pytest.raises(UserError, match="not finite") as refused:
        vadd.load(damaged)
    assert name in str(refused.value) or "not finite" in str(refused.value)
    for arguments in (("sample", damaged), ("eval", damaged), ("export", damaged, damaged.parent / "out")):
        ended = vadd_command(*arguments)
        assert ended.code == 2
        assert "not finite" in ended.err
        assert ended.err.count("\n") == 1
    assert not (damaged.parent / "out").exists()


@pytest.mark.parametrize("file", [MODEL, EMA, OPTIMIZER])
def test_a_training_does_not_go_on_from_them(damaged: Path, vadd_command: Command, file: str) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        max(tensors.values(), key=Tensor.numel).fill_(float("nan"))

    ended = vadd_command("train", "--out", resigned(damaged, file, spoil), "--resume", "training.steps=31")
    assert ended.code == 2
    assert "is damaged" in ended.err.splitlines()[-1]


def larger(tensors: dict[str, Tensor]) -> None:
    name = max(tensors, key=lambda name: tensors[name].numel())
    tensors[name] = torch.zeros(*tensors[name].shape, 2)


def renamed(tensors: dict[str, Tensor]) -> None:
    name = sorted(tensors)[0]
    tensors[f"{name}\x1b[31m\nred"] = tensors.pop(name)


@pytest.mark.parametrize("change", [larger, renamed])
@pytest.mark.parametrize("file", [MODEL, EMA, OPTIMIZER])
def test_a_training_is_not_resumed_with_tensors_that_do_not_fit(
    damaged: Path, vadd_command: Command, file: str, change: Change
) -> None:
    resigned(damaged, file, change)
    before = sorted(path.name for path in damaged.rglob("*"))
    ended = vadd_command("train", "--out", damaged, "--resume", "training.steps=60")
    assert ended.code == 2
    assert "does not fit the recipe" in ended.err
    assert ended.err.count("\n") == 1
    assert "\x1b" not in ended.err
    assert sorted(path.name for path in damaged.rglob("*")) == before


@pytest.mark.parametrize("name", ["step-²", "step-", "step-٣", "step--1", "step-1e3"])
def test_folders_that_only_look_like_checkpoints_are_passed_over(
    damaged: Path, vadd_command: Command, name: str
) -> None:
    (damaged / "checkpoints" / name).mkdir()
    assert vadd.load(damaged).step == 30
    assert vadd_command("status", damaged).code == 0
    assert vadd_command("runs", damaged.parent).code == 0


def test_a_run_can_be_copied_and_pickled(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    expected = run.sample(5, steps=2)
    for other in (copy.deepcopy(run), copy.copy(run), pickle.loads(pickle.dumps(run))):
        assert other.sample(5, steps=2).equal(expected)
        assert other.directory.path == run.directory.path
        with other.directory.lock:  # a lock of its own, on the same file
            assert run.directory.lock.is_held()


@pytest.mark.parametrize("model", ["ar", "sedd", "genmd4", "edlm"])
def test_runs_of_other_models_can_be_pickled(model_runs: ModelRuns, model: str) -> None:
    run = vadd.load(model_runs[model])
    assert pickle.loads(pickle.dumps(run)).sample(3).equal(run.sample(3))


def test_a_device_that_is_not_here_is_refused_in_one_line(vadd_run: Path, tmp_path: Path) -> None:
    assert vadd.load(vadd_run, device="cpu").model.device == torch.device("cpu")
    codes = np.zeros((20, 2), dtype=int)
    devices: list[Any] = ["hpu:3", "cuda:99", "toaster", 7.5]
    for device in devices:
        with pytest.raises(UserError, match="cannot be used here") as refused:
            vadd.load(vadd_run, device=device)
        assert "\n" not in str(refused.value)
        with pytest.raises(UserError, match="cannot be used here"):
            vadd.train(codes, tmp_path / "run", device=device, steps=1)
    assert not (tmp_path / "run").exists()


def test_a_training_on_a_chosen_device(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 3, (40, 2))
    run = vadd.train(codes, tmp_path / "run", device="cpu", steps=1, progress=False)
    assert run.model.device == torch.device("cpu")


def test_lists_are_filled_as_arrays_are(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    rows = [[3, -1], [-1, 2]]
    expected = run.infill(np.array(rows), seed=4)
    assert run.infill(rows, seed=4).equal(expected)
    assert run.infill(torch.tensor(rows), seed=4).equal(expected)
    assert run.infill(torch.tensor(rows).to_sparse(), seed=4).equal(expected)
    marks = [[True, False], [False, True]]
    assert run.infill([[3, 0], [0, 2]], known=marks, seed=4).equal(expected)
    assert run.infill([3, -1], count=2).shape == (2, 2)
    assert run.bound(1, [[3, 1], [0, 2]], particles=2).bounds[1].nats > 0
    for wrong in ([[3, -1], [1]], None, "abc", torch.zeros(1, 2, dtype=torch.int64, device="meta"), [[object(), 1]]):
        with pytest.raises(UserError, match="sequences to fill"):
            run.infill(wrong)


def test_counts_and_paths_of_the_wrong_kind_are_refused(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    for wrong in ("x", 2.5, None, -1, 0):
        with pytest.raises(UserError, match=r"^n (must|takes)"):
            run.sample(wrong)  # type: ignore[arg-type]
    assert run.sample(np.int64(2)).shape == (2, 2)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="memory takes"):
        run.sample(2, memory="x")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="path takes a path, not"):
        vadd.load(None)  # type: ignore[arg-type]


def test_the_package_lists_what_it_offers() -> None:
    assert {"train", "load", "Run", "check", "__version__"} <= set(dir(vadd))


def test_other_names_of_settings_are_answered_with_ours(tmp_path: Path) -> None:
    for name, ours in (("lr", "learning_rate"), ("batch_size", "batch"), ("epochs", "steps")):
        settings: Any = {name: 1}
        with pytest.raises(UserError, match=f"did you mean 'training.{ours}'"):
            vadd.train("checkerboard", tmp_path / "run", **settings)
