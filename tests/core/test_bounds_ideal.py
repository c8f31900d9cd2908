"""The bounds of ideal denoisers for two positions, where theory says what they must be, H the entropy of the data and I
the mutual information of the positions:

* without a latent the step bound is H + I/T, and the ELBO, its limit, H;
* with a latent that chooses both values together the step bound is H for every T;
* the paper's DELBO of the same model is H - I/2, which no likelihood can be.

All by enumeration to 1e-9, and then by the package's estimators: 5 standard errors with fixed seeds, false alarm 6e-7
each, about 20 comparisons. The examples hold every pair exactly as often as the data's distribution says, and from
each example's number -log p(x0) is subtracted, which leaves its excess over H without the noise of drawing examples.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.bounds import (
    NO_LATENT,
    PriorGrid,
    exact_integral,
    exact_log_likelihood,
    exact_step_bound,
    grid_times,
    log_joint,
    log_mu_table,
    standard_error,
)
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    ConstantRecognizer,
    KnownSchedule,
    all_sequences,
    index_of,
    mask_integral,
    seeded,
    sigmas,
)
from vadd.core import (
    GaussianLatent,
    LinearSchedule,
    MaskedDiffusion,
    NoLatent,
    Particles,
    elbo,
    k_sample_delbo,
    step_bound,
)
from vadd.errors import UserError
from vadd.evaluation import entropy, mutual_information

THIRTIETHS = torch.tensor([[8, 1, 1], [1, 7, 1], [2, 1, 8]])
P = THIRTIETHS.double() / 30
H, I = entropy(P.numpy()), mutual_information(P.numpy())  # noqa: E741
VALUES, MASK = 3, 3
QUANTILES = PriorGrid.quantiles(300)
"""Ten to every thirtieth: sums over it are exact for a latent that is cut at thirtieths."""
for_some_steps = pytest.mark.parametrize("steps", [1, 2, 4, 8])


class IdealFactorised(nn.Module):
    """The data's marginals while nothing is known, and its conditionals once a position is."""

    positions, vocab_size, uses_time = 2, VALUES, False

    def __init__(self) -> None:
        super().__init__()
        table = torch.zeros(MASK + 1, MASK + 1, 2, VALUES, dtype=torch.float64)
        table[:, MASK, 0], table[MASK, :, 1] = P.sum(1).log(), P.sum(0).log()
        table[:, :MASK, 0] = (P / P.sum(0)).T.log()
        table[:MASK, :, 1] = (P / P.sum(1, keepdim=True)).log()[:, None]
        self.table = nn.Parameter(table.flatten(0, 1), requires_grad=False)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits: Tensor = self.table[index_of(xt, MASK + 1)][where]
        return logits


class IdealJoint(IdealFactorised):
    """While nothing is known, z names the pair: each has the interval of the normal that holds its probability."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = nn.Parameter(torch.special.ndtri(P.flatten().cumsum(0)[:-1]), requires_grad=False)
        self.pairs = all_sequences(2, VALUES)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        chosen = self.pairs[torch.searchsorted(self.cuts, z[:, 0].double())]
        certain = 200 * nn.functional.one_hot(chosen, VALUES).double()  # the others get exp(-200), nothing in float64
        nothing_known = (xt == MASK).all(1)
        return torch.where(nothing_known[:, None, None], certain, self.table[index_of(xt, MASK + 1)])[where]


FACTORISED = MaskedDiffusion(IdealFactorised(), LinearSchedule())
JOINT = MaskedDiffusion(IdealJoint(), LinearSchedule(), GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1))
"""Its recognition model is the prior: with K in the thousands that is good enough, and never far off."""


def examples(repeats: int) -> Tensor:
    """Every pair in proportion to its probability: (30 * repeats, 2)."""
    return all_sequences(2, VALUES).repeat_interleave(THIRTIETHS.flatten() * repeats, dim=0)


def excess(x0: Tensor, log_likelihood: Tensor) -> Tensor:
    """Of each example, in nats; the mean is that of the negative log-likelihood minus H."""
    return P[x0[:, 0], x0[:, 1]].log() - log_likelihood


def expected(of_every_x0: Tensor) -> float:
    return float(P.flatten() @ of_every_x0)


def test_the_data_have_something_to_tell_apart() -> None:
    assert math.isclose(float(P.sum()), 1)
    assert I > 0.35


@for_some_steps
def test_factorised_the_expected_step_bound_is_the_entropy_plus_a_share_of_the_mutual_information(steps: int) -> None:
    exact = exact_step_bound(FACTORISED.denoiser, LINEAR, grid_times(steps), NO_LATENT)
    assert -expected(exact) == pytest.approx(H + I / steps, abs=1e-9)


@for_some_steps
def test_factorised_the_drawn_step_bound_is_the_entropy_plus_a_share_of_the_mutual_information(steps: int) -> None:
    x0 = examples(300)
    found = excess(x0, step_bound(FACTORISED, x0, steps, Particles(1), seeded(steps)))
    if steps == 1:
        assert float(found.mean()) == pytest.approx(I, abs=1e-9)
    else:
        assert sigmas(found, I / steps) < 5
        assert sigmas(found, I / (2 * steps)) > 5, "twice as many steps would be told apart"


def test_factorised_the_elbo_is_the_entropy() -> None:
    assert -expected(exact_integral(FACTORISED.denoiser, NO_LATENT)) == pytest.approx(H, abs=1e-9)
    x0 = examples(300)
    found = excess(x0, elbo(FACTORISED, x0, 4, seeded(0)))
    assert sigmas(found, 0) < 5
    assert sigmas(found, I / 8) > 5, "the bound of eight steps would be told apart"


def test_the_joint_latent_makes_every_sampler_exact() -> None:
    for steps in (1, 2, 3):
        law = exact_log_likelihood(JOINT.denoiser, LINEAR, grid_times(steps), len(QUANTILES.z)).exp()
        assert torch.allclose(law, P.flatten(), atol=1e-12)


@for_some_steps
def test_joint_the_expected_step_bound_is_the_entropy_at_any_number_of_steps(steps: int) -> None:
    exact = exact_step_bound(JOINT.denoiser, LINEAR, grid_times(steps), QUANTILES)
    assert torch.allclose(exact, P.flatten().log(), atol=1e-9)
    assert -expected(exact) == pytest.approx(H, abs=1e-9)


@for_some_steps
def test_joint_the_drawn_step_bound_is_the_entropy_at_any_number_of_steps(steps: int) -> None:
    """With K from the prior the logarithm of a frequency p loses (1 - p) / (2 K p), (V^2 - 1) / (2 K) on average over
    pairs: 0.002 nats here. Twice that is allowed.
    """
    count, x0 = 2048, examples(20)
    found = excess(x0, step_bound(JOINT, x0, steps, Particles(count, ("prior",)), seeded(steps)))
    error = float(standard_error(found))
    assert error < 0.005
    assert -5 * error < float(found.mean()) < (VALUES**2 - 1) / count + 5 * error


def test_joint_the_optimum_of_the_delbo_is_the_entropy_less_half_the_mutual_information() -> None:
    """-sum_k (1/k) E_{|S|=k} H(x_S | rest), from entropies alone and from the model."""
    given_the_other = (H - entropy(P.sum(0).numpy()) + H - entropy(P.sum(1).numpy())) / 2
    assert given_the_other + H / 2 == pytest.approx(H - I / 2, abs=1e-12)
    assert -expected(exact_integral(JOINT.denoiser, QUANTILES)) == pytest.approx(H - I / 2, abs=1e-9)


@pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
def test_joint_the_integral_over_time_gives_the_same_optimum_under_every_schedule(known: KnownSchedule) -> None:
    table, x0 = log_mu_table(JOINT.denoiser, QUANTILES, 1.0), all_sequences(2, VALUES)

    def bracket(masks: Tensor, t: Tensor) -> Tensor:
        return torch.tensor([expected(log_joint(table, QUANTILES, x0, mask, mask)) for mask in masks])

    assert -mask_integral(known, 2, bracket) == pytest.approx(H - I / 2, abs=1e-6)


def test_the_delbo_converges_to_its_optimum_below_the_entropy_and_so_is_no_bound() -> None:
    """K = 1024, so that the logarithm costs less than 0.004 nats, which is allowed, while I/2 is 0.2 nats."""
    x0 = examples(20)
    found = excess(x0, k_sample_delbo(JOINT, x0, Particles(1024), 4, seeded(0)))
    mean, error = float(found.mean()), float(standard_error(found))
    assert -I / 2 - 5 * error < mean < -I / 2 + 5 * error + 0.004
    assert mean < -5 * error


@pytest.mark.parametrize("steps", [1, 4])
def test_the_step_bound_of_the_same_model_stays_above_the_entropy(steps: int) -> None:
    x0 = examples(20)
    found = excess(x0, step_bound(JOINT, x0, steps, Particles(1024), seeded(0)))
    assert float(found.mean()) > -5 * float(standard_error(found))


def test_the_elbo_refuses_a_model_with_a_latent() -> None:
    with pytest.raises(UserError, match="not a bound"):
        elbo(JOINT, examples(1), 1, seeded(0))


def test_without_a_latent_the_papers_number_is_the_elbo() -> None:
    assert isinstance(FACTORISED.latent, NoLatent)
    assert elbo(FACTORISED, examples(2), 3, seeded(0)).equal(
        k_sample_delbo(FACTORISED, examples(2), Particles(5), 3, seeded(0))
    )


@pytest.mark.parametrize("draws", [0, -1])
def test_at_least_one_mask_must_be_drawn(draws: int) -> None:
    with pytest.raises(UserError, match=f"at least 1, not {draws}"):
        elbo(FACTORISED, examples(1), draws, seeded(0))
    with pytest.raises(UserError, match=f"at least 1, not {draws}"):
        k_sample_delbo(JOINT, examples(1), Particles(1), draws, seeded(0))


@pytest.mark.parametrize("draws", [1, 2, 3, 7])
def test_any_number_of_masks_gives_the_same_mean(draws: int) -> None:
    """The masks of an example are spread over k, yet each draw alone has the right law."""
    x0 = examples(300)
    assert sigmas(excess(x0, elbo(FACTORISED, x0, draws, seeded(draws))), 0) < 5
