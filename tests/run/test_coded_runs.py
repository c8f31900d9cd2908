"""Runs whose latent has codes, from recipe to evaluation: codes alone and beside a Gaussian z."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from tests.helpers.runs import assert_same_state, newest
from tests.helpers.tiny import TINY, tiny_recipe, train_in
from vadd.core import CodedLatent, MaskedBatch
from vadd.errors import UserError
from vadd.evaluation.evaluate import evaluate
from vadd.evaluation.latent_paths import decode, encode
from vadd.kinds import kind_of
from vadd.recipe import Recipe, build_model, load_recipe
from vadd.recipe.counting import model_on_meta, sampling_flops, training_cost
from vadd.recipe.plan import check_memory

EIGHT = kind_of((2,), 8)
for_both_runs = pytest.mark.parametrize("dim", [0, 2])


def coded_recipe(dim: int, *overrides: str) -> Recipe:
    return tiny_recipe(f"latent.dim={dim}", "latent.codes=4", "latent.particles=2", *overrides)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Finished runs of 30 steps with 4 codes, by the size of z."""
    paths = {dim: tmp_path_factory.mktemp("runs") / f"coded-{dim}" for dim in (0, 2)}
    for dim, path in paths.items():
        assert train_in(path, coded_recipe(dim)).finished
    return paths


@for_both_runs
def test_training_moves_the_probabilities_of_the_codes_and_the_run_keeps_them(runs: dict[int, Path], dim: int) -> None:
    latent = vadd.load(runs[dim]).model.latent
    assert isinstance(latent, CodedLatent)
    assert latent.dim == dim + 4
    assert float(latent.logits.abs().max()) > 1e-3
    assert torch.equal(latent.logits, newest(runs[dim]).ema["latent.logits"])


@for_both_runs
def test_samples_of_a_loaded_run_are_the_same_bit_for_bit(
    runs: dict[int, Path], dim: int, vadd_command: Command, tmp_path: Path
) -> None:
    first, second = (vadd.load(runs[dim]).sample(200, steps=2, seed=3) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(first[:50], vadd.load(runs[dim]).sample(50, steps=2, seed=3))
    assert vadd_command("export", runs[dim], tmp_path / "exported").code == 0
    assert torch.equal(first, vadd.load(tmp_path / "exported").sample(200, steps=2, seed=3))


@for_both_runs
def test_an_interrupted_training_ends_where_an_undisturbed_one_does(
    runs: dict[int, Path], dim: int, vadd_command: Command, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(runs[dim], tmp_path / "copy"))
    shutil.rmtree(sorted((copy / "checkpoints").iterdir())[-1])
    assert vadd_command("train", "--out", copy, "--resume").code == 0
    assert_same_state(newest(copy), newest(runs[dim]))


@for_both_runs
def test_eval_measures_exact_distributions_and_bounds(runs: dict[int, Path], dim: int, vadd_command: Command) -> None:
    measured = vadd_command("eval", runs[dim], "--steps", "1,2", "--samples", 500, "--bound", "1,2", "--limit", 50)
    assert (measured.code, measured.err) == (0, "")
    fixed = vadd_command("eval", runs[dim], "--bound", "2", "--limit", 20, "--latent-policy", "fixed")
    assert (fixed.code, fixed.err) == (0, "")


@for_both_runs
def test_the_report_speaks_of_the_gaussian_part(runs: dict[int, Path], dim: int) -> None:
    report = evaluate(vadd.load(runs[dim]), steps=(1,), samples=100).report
    assert (None if report.latent is None else report.latent.dimensions) == (dim or None)


@for_both_runs
def test_samples_follow_the_z_that_they_are_given(runs: dict[int, Path], dim: int) -> None:
    run = vadd.load(runs[dim])
    z = torch.zeros(3, dim + 4)
    z[:, dim] = 1.0
    assert run.sample(3, z=z).shape == (3, 2)
    with pytest.raises(UserError, match=f"the shape \\(3, {dim + 4}\\), not \\(3, 1\\)"):
        run.sample(3, z=z[:, :1])


@for_both_runs
def test_completions_keep_what_is_known(runs: dict[int, Path], dim: int) -> None:
    run = vadd.load(runs[dim])
    for policy in ("resample", "fixed"):
        filled = run.infill(torch.tensor([[3, -1], [-1, 5]]), count=4, latent_policy=policy)
        assert filled.shape == (2, 4, 2)
        assert bool((filled[0, :, 0] == 3).all())
        assert bool((filled[1, :, 1] == 5).all())


@for_both_runs
def test_points_have_a_code_each_and_lead_back_to_samples(runs: dict[int, Path], dim: int) -> None:
    run = vadd.load(runs[dim])
    points = encode(run, run.data.test[:20])
    assert points.shape == (20, dim + 4)
    assert points[:, dim:].sum(1).tolist() == [1.0] * 20
    assert decode(run, points, steps=1).shape == (20, 2)
    if dim:
        posterior = run.model.posterior(MaskedBatch.all_masked(run.data.test[:20].long(), 8))
        assert posterior is not None
        assert torch.equal(points[:, :dim], posterior.mean)


def test_the_command_latent_moves_the_gaussian_part_and_leaves_the_code(
    runs: dict[int, Path], vadd_command: Command, tmp_path: Path
) -> None:
    for dim, code in ((0, 2), (2, 0)):
        assert vadd_command("latent", runs[dim], "--encode", "0,1").code == 0
        assert vadd_command("latent", runs[dim], "--interpolate", 0, 1).code == 0
        moved = vadd_command("latent", runs[dim], "--traverse")
        assert moved.code == code
    told = vadd_command("latent", runs[0], "--traverse")
    assert "has codes alone: there is no dimension to move along" in " ".join(told.err.split())


@for_both_runs
def test_there_is_no_prior_to_fit(runs: dict[int, Path], dim: int, vadd_command: Command) -> None:
    refused = vadd_command("fit-prior", runs[dim])
    assert refused.code == 2
    assert "its prior is learned already" in " ".join(refused.err.split())
    with pytest.raises(UserError, match="has no flow prior"):
        vadd.load(runs[dim], prior="flow")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["latent.codes=1"], "latent.codes=1 says nothing"),
        (["latent.dim=0"], "latent.dim=0 needs latent.codes"),
        (["latent.codes=4", "latent.kind=shared", "latent.particles=1"], "latent.kind=per-state, not shared"),
        (["latent.codes=4", "latent.prior=flow"], "latent.prior=normal, not flow"),
        (["latent.codes=4", "latent.per=position"], "latent.per=example, not position"),
        (["latent.codes=4", "training.start_from=elsewhere"], "training.start_from and network.kind=mlp"),
    ],
)
def test_what_codes_do_not_go_with_is_refused_in_one_line(
    overrides: list[str], said: str, vadd_command: Command, tmp_path: Path
) -> None:
    refused = vadd_command("train", "checkerboard", *TINY, *overrides, "--out", tmp_path / "run")
    assert refused.code == 2
    assert said in refused.err.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_a_network_that_divides_z_among_positions_takes_no_codes() -> None:
    with pytest.raises(UserError, match="kind=short-transformer"):
        load_recipe("text8-per-state").with_overrides(["latent.per=example", "latent.codes=4"])


@for_both_runs
def test_the_cost_of_the_codes_is_counted_before_training(dim: int) -> None:
    few, many = (coded_recipe(dim, f"latent.codes={codes}", "training.batch=64") for codes in (4, 16))
    costs = [training_cost(model_on_meta(recipe, EIGHT), recipe) for recipe in (few, many)]
    assert costs[1].remembered > 2 * costs[0].remembered
    assert costs[1].flops > 2 * costs[0].flops
    assert sampling_flops(model_on_meta(many, EIGHT)) > 0
    check_memory(many, EIGHT)


def test_the_preset_has_codes_alone_that_differ_from_the_beginning() -> None:
    model = build_model(load_recipe("checkerboard-codes"), kind_of((2,), 100))
    assert model.latent.dim == 16
    assert [name for name, _ in model.latent.named_parameters()] == ["logits"]
    hidden = torch.full((16, 2), 100)
    with torch.no_grad():
        logits = model.predict(hidden, torch.eye(16), torch.ones(16), hidden == 100).view(16, -1).numpy()
    distances = np.linalg.norm(logits[:, None] - logits[None], axis=2) + 1e3 * np.eye(16)
    assert distances.min() > 1e-2
