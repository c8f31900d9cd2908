"""Killed without warning, anywhere and often, and resumed: the same weights bit for bit, every line of metrics once."""

import multiprocessing
import random
import shutil
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from tests.helpers.children import CONTEXT, dying_training, reporting_training
from tests.helpers.runs import assert_same_state, log_of, newest
from tests.helpers.tiny import tiny_recipe, train_in, train_or_resume
from vadd.errors import UserError
from vadd.recipe import Recipe, build_dataset
from vadd.run.directory import RunDirectory
from vadd.training.events import Callbacks, StepEvent
from vadd.training.loop import train

LONG, SHORT = 66, 20


def recipe(steps: int) -> Recipe:
    """Lines, evaluations and checkpoints at steps that rarely meet."""
    return tiny_recipe(
        f"training.steps={steps}",
        "training.log_every=4",
        "training.evaluate_every=9",
        "training.checkpoint_every=5",
        "training.trackers=[]",
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    path = tmp_path_factory.mktemp("undisturbed")
    assert all(train_in(path / str(steps), recipe(steps)).finished for steps in (LONG, SHORT))
    return {steps: path / str(steps) for steps in (LONG, SHORT)}


def finish(process: ForkServerProcess) -> int | None:
    process.start()
    process.join(600)
    return process.exitcode


def assert_ends_like(undisturbed: Path, path: Path) -> None:
    there = RunDirectory(undisturbed).recipe()
    assert finish(CONTEXT.Process(target=train_or_resume, args=(path, there))) == 0
    assert_same_state(newest(undisturbed), newest(path))
    assert log_of(path) == log_of(undisturbed)
    left = {file.name for file in (path / "checkpoints").iterdir()}
    assert left == {file.name for file in RunDirectory(path).checkpoints()}


def test_twenty_kills_at_random_moments_change_nothing(undisturbed: dict[int, Path], tmp_path: Path) -> None:
    """Each after one to three further steps, within the time of about one step; so all come before the end."""
    chance, path, killed = random.Random(0), tmp_path / "run", 0
    while killed < 20:
        ours, theirs = multiprocessing.Pipe()
        process = CONTEXT.Process(target=reporting_training, args=(path, recipe(LONG), theirs))
        process.start()
        theirs.close()
        first = ours.recv()
        while ours.recv() < first + chance.randint(0, 2):
            pass
        time.sleep(chance.uniform(0, 0.01))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        killed += 1
    assert_ends_like(undisturbed[LONG], path)


MOMENTS = {
    "before the first file": ("save_file", 4, False),
    "between the files": ("save_file", 5, True),
    "after the files, before the manifest": ("checksum", 4, False),
    "before anything is flushed": ("flush_to_disk", 7, False),
    "before the rename": ("rename", 3, False),
    "after the rename": ("rename", 3, True),
    "after the rename, before the rotation": ("_keep_only", 3, False),
    "in the rotation, before the removal": ("remove_checkpoint", 1, False),
    "in the rotation, in the removal": ("remove", 5, False),
    "in the very first checkpoint": ("save_file", 2, False),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_inside_checkpoint_writing_changes_nothing(
    undisturbed: dict[int, Path], tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "run"
    process = CONTEXT.Process(target=dying_training, args=(path, recipe(SHORT), *MOMENTS[moment]))
    assert finish(process) == -signal.SIGKILL
    assert_ends_like(undisturbed[SHORT], path)


@pytest.mark.parametrize("trackers", [[], ["tensorboard"]], ids=["alone", "tensorboard"])
def test_a_training_whose_folder_is_removed_ends_in_one_line(
    tmp_path: Path, trackers: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    def remove(event: StepEvent) -> None:
        if event.step == 12:
            while (tmp_path / "run").exists():  # the checkpoint of step 10 may still be written while it is emptied
                shutil.rmtree(tmp_path / "run", ignore_errors=True)

    where, made = RunDirectory(tmp_path / "run"), tiny_recipe(f"training.trackers={trackers}")
    where.create(made)
    with pytest.raises(UserError, match="was removed or renamed during its training"):
        train(made, where, build_dataset(made), callbacks=Callbacks(remove))
    assert list(tmp_path.iterdir()) == [], "nothing of it comes back"
    assert "Traceback" not in capfd.readouterr().err
