"""The prior that a recipe asks for is fitted after the last step, while somebody may be looking."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vadd.run.loading import load
from vadd.studio.compare import Comparisons
from vadd.studio.runs import OpenRuns, awaits_prior
from vadd.studio.train import Watch, one_step_samples
from vadd.studio.trainings import Trainings
from vadd.training.prior import fit_prior


@pytest.fixture
def unfitted(digits_runs: list[Path], tmp_path: Path) -> Path:
    """Stopped between its last step and its prior."""
    return shutil.copytree(digits_runs[1], tmp_path / "digits-vadd")


def ended(trainings: Trainings, name: str) -> None:
    process = trainings._processes[name] = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()


def test_only_a_recipe_with_a_learned_prior_waits_for_one(unfitted: Path, digits_runs: list[Path]) -> None:
    assert awaits_prior(unfitted)
    assert not awaits_prior(digits_runs[0])
    fit_prior(load(unfitted), steps=2)
    assert not awaits_prior(unfitted)


def test_a_run_that_is_open_is_read_again_and_shown_anew(unfitted: Path) -> None:
    runs = OpenRuns([unfitted])
    trainings = Trainings(runs, unfitted.parent)
    ended(trainings, "digits-vadd")
    watch = Watch(runs, trainings)
    page = watch.show()
    assert "finished: step 20 of 20" in page
    assert "its prior p(z) is not fitted: Resume goes on" in page
    before = runs.get("digits-vadd")
    fit_prior(before, steps=2)
    after = runs.get("digits-vadd")
    assert (before.prior_seconds is None, after.prior_seconds is None) == (True, False)
    assert "p(z)" not in watch.show()
    assert str(one_step_samples(after)) in watch.show()


def test_what_was_compared_without_it_is_not_taken_for_what_it_is_with_it(unfitted: Path) -> None:
    comparisons = Comparisons(OpenRuns([unfitted]), unfitted.parent)
    before = comparisons.folder(["digits-vadd"], [1], 200, 20)
    assert comparisons.folder(["digits-vadd"], [1], 200, 20) == before
    fit_prior(load(unfitted), steps=2)
    assert comparisons.folder(["digits-vadd"], [1], 200, 20) != before
