"""What the field calls likelihoods against sums over all masks and orders of a model of known predictions, and the
verdict on each.

Estimates are compared within 5 standard errors (6e-7 by chance), fewer than 60 times, with fixed seeds.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import vadd
from tests.helpers.bounds import NO_LATENT, PriorGrid, exact_integral, log_joint, log_mu_table, standard_error
from tests.helpers.commands import Command
from tests.helpers.exact import LINEAR, TableDenoiser, all_sequences, seeded
from tests.helpers.plans import any_order_law, model_of, prior_of
from tests.helpers.states import TrueConditionals
from vadd.core import Drawing, MaskedDiffusion, Particles
from vadd.core.base import Denoiser
from vadd.data import copies_distribution
from vadd.errors import UserError
from vadd.evaluation.conventions import Convention, conventions_of, masked_mean
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.models import ScoreEntropy

POSITIONS, VALUES = 3, 2
VALID = {
    "continuous-time ELBO",
    "any-order, one position a step",
    "left to right, one position a step",
    "surest first (margin), one position a step",
}


def found_for(model: MaskedDiffusion, particles: int = 1, draws: int = 1) -> dict[str, Convention]:
    return {each.name: each for each in conventions_of(model, Particles(particles), draws, Drawing())}


def estimates(convention: Convention, model: MaskedDiffusion, repeats: int) -> Tensor:
    """(repeats, V ** N)."""
    x0 = all_sequences(model.positions, model.vocab_size)
    found = convention.estimate(model, x0=x0.repeat(repeats, 1), generator=seeded(1))
    return found.view(repeats, len(x0))


def check(found: Tensor, expected: Tensor) -> None:
    assert float(((found.mean(0) - expected).abs() - 5 * standard_error(found)).max()) < 1e-6


def given_the_rest(denoiser: Denoiser, prior: PriorGrid) -> Tensor:
    """sum_i log E_z mu_i(x without i)[x_i], (V ** N,)."""
    table, x0 = log_mu_table(denoiser, prior, 1 / POSITIONS), all_sequences(POSITIONS, VALUES)
    alone = torch.eye(POSITIONS, dtype=torch.bool)
    return torch.stack([log_joint(table, prior, x0, one, one) for one in alone]).sum(0)


def from_left_to_right(denoiser: Denoiser, prior: PriorGrid) -> Tensor:
    table, x0 = log_mu_table(denoiser, prior, 1.0), all_sequences(POSITIONS, VALUES)
    places = torch.arange(POSITIONS)
    return torch.stack([log_joint(table, prior, x0, places >= i, places == i) for i in places]).sum(0)


def test_every_convention_without_a_latent_is_its_formula() -> None:
    denoiser = TableDenoiser(POSITIONS, VALUES, seed=2)
    model = model_of(denoiser, LINEAR)
    found = found_for(model)
    assert set(found) == VALID | {
        "the same from t = 0.1 on",
        "pseudo-likelihood: each given all others",
        "pseudo-likelihood: half hidden",
    }
    assert {name for name, each in found.items() if each.warning is None} == VALID
    elbo = exact_integral(denoiser, NO_LATENT)
    check(estimates(found["continuous-time ELBO"], model, 2000), elbo)
    rest, in_order = given_the_rest(denoiser, NO_LATENT), from_left_to_right(denoiser, NO_LATENT)
    assert_close(estimates(found["pseudo-likelihood: each given all others"], model, 1)[0], rest, rtol=0, atol=1e-9)
    assert_close(estimates(found["left to right, one position a step"], model, 1)[0], in_order, rtol=0, atol=1e-9)
    orders = estimates(found["any-order, one position a step"], model, 2000)
    check(orders.exp(), any_order_law(denoiser))
    # One of three is hidden, with the weight 3: the mean over the three is that of one given all others.
    check(estimates(found["pseudo-likelihood: half hidden"], model, 2000), rest)
    # What the integral loses below t = 0.1, by masks: a mask of k of 3 has weight t^(k - 1) (1 - t)^(3 - k) there.
    table, x0 = log_mu_table(denoiser, NO_LATENT, 1.0), all_sequences(POSITIONS, VALUES)
    lost = torch.zeros(len(x0), dtype=torch.float64)
    times = (torch.arange(2000, dtype=torch.float64) + 0.5) / 20_000
    for mask in all_sequences(POSITIONS, 2).bool()[1:]:
        k = int(mask.sum())
        share = float((times ** (k - 1) * (1 - times) ** (POSITIONS - k)).sum() / 20_000)
        lost += share * log_joint(table, NO_LATENT, x0, mask, mask)
    cut = estimates(found["the same from t = 0.1 on"], model, 4000)
    check(cut, elbo - lost)
    assert (elbo - lost > elbo).all()


def test_with_a_latent_marginals_are_over_z() -> None:
    denoiser = TableDenoiser(POSITIONS, VALUES, seed=3, latent=True)
    model = model_of(denoiser, LINEAR)
    found = found_for(model, particles=400)
    invalid = {"pseudo-likelihood: each given all others", "K-sample DELBO (the paper)"}
    assert {name for name, each in found.items() if each.warning} == invalid
    prior = prior_of(denoiser)
    for name, expected in (
        ("pseudo-likelihood: each given all others", given_the_rest(denoiser, prior)),
        ("left to right, one position a step", from_left_to_right(denoiser, prior)),
    ):
        few = estimates(found[name], model, 30)
        check(few.exp(), expected.exp())
    with pytest.raises(UserError, match="without a latent"):
        masked_mean(model, all_sequences(3, 2), seeded(0), lambda *_: None, 1, Particles(1))  # type: ignore[arg-type]


def test_of_the_true_conditionals_what_is_no_bound_lies_below_the_entropy() -> None:
    """Copies of a symbol: the ideal model has the entropy by every order, and less by what is not a likelihood."""
    law = torch.from_numpy(copies_distribution(POSITIONS, VALUES, 0.1)).flatten()
    model = MaskedDiffusion(TrueConditionals(law, POSITIONS, VALUES), LINEAR.schedule)
    entropy = -float(law @ law.log())
    nats = {name: -float(estimates(each, model, 500).mean(0) @ law) for name, each in found_for(model).items()}
    for name in VALID:
        assert nats.pop(name) == pytest.approx(entropy, abs=0.03)
    assert max(nats.values()) < entropy - 0.05


def test_the_command_prints_every_convention_with_its_verdict(
    mdlm_run: Path, tmp_path: Path, vadd_command: Command
) -> None:
    out = tmp_path / "numbers.json"
    said = vadd_command("eval", mdlm_run, "--conventions", "--limit", "40", "--json", out)
    assert said.code == 0
    assert "The field's conventions" in said.out
    written = {each["name"]: each["number"] for each in json.loads(out.read_text())["conventions"]}
    assert written["left to right, one position a step"]["kind"] == "exact"
    assert written["any-order, one position a step"]["kind"] == "bound"
    assert {name for name, number in written.items() if not number["valid"]} == {
        "the same from t = 0.1 on",
        "pseudo-likelihood: each given all others",
        "pseudo-likelihood: half hidden",
    }


def test_a_model_that_draws_transitions_has_none_of_them(mdlm_run: Path) -> None:
    run = vadd.load(mdlm_run)
    network = run.model.denoiser
    assert isinstance(network, nn.Module)
    run.model = ScoreEntropy(network, run.model.schedule)
    with pytest.raises(UserError, match="conventions are for masked models"):
        measure_bounds(run, run.data.test, BoundSettings(Particles(1), (), conventions=True, limit=10))
