"""Positions with different numbers of values: what is outside has probability zero, in samples and in bounds.

Comparisons with frequencies are chi-square tests at level 1e-5, those with means fail beyond 5 standard errors; seeds
are fixed, and there are fewer than 60 of both: with other seeds a correct package fails one with probability below
1e-3.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.bounds import PriorGrid, bound_draws, exact_step_bound, grid_times, standard_error
from tests.helpers.columns import INSIDE, SIZES, CutDenoiser
from tests.helpers.exact import (
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    chi_square_p_value,
    index_of,
    sampler_distribution,
    seeded,
)
from vadd.core import (
    ExactCount,
    GaussianLatent,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Particles,
    TokenSampler,
    sample,
    step_bound,
)
from vadd.core.sampling import LatentPolicy
from vadd.errors import UserError
from vadd.recipe import SAMPLERS


def model_of(latent: bool, **settings: bool) -> MaskedDiffusion:
    network = TableDenoiser(3, 4, seed=5, latent=latent)
    variable = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1) if latent else None
    return MaskedDiffusion(network, LinearSchedule(), variable, sizes=SIZES, **settings)


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
@pytest.mark.parametrize("policy", ["resample", "fixed"])
@pytest.mark.parametrize("steps", [1, 2])
def test_samples_follow_the_enumerated_law(latent: bool, policy: LatentPolicy, steps: int) -> None:
    tokens = sample(model_of(latent), 20_000, steps, seeded(steps), latent_policy=policy).tokens
    exact = sampler_distribution(
        CutDenoiser(3, 4, seed=5, latent=latent), LINEAR, grid_times(steps), fixed_z=policy == "fixed", nodes=200
    )
    assert float(exact[index_of(INSIDE, 4)].sum()) == pytest.approx(1)
    counts = index_of(tokens, 4).bincount(minlength=4**3)
    assert chi_square_p_value(counts.numpy(), exact.numpy()) > 1e-5


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
@pytest.mark.parametrize("steps", [1, 3])
def test_bounds_agree_with_enumeration(latent: bool, steps: int) -> None:
    prior = PriorGrid.quantiles(1 if not latent else 200)
    network = CutDenoiser(3, 4, seed=5, latent=latent)
    exact = exact_step_bound(network, LINEAR, grid_times(steps), prior)[index_of(INSIDE, 4)]
    # 0.02 nats for the bias of the logarithm of a mean of 400; without a latent there is nothing but rounding.
    particles = Particles(400 if latent else 1, ("prior",))
    draws = bound_draws(model_of(latent), INSIDE, steps, particles, seeded(1), repeats=100)
    allowed = 5 * standard_error(draws) + (0.02 if latent else 1e-6)
    assert bool(((draws.mean(0) - exact).abs() < allowed).all())


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(
    "values", [TokenSampler(), TokenSampler(temperature=0), TokenSampler(temperature=50.0, top_k=3, top_p=0.99)]
)
def test_no_sampler_draws_outside(name: str, values: TokenSampler) -> None:
    sampler = SAMPLERS[name]
    tokens = sample(model_of(latent=True), 500, 3, seeded(0), sampler=sampler, token_sampler=values).tokens
    assert bool((tokens < torch.tensor(SIZES)).all())
    if values == TokenSampler():
        assert [len(set(tokens[:, i].tolist())) for i in range(3)] == list(SIZES)


def test_what_is_outside_has_probability_zero_and_the_rest_sums_to_one() -> None:
    model, everywhere = model_of(latent=False), torch.ones(1, 3, dtype=torch.bool)
    with torch.no_grad():
        mu = model.predict(torch.full((1, 3), 4), None, torch.ones(1), everywhere).softmax(-1)
    assert mu.sum(-1).tolist() == pytest.approx([1, 1, 1])
    for position, size in enumerate(SIZES):
        assert mu[position, size:].tolist() == [0.0] * (4 - size)


def test_restricting_renormalises() -> None:
    model, everywhere = model_of(latent=False), torch.ones(1, 3, dtype=torch.bool)
    state = (torch.full((1, 3), 4), None, torch.ones(1), everywhere)
    with torch.no_grad():
        whole = model.predict(*state).softmax(-1)
        part = model.restricted((2, 2, 3)).predict(*state).softmax(-1)
    assert torch.allclose(part[2, :3], whole[2, :3] / whole[2, :3].sum())
    assert part[2, 3] == 0
    assert torch.equal(model.predict(*state).softmax(-1), whole)  # the model itself is as it was


def test_unknown_values_stay_hidden_and_are_not_scored() -> None:
    """The objective and the bound of (a, unknown, c) are those of a and c, in states that never show the middle."""
    model, network = model_of(latent=False, unknowns=True), CutDenoiser(3, 4, seed=5)
    x0 = torch.tensor([[1, 4, 2]])

    def log_mu(shown: dict[int, int], position: int) -> float:
        xt = torch.full((1, 3), 4)
        for place, value in shown.items():
            xt[0, place] = value
        where = F.one_hot(torch.tensor([position]), 3).bool()
        with torch.no_grad():
            return float(network(xt, None, torch.ones(1), where).log_softmax(-1)[0, x0[0, position]])

    both = log_mu({}, 0) + log_mu({}, 2)
    one_then_other = log_mu({}, 0) + log_mu({0: 1}, 2), log_mu({}, 2) + log_mu({2: 2}, 0)
    # In two steps of the linear schedule two positions go together with probability 1/2, else in either order.
    exact = both / 2 + sum(one_then_other) / 4
    draws = step_bound(model, x0.repeat(4000, 1), 2, generator=seeded(0))
    assert abs(float(draws.mean()) - exact) < 5 * float(draws.std()) / math.sqrt(4000)
    # The integral: of two positions each order counts one half.
    integral = sum(one_then_other) / 2
    masking = ExactCount()(20_000, 3, model.schedule, seeded(1))
    batch = MaskedBatch.of(x0.repeat(20_000, 1), masking, model.mask_value)
    with torch.no_grad():
        bound = model(batch, 1.0, seeded(2)).bound.double()
    assert abs(float(bound.mean()) - integral) < 5 * float(bound.std()) / math.sqrt(20_000)


def test_values_that_a_position_does_not_have_are_refused() -> None:
    with pytest.raises(UserError, match=r"the value 3 at position 1; the model knows 0\.\.2"):
        sample(model_of(latent=False), torch.tensor([[0, 3, 4]]), 1, seeded(0))
    with pytest.raises(UserError, match="value 4"):
        model_of(latent=False).check_sequences(torch.tensor([[0, 4, 0]]), "examples")
    model_of(latent=False, unknowns=True).check_sequences(torch.tensor([[0, 4, 0]]), "examples")
    with pytest.raises(ValueError, match="sizes lie in"):
        MaskedDiffusion(TableDenoiser(3, 4), LinearSchedule(), sizes=(1, 2, 5))
