"""A prior that reads the state: samples with a fresh z at each step, their bound, and importance sampling.

Seeds are fixed. Samples are compared with the enumeration by chi-square tests at level 1e-5, three of them; means with
exact values at 5 standard errors, two-sided 6e-7 by chance, fewer than 40 of them: if the seeds are ever changed, a
correct package fails one with probability below 6e-5. Integrals over z are sums over the prior's nodes, which
:mod:`tests.core.test_priors` compares with its density.
"""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.bounds import standard_error
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    seeded,
    sigmas,
)
from tests.helpers.plans import Plans, ancestral, p_value, parallel
from tests.helpers.priors import conditional_prior
from vadd.core import (
    Ancestral,
    GaussianLatent,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    Parallel,
    Particles,
    Prior,
    Sampler,
    StandardNormal,
    sample,
    step_bound,
)
from vadd.core.gaussian import ProposalName

DRAWS = 20_000
STATES = all_sequences(2, 3)
"""Of two positions with two values and the mask."""
DENOISER = TableDenoiser(2, 2, seed=21, latent=True)
X0 = all_sequences(2, 2)


@torch.no_grad()
def conditional_plan_log_likelihoods(prior: Prior, plans: Plans) -> Tensor:
    """sum over steps of log E_{z ~ p(. | x_t)} prod_{j in U} mu_j(x_t, z)[x0_j], for every plan and x0: (P, X)."""
    tables = {}
    for state in STATES:
        nodes, weights = prior.nodes(500, state)
        shown = state.expand(len(nodes), -1)
        mu = DENOISER(shown, nodes, torch.zeros(len(nodes)), torch.ones_like(shown, dtype=torch.bool))
        tables[tuple(state.tolist())] = (mu.view(len(nodes), 2, 2).softmax(-1), weights)
    found = torch.zeros(len(plans.step_of), len(X0), dtype=torch.float64)
    for p, step_of in enumerate(plans.step_of):
        for i, x0 in enumerate(X0):
            for step in step_of.unique().tolist():
                mu, weights = tables[tuple(x0.masked_fill(step_of <= step, 2).tolist())]
                together = torch.stack([mu[:, j, x0[j]] for j in (step_of == step).nonzero()[:, 0].tolist()])
                found[p, i] += (weights @ together.prod(0)).log()
    return found


CONDITIONAL = MaskedDiffusion(
    DENOISER, COSINE.schedule, GaussianLatent(TableRecognizer(2, 2, seed=4), 1, prior=conditional_prior(2, 2, dim=1))
)
for_fresh_draws = pytest.mark.parametrize(
    ("sampler", "plans"),
    [
        (Ancestral(), ancestral([0, 1])([True, True], COSINE)),
        (Ancestral(), ancestral([0, 0.5, 1])([True, True], COSINE)),
        (Parallel(), parallel(2)([True, True], COSINE)),
    ],
    ids=["ancestral 1", "ancestral 2", "parallel 2"],
)


@for_fresh_draws
def test_fresh_conditional_draws_have_the_law_that_enumeration_gives(sampler: Sampler, plans: Plans) -> None:
    """Chi-square at level 1e-5 with 20,000 samples. What N(0, I) would give is refuted by the same samples."""
    assert isinstance(CONDITIONAL.latent, GaussianLatent)
    steps, generator = plans.times.shape[1] - 1, seeded(5)
    drawn = sample(CONDITIONAL, DRAWS, steps, generator, sampler=sampler, latent_policy="resample").tokens
    law = plans.probabilities @ conditional_plan_log_likelihoods(CONDITIONAL.latent.prior, plans).exp()
    assert_close(float(law.sum()), 1.0, rtol=0, atol=1e-6)
    assert p_value(drawn, law, 2) > 1e-5
    unconditional = plans.probabilities @ conditional_plan_log_likelihoods(StandardNormal(1), plans).exp()
    assert p_value(drawn, unconditional, 2) < 1e-12


@for_fresh_draws
@pytest.mark.parametrize("count", [3, 300])
def test_the_bound_of_fresh_conditional_draws_stays_below_their_likelihood(
    sampler: Sampler, plans: Plans, count: int
) -> None:
    """For each x0 the mean of the draws lies below the exact mean over plans, which lies below the log-likelihood, by
    at most 5 standard errors. With 300 particles it comes within 0.05 nats of the first.
    """
    assert isinstance(CONDITIONAL.latent, GaussianLatent)
    steps, repeats = plans.times.shape[1] - 1, 1000 if count == 3 else 200
    values = conditional_plan_log_likelihoods(CONDITIONAL.latent.prior, plans)
    expected, likelihood = plans.probabilities @ values, (plans.probabilities @ values.exp()).log()
    assert bool((expected <= likelihood + 1e-9).all())
    particles, x0 = Particles(count), X0.repeat(repeats, 1)
    draws = step_bound(CONDITIONAL, x0, steps, particles, seeded(6), sampler=sampler).view(repeats, len(X0))
    error = 5 * standard_error(draws)
    assert bool((draws.mean(0) <= expected + error).all())
    if count == 300:
        assert bool((draws.mean(0) >= expected - 0.05 - error).all())


@pytest.mark.parametrize("proposals", [("prior",), ("recognition",), ("recognition", "revealed", "prior")], ids=len)
@pytest.mark.parametrize("state", [[2, 2], [2, 1]], ids=["all masked", "one masked"])
def test_importance_sampling_with_a_conditional_prior_is_unbiased(
    proposals: tuple[ProposalName, ...], state: list[int]
) -> None:
    """The mean of exp log_marginal over 20,000 draws of three particles against E_{z ~ p(. | x_t)} f by 2000 nodes, at
    5 standard errors. The recognition model is wider than the prior, so that its weights have a variance.
    """
    prior = conditional_prior(2, 2, dim=1)
    latent = GaussianLatent(ConstantRecognizer(-1.8, 0.4), 1, prior=prior)
    model = MaskedDiffusion(DENOISER, LINEAR.schedule, latent).requires_grad_(False)
    xt = torch.tensor(state)
    x0, masked = torch.tensor([0, 1]), xt == 2
    ones = torch.ones(DRAWS)
    batch = MaskedBatch.of(x0.repeat(DRAWS, 1), Masking(masked.repeat(DRAWS, 1), ones, ones), 2)

    def score(z: Tensor | None) -> Tensor:
        return model.log_likelihood(batch, z, batch.masked)

    draws = latent.log_marginal(score, batch, batch.masked, Particles(3, proposals), seeded(7)).exp()
    nodes, weights = prior.nodes(2000, xt)
    one = MaskedBatch.of(x0[None], Masking(masked[None], ones[:1], ones[:1]), 2)
    exact = float(weights @ model.log_likelihood(one, nodes[:, None], masked[None])[:, 0].exp())
    assert sigmas(draws, exact) < 5
    assert float(standard_error(draws)) < 0.02 * exact, "else the comparison would prove little"
