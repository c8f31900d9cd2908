"""The numbers that ``vadd eval --bound`` reports: units, errors, refusals, and one exact comparison."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.exact import seeded
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import Particles, step_bound
from vadd.core.host import BOUNDS, step_generator
from vadd.core.sampling import Grid
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, EvaluationOptions, RunReport, evaluate
from vadd.evaluation.divergence import ExactDistributions
from vadd.evaluation.likelihood import (
    CANDIDATES,
    check_examples,
    measure_bounds,
    some_of,
    tightest,
)
from vadd.evaluation.reports import NOT_A_BOUND, LikelihoodReport, NegativeLogLikelihood, negative_log_likelihood
from vadd.run.directory import RunDirectory
from vadd.run.loading import load
from vadd.run.run import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A VADD on a checkerboard of 12 x 12 values, trained for a few seconds: its latent is alive."""
    path = tmp_path_factory.mktemp("likelihood") / "vadd"
    recipe = tiny_recipe(
        "data.vocab_size=12",
        "data.train_size=5000",
        "data.test_size=400",
        "network.width=32",
        "network.denoiser.depth=2",
        "training.steps=300",
        "training.batch=128",
        "training.learning_rate=5e-3",
        "training.log_every=300",
        "training.evaluate_every=300",
        "training.checkpoint_every=300",
    )
    assert train_in(path, recipe).finished
    return load(path)


@pytest.fixture(scope="module")
def vadd(vadd_run: Path) -> Run:
    return load(vadd_run)


@pytest.fixture(scope="module")
def mdlm(mdlm_run: Path) -> Run:
    return load(mdlm_run)


def report(
    run: Run,
    *,
    particles: int = 4,
    steps: tuple[int, ...] = (1, 3),
    draws: int = 2,
    limit: int | None = None,
    grid: Grid | None = None,
    seed: int = 0,
    examples: Tensor | None = None,
) -> RunReport:
    settings = BoundSettings(Particles(particles), steps, draws, limit, grid, seed)
    return evaluate(run, steps=(), bounds=settings, options=EvaluationOptions(examples=examples)).report


def likelihood(run: Run, **settings: Any) -> LikelihoodReport:
    found = report(run, **settings).likelihood
    assert found is not None
    return found


def bounds(run: Run, **settings: Any) -> tuple[NegativeLogLikelihood, ...]:
    return likelihood(run, **settings).bounds


def test_units_and_errors_are_those_of_the_textbook() -> None:
    found = negative_log_likelihood(torch.tensor([-3.0, -5.0, -7.0, -9.0]).double(), 4, valid=True)
    assert found.nats == pytest.approx(6)
    assert found.stderr == pytest.approx(math.sqrt(20 / 3) / 2)  # standard deviation over the root of their number
    assert found.bpd == pytest.approx(6 / (4 * math.log(2)))
    assert found.perplexity == pytest.approx(math.exp(6 / 4))
    assert found.examples == 4
    assert found.valid
    assert found.excess is None


def test_the_excess_is_over_the_truth_on_the_same_examples_and_paired() -> None:
    log_truth = torch.tensor([-2.0, -4.0, -6.0, -8.0]).double()
    found = negative_log_likelihood(log_truth - 0.5, 4, valid=True, log_truth=log_truth)
    assert found.excess == pytest.approx(0.5)
    assert found.excess_stderr == pytest.approx(0)


@pytest.mark.parametrize("positions", [1, 2, 784])
def test_a_uniform_model_has_as_many_bits_and_as_high_a_perplexity_as_it_has_values(positions: int) -> None:
    uniform = torch.full((3,), -positions * math.log(8), dtype=torch.float64)
    found = negative_log_likelihood(uniform, positions, valid=True)
    assert found.bpd == pytest.approx(3)
    assert found.perplexity == pytest.approx(8)
    assert found.stderr == pytest.approx(0, abs=1e-12)


def test_the_report_of_a_vadd_has_bounds_a_delbo_that_is_none_and_the_health_of_its_latent(vadd: Run) -> None:
    found = report(vadd, particles=4, draws=2)
    assert found.likelihood is not None
    assert [bound.steps for bound in found.likelihood.bounds] == [1, 3]
    for bound in found.likelihood.bounds:
        assert (bound.valid, bound.problem, bound.particles) == (True, None, 4)
        assert bound.proposals == Particles(4).proposals
        assert (bound.examples, bound.scored) == (len(vadd.data.test), 2 * len(vadd.data.test))
    delbo = found.likelihood.delbo
    assert delbo is not None
    assert (delbo.valid, delbo.problem, delbo.warning) == (False, NOT_A_BOUND, "not a likelihood bound")
    assert (delbo.steps, delbo.particles, delbo.draws) == (None, 4, 2)
    assert found.likelihood.elbo is None
    assert found.latent is not None
    assert sum(found.latent.kl_per_dimension) == pytest.approx(found.latent.kl_all_masked, rel=1e-4)


def test_the_report_of_an_mdlm_has_an_elbo_which_is_valid_and_no_latent(mdlm: Run) -> None:
    found = report(mdlm)
    assert found.likelihood is not None
    assert all(bound.valid and bound.proposals is None for bound in found.likelihood.bounds)
    elbo = found.likelihood.elbo
    assert elbo is not None
    assert (elbo.valid, elbo.warning, elbo.draws, elbo.particles) == (True, None, 2, None)
    assert found.likelihood.delbos == ()
    assert found.to_json()["latent"] is None


def test_the_integral_is_left_out_unless_asked_for(vadd: Run, mdlm: Run) -> None:
    assert likelihood(vadd, draws=0).delbo is None
    assert likelihood(mdlm, draws=0).elbo is None
    assert evaluate(vadd, steps=()).report.likelihood is None


def test_the_reported_numbers_are_the_mean_and_the_error_of_the_bound_over_examples(vadd: Run) -> None:
    x0 = vadd.data.test
    draws = -step_bound(vadd.model, x0, 3, Particles(4), step_generator(0, BOUNDS, 0))
    bound = bounds(vadd)[1]
    assert bound.nats == pytest.approx(float(draws.mean()))
    assert bound.stderr == pytest.approx(float(draws.std()) / math.sqrt(len(x0)))
    assert bound.bpd == pytest.approx(float(draws.mean()) / (2 * math.log(2)))
    assert bound.perplexity == pytest.approx(math.exp(float(draws.mean()) / 2))


def test_the_excess_in_the_report_is_over_the_entropy_of_the_examples(vadd: Run, array_run: Path) -> None:
    assert vadd.data.distribution is not None
    truth = vadd.data.distribution()[tuple(vadd.data.test.T.numpy())]
    bound = bounds(vadd)[0]
    assert bound.excess is not None
    assert bound.nats - bound.excess == pytest.approx(-sum(map(math.log, truth)) / len(truth))
    assert bounds(load(array_run))[0].excess is None


def test_the_limit_takes_a_random_part_of_the_examples_the_same_for_all_models(vadd: Run) -> None:
    limited = likelihood(vadd, limit=30)
    chosen = some_of(len(vadd.data.test), 30, seed=0)
    assert limited == likelihood(vadd, examples=vadd.data.test[chosen])
    assert limited != likelihood(vadd, examples=vadd.data.test[:30])
    assert len(set(chosen.tolist())) == 30
    assert abs(float(chosen.double().mean()) / len(vadd.data.test) - 0.5) < 5 * 0.29 / 30**0.5
    assert limited.delbo is not None
    assert limited.bounds[0].examples == limited.delbo.examples == 30
    assert bounds(vadd, limit=10_000) == bounds(vadd)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(vadd: Run) -> None:
    assert report(vadd) == report(vadd)
    first, other = likelihood(vadd), likelihood(vadd, seed=1)
    assert first.bounds[0].nats != other.bounds[0].nats
    assert first.delbo is not None
    assert other.delbo is not None
    assert first.delbo.nats != other.delbo.nats


def test_the_grid_is_the_recipes_unless_another_is_given(vadd: Run) -> None:
    cosine, recipes_own = bounds(vadd, grid="cosine"), vadd.with_sampling(grid="cosine")
    assert bounds(recipes_own) == cosine
    assert bounds(recipes_own, grid="uniform") == bounds(vadd)
    assert cosine[0].nats == bounds(vadd)[0].nats, "one step is the same on every grid"
    assert cosine[1].nats != bounds(vadd)[1].nats


def test_progress_is_told_for_every_number_and_the_delbo_is_named_for_what_it_is(vadd: Run) -> None:
    told: list[tuple[str, int, int | None]] = []

    def tell(what: str, done: int = 0, total: int | None = None) -> None:
        told.append((what, done, total))

    measure_bounds(vadd, vadd.data.test, BoundSettings(Particles(2), (1, 2), 1), tell)
    names = dict.fromkeys(what for what, _, _ in told)
    assert len(names) == 3
    assert all((name, len(vadd.data.test), len(vadd.data.test)) in told for name in names)
    assert any(NOT_A_BOUND in name for name in names)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (torch.zeros(5, 3, dtype=torch.long), r"not \(5, 3\)"),
        (torch.full((5, 2), 8), "value 8; the model knows 0..7"),
        (torch.full((5, 2), -1), "value -1; the model knows 0..7"),
    ],
    ids=["positions", "too large", "negative"],
)
def test_examples_of_another_kind_are_refused(vadd: Run, examples: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_examples(vadd, examples)
    with pytest.raises(UserError, match=message):
        report(vadd, examples=examples)


def test_one_latent_for_all_steps_has_bounds_of_its_own(vadd: Run, mdlm: Run) -> None:
    fixed = vadd.with_sampling(latent_policy="fixed")
    one, two = bounds(fixed, steps=(1, 2))
    assert (one.one_latent, two.one_latent) == (True, True)
    fresh_one, fresh_two = bounds(vadd, steps=(1, 2))
    assert (fresh_one.one_latent, fresh_two.one_latent) == (None, None)
    assert one.nats == pytest.approx(fresh_one.nats, abs=0.05), "with one step the two samplers are one"
    assert two.nats != fresh_two.nats
    assert bounds(mdlm.with_sampling(latent_policy="fixed")) == bounds(mdlm), "no latent to keep"


def test_grids_and_steps_that_do_not_exist_are_refused(vadd: Run) -> None:
    with pytest.raises(UserError, match="unknown grid 'quadratic'"):
        report(vadd, grid="quadratic")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1 step, not 0"):
        report(vadd, steps=(0,))


def test_on_a_trained_toy_the_one_step_bound_is_the_exact_likelihood(trained: Run) -> None:
    """By quadrature over z, example by example: 4 standard errors of the paired difference (false alarm 6e-5 with
    another seed) and 0.01 nats for what is left of the logarithm's bias at K = 512.
    """
    x0 = trained.data.test
    law = ExactDistributions(trained.model).after(1)
    assert float(law.sum()) == pytest.approx(1, abs=1e-6)
    loss = law[x0[:, 0], x0[:, 1]].log() - step_bound(trained.model, x0, 1, Particles(512), seeded(0))
    error = float(loss.std()) / math.sqrt(len(loss))
    assert error < 0.01
    assert abs(float(loss.mean())) < 4 * error + 0.01
    # The latent matters: independent positions would score more than half a nat worse.
    product = law.sum(1, keepdim=True) * law.sum(0)
    assert float((law[x0[:, 0], x0[:, 1]] / product[x0[:, 0], x0[:, 1]]).log().mean()) > 0.5


@pytest.mark.parametrize("steps", [2, 4])
def test_on_a_trained_toy_the_bound_of_more_steps_stays_below_the_exact_likelihood(trained: Run, steps: int) -> None:
    """5 standard errors of the paired difference, one-sided: false alarm 3e-7."""
    x0 = trained.data.test
    law = ExactDistributions(trained.model).after(steps)
    loss = law[x0[:, 0], x0[:, 1]].log() - step_bound(trained.model, x0, steps, Particles(64), seeded(0))
    assert float(loss.mean()) > -5 * float(loss.std()) / math.sqrt(len(loss))


def test_numbers_that_do_not_exist_are_none_not_nan() -> None:
    single = negative_log_likelihood(torch.tensor([-3.0]).double(), 2, valid=True)
    assert (single.nats, single.stderr) == (3.0, None)
    huge = negative_log_likelihood(torch.tensor([-2000.0, -2000.0]).double(), 2, valid=True)
    assert (huge.nats, huge.perplexity) == (2000.0, None)


def test_examples_that_the_data_cannot_produce_have_no_excess(vadd_run: Path) -> None:
    run = load(vadd_run)
    assert run.data.distribution is not None
    impossible = torch.from_numpy(np.argwhere(run.data.distribution() == 0)[:2])
    (found,) = bounds(run, steps=(1,), examples=impossible)
    assert (found.excess, found.excess_stderr) == (None, None)
    assert found.nats > 0


def test_examples_are_judged_without_the_data_that_the_run_learnt_from(array_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(array_run, tmp_path / "copy")
    gone = RunDirectory(copy).recipe().with_overrides([f"data.path={tmp_path / 'gone.npy'}"])
    (copy / "recipe.yaml").write_text(gone.to_yaml())
    run, examples = load(copy), load(array_run).data.test
    assert likelihood(run, examples=examples) == likelihood(load(array_run))
    with pytest.raises(UserError, match="needs the data that the model learned from"):
        report(run)


@pytest.mark.parametrize("shape", [(0, 2), (2,)])
def test_examples_of_another_form_are_refused(vadd_run: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="examples have the shape"):
        check_examples(load(vadd_run), torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(UserError, match="at least 1"):
        BoundSettings(Particles(1), limit=limit)


def test_proposals_are_chosen_on_training_examples_and_judge_as_if_they_had_been_named(vadd: Run) -> None:
    chosen = BoundSettings(Particles(4), (1, 3), limit=50, choose_proposals=True)
    found = measure_bounds(vadd, vadd.data.test, chosen).bounds
    assert [bound.steps for bound in found] == [1, 3]
    for steps, bound in zip((1, 3), found, strict=True):
        proposals = next(known for known in (Particles(4).proposals, *CANDIDATES) if known == bound.proposals)
        named = BoundSettings(Particles(4, proposals), (steps,), limit=50)
        assert measure_bounds(vadd, vadd.data.test, named).bounds == (bound,)


def test_the_tightest_proposals_win(vadd: Run) -> None:
    worth = {
        ("recognition", "revealed", "prior"): -3.0,
        ("recognition", "prior"): -2.0,
        ("revealed",): -2.2,
        ("prior",): -2.5,
    }

    def bound(x0: Tensor, particles: Particles, generator: torch.Generator) -> Tensor:
        assert torch.equal(x0, vadd.data.train[: len(x0)]), "not by the examples that are judged"
        return torch.full((len(x0),), worth[particles.proposals])

    assert tightest(vadd, bound, Particles(9)) == Particles(9, ("recognition", "prior"))
