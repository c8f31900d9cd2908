"""The checkpoints of a run: damaged ones are passed over, the best stays, a full disk costs one and no more."""

import errno
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import vadd
from tests.helpers.children import CONTEXT
from tests.helpers.runs import assert_same_state, log_of, newest, some_state
from tests.helpers.tiny import tiny_recipe, train_in, train_or_resume
from vadd.errors import UserError
from vadd.files import checksum
from vadd.recipe import build_dataset
from vadd.run import checkpoint
from vadd.run.checkpoint import Archive, TrainingState, read_checkpoint
from vadd.run.directory import EMA, MANIFEST, CheckpointName, RunDirectory, step_of
from vadd.training import loop
from vadd.training.loop import train
from vadd.training.metrics import HeldOutResult, evaluate_held_out


def state(step: int, test_loss: float | None = None) -> TrainingState:
    some = some_state(step)
    return TrainingState(step, some.model, some.ema, some.optimizer, test_loss=test_loss)


def steps(archive: Archive) -> list[int]:
    return [step_of(path) for path in archive.directory.checkpoints()]


def damage(run: Path, step: int, name: str = "optimizer") -> None:
    file = RunDirectory(run).checkpoint(step) / f"{name}.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


@pytest.fixture
def copy(vadd_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(vadd_run, tmp_path / "copy")


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    archive = Archive(RunDirectory(tmp_path))
    for step, loss in ((10, 3.0), (20, 1.0), (30, None), (40, 2.0), (50, 1.0)):
        assert archive.save(state(step, loss), keep=2)
    assert steps(archive) == [20, 40, 50]
    best = archive.directory.best()
    assert best is not None
    assert (best.step, best.test_loss) == (20, 1.0)
    assert archive.save(state(60, 0.5), keep=1)
    assert steps(archive) == [60]


def test_improvement_is_measured_against_earlier_checkpoints(tmp_path: Path) -> None:
    archive = Archive(RunDirectory(tmp_path))
    assert archive.improves(10, 9.0)
    archive.save(state(10, 2.0), keep=5)
    archive.save(state(30, 1.0), keep=5)
    assert archive.improves(20, 1.5)
    assert not archive.improves(40, 1.0)


def test_names_are_ordered_by_number(tmp_path: Path) -> None:
    archive = Archive(RunDirectory(tmp_path))
    for step in (999_999_999, 20, 100_000_000):
        archive.save(state(step), keep=5)
    assert steps(archive) == [20, 100_000_000, 999_999_999]


def test_a_training_keeps_its_best_checkpoint_and_it_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, worse = tmp_path / "run", iter((0.0, -9.0, 9.0, 9.0))

    def evaluated(*given: Any, **about: Any) -> HeldOutResult:
        """As it is, and then by so much worse."""
        result = evaluate_held_out(*given, **about)
        return replace(result, objective=replace(result.objective, loss=result.objective.loss + next(worse)))

    monkeypatch.setattr(loop, "evaluate_held_out", evaluated)
    train_in(path, tiny_recipe("training.steps=40", "training.keep_checkpoints=1"))
    directory = RunDirectory(path)
    losses = {line["step"]: line["loss"] for line in directory.metrics() if line["split"] == "test"}
    best = min(losses, key=losses.__getitem__)
    assert best == 20
    assert directory.checkpoints() == [directory.checkpoint(best), directory.checkpoint(40)]
    asked: list[tuple[CheckpointName, int]] = [("best", best), (best, best), ("latest", 40), (40, 40)]
    for which, step in asked:
        weights = read_checkpoint(directory.checkpoint(step)).ema
        loaded = vadd.load(path, checkpoint=which).model.state_dict()
        assert all(bool((loaded[name] == weights[name]).all()) for name in loaded)


def test_a_checkpoint_that_is_not_there_is_told(copy: Path) -> None:
    with pytest.raises(UserError, match=r"no checkpoint 7; take latest, best or one of the steps 20, 30"):
        vadd.load(copy, checkpoint=7)
    for path in RunDirectory(copy).checkpoints():
        manifest = path / MANIFEST
        manifest.write_text(manifest.read_text().replace('"test_loss"', '"another"'))
    with pytest.raises(UserError, match="no checkpoint that was evaluated"):
        vadd.load(copy, checkpoint="best")


def test_a_damaged_newest_checkpoint_is_passed_over_when_resuming(
    copy: Path, vadd_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(copy, 30)
    recipe = tiny_recipe()
    assert train(recipe, RunDirectory(copy), build_dataset(recipe), resume=True).finished
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    (warning,) = [line for line in warnings if not line.startswith("warning: posterior collapse at step")]
    assert "step-00000030 is damaged: optimizer.safetensors" in warning
    assert "taking step-00000020" in warning
    assert_same_state(newest(copy), newest(vadd_run))
    assert log_of(copy) == log_of(vadd_run)


def test_a_damaged_newest_checkpoint_is_passed_over_when_loading(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(copy, 30, "ema")
    loaded = vadd.load(copy).model.state_dict()
    assert "taking step-00000020" in capsys.readouterr().err
    weights = read_checkpoint(RunDirectory(copy).checkpoint(20)).ema
    assert all(bool((loaded[name] == weights[name]).all()) for name in loaded)


@pytest.mark.parametrize("name", ["model", "optimizer"])
def test_loading_does_not_care_for_what_only_training_reads(
    copy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    damage(copy, 30, name)
    assert vadd.load(copy).step == 30
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("which", ["latest", "best", 20])
def test_loading_verifies_the_file_it_reads_and_only_once(
    vadd_run: Path, monkeypatch: pytest.MonkeyPatch, which: CheckpointName
) -> None:
    verified: list[Path] = []

    def counted(file: Path) -> str:
        verified.append(file)
        return checksum(file)

    monkeypatch.setattr(checkpoint, "checksum", counted)
    run = vadd.load(vadd_run, checkpoint=which)
    assert run.step is not None
    assert verified == [run.directory.checkpoint(run.step) / EMA]


def test_rotation_does_not_count_a_damaged_one_from_the_future(copy: Path) -> None:
    archive = Archive(RunDirectory(copy))
    damage(copy, 30)
    archive.save(state(25), keep=2)
    assert steps(archive) == [20, 25, 30]
    found = archive.newest(read_checkpoint)
    assert found is not None
    assert found[1].step == 25


def test_too_little_space_costs_the_checkpoint_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(RunDirectory(tmp_path))
    archive.save(state(10), keep=1)
    with monkeypatch.context() as full:
        needed = sum(tensor.nbytes for part in state(20).files.values() for tensor in part.values())
        full.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed))
        assert not archive.save(state(20), keep=1)
    assert "warning: no checkpoint of step 20: No space left on device" in capsys.readouterr().err
    assert [path.name for path in archive.directory.checkpoints_directory.iterdir()] == ["step-00000010"]
    assert archive.save(state(30), keep=1)
    assert steps(archive) == [30]


@pytest.mark.parametrize("place", ["save_file", "flush_to_disk", "checksum"])
def test_a_disk_that_becomes_full_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    archive = Archive(RunDirectory(tmp_path))
    archive.save(state(10), keep=1)
    undisturbed, calls = getattr(checkpoint, place), []

    def full(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return undisturbed(*arguments)

    monkeypatch.setattr(checkpoint, place, full)
    assert not archive.save(state(20), keep=1)
    assert [path.name for path in archive.directory.checkpoints_directory.iterdir()] == ["step-00000010"]
    assert read_checkpoint(archive.directory.checkpoint(10)).step == 10


def limited_training(path: Path) -> None:
    """No file may grow beyond 20 kB: the kernel refuses in the middle of the optimiser's moments."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        train_or_resume(path, tiny_recipe("training.trackers=[]"))
    except UserError as error:
        assert "the last checkpoint could not be written" in str(error)  # noqa: PT017
    else:
        raise AssertionError


def unlimited_training(path: Path) -> None:
    train_or_resume(path, tiny_recipe("training.trackers=[]"))


def test_a_training_outlives_a_full_disk_and_goes_on_when_there_is_room(vadd_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    sizes = {file.stem: file.stat().st_size for file in RunDirectory(vadd_run).checkpoint(30).iterdir()}
    assert sizes["model"] < 20_000 < sizes["optimizer"]
    for target in (limited_training, unlimited_training):
        process = CONTEXT.Process(target=target, args=(path,))
        process.start()
        process.join(600)
        assert process.exitcode == 0
        assert RunDirectory(path).checkpoints() == [] or target is unlimited_training
    assert_same_state(newest(path), newest(vadd_run))
    assert log_of(path) == log_of(vadd_run)
