"""The report about a run: its numbers are repeatable and agree with each other."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import vadd
from vadd.data import toy_distribution
from vadd.errors import UserError
from vadd.evaluation import entropy, evaluate, histogram, jsd, paper_js
from vadd.evaluation.reports import DistributionDistance, PairDistance
from vadd.run.directory import RunDirectory
from vadd.run.run import Run

SAMPLES = 3000


@pytest.fixture(scope="module")
def run(vadd_run: Path) -> Run:
    return vadd.load(vadd_run)


def distances(run: Run, steps: list[int], samples: int = SAMPLES, seed: int = 0) -> dict[int, DistributionDistance]:
    return evaluate(run, steps, samples, seed).report.by_steps(DistributionDistance)


def test_the_report_tells_which_run_it_is_about(run: Run, vadd_run: Path) -> None:
    report = evaluate(run, [1, 2], SAMPLES).report
    assert (report.run, report.recipe, report.model) == (str(vadd_run), "checkerboard", "vadd")
    assert (report.values, report.training_steps, report.samples) == (8, 30, SAMPLES)
    assert report.training_seconds is not None
    assert report.training_seconds > 0
    assert [result.steps for result in report.results] == [1, 2]
    for result in report.results:
        assert all(math.isfinite(value) and value >= 0 for value in result.to_json().values())


def test_the_numbers_are_repeatable_and_change_with_the_seed(run: Run) -> None:
    first, again, other = (distances(run, [1], seed=seed)[1] for seed in (0, 0, 1))
    assert first == again
    assert first.jsd != other.jsd
    assert first.jsd_exact == other.jsd_exact


def test_the_histograms_are_those_of_the_samples(run: Run) -> None:
    evaluation = evaluate(run, [1, 3], SAMPLES)
    assert list(evaluation.shown) == [1, 3]
    for steps, found in evaluation.shown.items():
        assert np.array_equal(found, histogram(run.sample(SAMPLES, steps=steps).numpy(), 8))


def test_with_many_samples_the_sampled_divergence_is_the_exact_one_and_its_floor(run: Run) -> None:
    """The floor is 31 / 4n over 32 bins, within 28%: five deviations of the mean of 20 chi-squares of 31 degrees of
    freedom. The noise adds about as much to the divergence itself, 4e-5; its scatter is of order sqrt(0.2 / n) = 1e-3,
    and the tolerance five times that.
    """
    found = distances(run, [1], 200_000)[1]
    assert found.jsd_floor == pytest.approx(31 / 800_000, rel=0.28)
    assert found.jsd == pytest.approx(found.jsd_exact, abs=5e-3)


def test_a_run_that_samples_the_data_scores_its_floor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The truth itself, 31 degrees of freedom: from 1/3 to 2.2 times the floor; by chance outside: 3e-4."""
    truth = toy_distribution("checkerboard", 8)
    drawn = np.random.default_rng(5).choice(64, p=truth.ravel(), size=20_000)
    tokens = torch.from_numpy(np.stack(np.unravel_index(drawn, (8, 8)), axis=1))
    monkeypatch.setattr(run, "sample", lambda *args, **kwargs: tokens, raising=True)
    found = distances(run, [1], 20_000)[1]
    assert found.jsd_floor / 3 < found.jsd < 2.2 * found.jsd_floor
    assert found.paper_js_floor / 3 < found.paper_js < 2.2 * found.paper_js_floor


def test_one_latent_for_all_steps_has_no_exact_value_beyond_one_step(vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "fixed")
    recipe = RunDirectory(copy).recipe().with_overrides(["sampling.latent_policy=fixed"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    found = distances(vadd.load(copy), [1, 2])
    assert (found[1].jsd_exact or 0) > 0
    assert found[2].jsd_exact is None


def test_without_a_latent_the_exact_value_does_not_depend_on_how_z_is_drawn(mdlm_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(mdlm_run, tmp_path / "fixed")
    recipe = RunDirectory(copy).recipe().with_overrides(["sampling.latent_policy=fixed"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    plain, fixed = (distances(vadd.load(path), [1, 2]) for path in (mdlm_run, copy))
    assert plain[2].jsd_exact is not None
    assert [fixed[steps].jsd_exact for steps in (1, 2)] == [plain[steps].jsd_exact for steps in (1, 2)]


def test_the_exact_value_follows_the_grid_of_the_recipe(vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "cosine")
    recipe = RunDirectory(copy).recipe().with_overrides(["sampling.grid=cosine"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    uniform, cosine = (distances(vadd.load(path), [1, 2]) for path in (vadd_run, copy))
    assert uniform[1].jsd_exact == cosine[1].jsd_exact
    assert uniform[2].jsd_exact != cosine[2].jsd_exact


def test_arrays_are_judged_pair_by_pair(array_run: Path) -> None:
    report = evaluate(vadd.load(array_run), [1, 2], 1000).report
    assert report.samples == 30  # as many as there are held-out examples
    found = report.by_steps(PairDistance)
    assert list(found) == [1, 2]
    for distance in found.values():
        assert 0 < distance.pair_jsd_floor < distance.pair_jsd <= math.log(2)


@pytest.mark.parametrize(("steps", "samples"), [([0], 100), ([1, -1], 100), ([1], 1), ([1], 0)])
def test_impossible_numbers_are_refused(run: Run, steps: list[int], samples: int) -> None:
    with pytest.raises(UserError, match="at least"):
        evaluate(run, steps, samples)


def test_the_measures_of_the_report_are_those_of_the_package(run: Run) -> None:
    """Recomputed from the samples and the exact truth, they differ by the noise of the true sample only."""
    truth = toy_distribution("checkerboard", 8)
    assert entropy(truth) == pytest.approx(math.log(32))
    evaluation = evaluate(run, [2], 50_000)
    distance, found = evaluation.report.by_steps(DistributionDistance)[2], evaluation.shown[2]
    assert distance.jsd == pytest.approx(jsd(truth, found), abs=0.01)
    assert distance.paper_js == pytest.approx(paper_js(truth, found), rel=0.05)


def test_numbers_are_shown_as_soon_as_they_are_known(run: Run) -> None:
    seen: list[list[int]] = []
    evaluate(run, [1, 2], SAMPLES, grown=lambda report: seen.append([r.steps for r in report.results]))
    assert seen == [[1], [1, 2], [1, 2]]
