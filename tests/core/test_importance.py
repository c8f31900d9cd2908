"""Importance sampling of the latent: unbiased weights, streaming, and what each proposal is shown.

Averages are compared at 5 standard errors with fixed seeds: false alarm 6e-7 each, about 40 of them.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from torch import Tensor, nn

from tests.helpers.bounds import standard_error
from tests.helpers.exact import (
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    TableRecognizer,
    gauss_hermite,
    properties,
    seeded,
    sigmas,
)
from vadd.core import (
    DiagonalGaussian,
    GaussianLatent,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    Particles,
    k_sample_delbo,
    step_bound,
)
from vadd.core.gaussian import (
    Mixture,
    ProposalName,
    even_mixture,
    log_density,
    log_mean_weight,
    standard_normal_log_prob,
)
from vadd.core.latents import Latent, Score
from vadd.errors import UserError

PROPOSALS: list[tuple[ProposalName, ...]] = [
    ("recognition",),
    ("revealed",),
    ("prior",),
    ("recognition", "revealed"),
    ("recognition", "prior"),
    ("revealed", "prior"),
    ("recognition", "revealed", "prior"),
]
for_all_proposals = pytest.mark.parametrize("proposals", PROPOSALS, ids="+".join)


class LeaningRecognizer(nn.Module):
    """d = 1. The mean moves with what is shown of x0 and xt; wide enough for weights of finite variance."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append((x0, xt))
        mean = 0.4 * x0.double().sum(1, keepdim=True) - 0.2 * xt.double().sum(1, keepdim=True) - 0.2
        return mean, torch.full_like(mean, -0.15)


def batch_of(rows: int) -> tuple[MaskedBatch, Tensor]:
    """x0 = 2 0 1 with the last two of three positions masked, of which the last is revealed."""
    x0 = torch.tensor([2, 0, 1]).expand(rows, -1)
    masked = torch.tensor([False, True, True]).expand(rows, -1)
    batch = MaskedBatch.of(x0, Masking(masked, torch.full((rows,), 0.5), torch.ones(rows)), 3)
    return batch, torch.tensor([False, False, True]).expand(rows, -1)


def zero(z: Tensor | None) -> Tensor:
    assert z is not None
    return torch.zeros(z.shape[:-1])


def bent(z: Tensor | None) -> Tensor:
    """A log-probability that prefers z near -1."""
    assert z is not None
    return (F.logsigmoid(2 * z + 4) + F.logsigmoid(-3 * z)).sum(-1)


@torch.no_grad()
def estimates(latent: Latent, score: Score, particles: Particles, rows: int, seed: int = 0) -> Tensor:
    batch, revealed = batch_of(rows)
    return latent.log_marginal(score, batch, revealed, particles, seeded(seed))


@for_all_proposals
@pytest.mark.parametrize("count", [3, 7])
def test_the_weights_average_to_one(proposals: tuple[ProposalName, ...], count: int) -> None:
    latent = GaussianLatent(LeaningRecognizer(), dim=1)
    found = estimates(latent, zero, Particles(count, proposals), 10_000).exp()
    if proposals == ("prior",):
        assert torch.allclose(found, torch.ones_like(found), rtol=0, atol=1e-12)
    else:
        assert sigmas(found, 1) < 5
        assert float(found.std()) > 0.01, "otherwise the proposals would be the prior"


@for_all_proposals
def test_every_proposal_gives_the_same_integral(proposals: tuple[ProposalName, ...]) -> None:
    nodes, weights = gauss_hermite(60)
    exact = float(weights @ bent(nodes[:, None]).exp())
    latent = GaussianLatent(LeaningRecognizer(), dim=1)
    found = estimates(latent, bent, Particles(5, proposals), 10_000)
    assert sigmas(found.exp(), exact) < 5
    assert float(found.mean()) < math.log(exact), "and its logarithm is too small on average"


components = st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 1)), min_size=1, max_size=3)


def gaussians(parameters: list[tuple[float, float]], rows: int = 2, dim: int = 2) -> list[DiagonalGaussian]:
    """They differ between rows and dimensions."""
    shift = torch.arange(rows * dim, dtype=torch.float64).view(rows, dim) / 10
    return [DiagonalGaussian(mean + shift, log_std - shift) for mean, log_std in parameters]


def mixture(parameters: list[tuple[float, float]], particles: int, rows: int = 2, dim: int = 2) -> Mixture:
    return even_mixture(gaussians(parameters, rows, dim), particles)


@properties
@given(components, st.integers(1, 60), st.integers(1, 70), st.sampled_from([0.0, 1.0, 300.0]))
def test_streaming_equals_the_direct_computation_for_every_chunk_size(
    parameters: list[tuple[float, float]], particles: int, chunk: int, scale: float
) -> None:
    """To 1e-10, by numpy and scipy on all draws at once. ``scale`` spreads the scores over up to thousands of nats."""
    proposal = mixture(parameters, particles)
    drawn: list[Tensor] = []

    def score(z: Tensor) -> Tensor:
        drawn.append(z)
        return -scale * (z**2).sum(-1)

    streamed = log_mean_weight(score, standard_normal_log_prob, proposal, chunk, seeded(0))
    assert max(len(part) for part in drawn) <= chunk
    z = torch.cat(drawn).numpy()
    assert z.shape == (particles, 2, 2)
    density = special.logsumexp(
        [
            stats.norm.logpdf(z, c.mean.numpy(), np.exp(c.log_std.numpy())).sum(-1) + math.log(count / particles)
            for c, (_, count) in zip(gaussians(parameters), proposal, strict=False)
        ],
        axis=0,
    )
    log_weight = -scale * (z**2).sum(-1) + stats.norm.logpdf(z).sum(-1) - density
    direct = special.logsumexp(log_weight, axis=0) - math.log(particles)
    assert streamed.dtype == torch.float64
    np.testing.assert_allclose(streamed.numpy(), direct, rtol=0, atol=1e-10)


@properties
@given(components, st.integers(1, 20))
def test_the_draws_are_shared_evenly_and_components_without_draws_are_left_out(
    parameters: list[tuple[float, float]], particles: int
) -> None:
    counts = [count for _, count in mixture(parameters, particles)]
    assert sum(counts) == particles
    assert len(counts) == min(particles, len(parameters))
    assert max(counts) - min(counts) <= 1
    assert min(counts) >= 1


@properties
@given(components, st.integers(1, 20))
def test_the_density_of_the_mixture_integrates_to_one(parameters: list[tuple[float, float]], particles: int) -> None:
    grid = torch.linspace(-40, 40, 20_001, dtype=torch.float64)
    proposal = mixture(parameters, particles, rows=1, dim=1)
    density = log_density(proposal, grid[:, None, None]).exp()[:, 0]
    assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=1e-8)


@properties
@given(components, st.integers(2, 40), st.floats(-20, 20))
def test_with_the_prior_in_the_mixture_no_weight_exceeds_a_constant(
    parameters: list[tuple[float, float]], particles: int, z: float
) -> None:
    proposal = mixture([(0.0, 0.0), *parameters], particles, rows=1, dim=1)
    point = torch.tensor([[[z]]], dtype=torch.float64)
    log_weight = standard_normal_log_prob(point) - log_density(proposal, point)
    assert float(log_weight) <= math.log(particles / proposal[0][1]) + 1e-12


@pytest.mark.parametrize(
    ("mean", "log_std", "useless"),
    [(6.0, -2.0, True), (0.0, -5.0, True), (-3.0, 2.0, False), (-1.0, -1.0, False)],
    ids=["elsewhere", "too narrow", "too wide", "good"],
)
@pytest.mark.parametrize("others", [("recognition",), ("recognition", "revealed")], ids=["two", "three"])
def test_with_the_prior_a_recognition_model_costs_at_most_the_logarithm_of_the_number_of_proposals(
    mean: float, log_std: float, useless: bool, others: tuple[ProposalName, ...]
) -> None:
    """Against the prior's own share of the draws, 8, alone; 5 standard errors."""
    latent = GaussianLatent(ConstantRecognizer(mean, log_std), dim=1)
    proposals: tuple[ProposalName, ...] = (*others, "prior")
    alone = estimates(latent, bent, Particles(8, ("prior",)), 2000)
    mixed = estimates(latent, bent, Particles(8 * len(proposals), proposals), 2000, seed=1)
    error = math.hypot(float(standard_error(alone)), float(standard_error(mixed)))
    floor = float(alone.mean()) - math.log(len(proposals))
    assert float(mixed.mean()) > floor - 5 * error
    if useless:
        without = estimates(latent, bent, Particles(8 * len(others), others), 2000, seed=2)
        assert float(without.mean()) < floor - 1, "the prior is what saves it"


def test_recognition_sees_all_of_x0_and_revealed_only_the_values_that_are_scored() -> None:
    recognizer = LeaningRecognizer()
    estimates(GaussianLatent(recognizer, dim=1), zero, Particles(90, rows_per_call=1), 1)
    shown = [(x0[0].tolist(), xt[0].tolist()) for x0, xt in recognizer.seen]
    assert shown == [([2, 0, 1], [2, 3, 3]), ([2, 3, 1], [2, 3, 3])], "once each, however many particles and chunks"


def test_the_papers_number_draws_from_the_recognition_model_alone() -> None:
    model = MaskedDiffusion(
        TableDenoiser(3, 3, latent=True), LINEAR.schedule, GaussianLatent(LeaningRecognizer(), dim=1)
    )
    x0 = torch.tensor([[0, 1, 2], [2, 0, 1]])
    found = [k_sample_delbo(model, x0, Particles(6, proposals), 3, seeded(0)) for proposals in PROPOSALS]
    assert all(other.equal(found[0]) for other in found[1:])


class WatchedDenoiser(TableDenoiser):
    def __init__(self) -> None:
        super().__init__(3, 3, latent=True)
        self.asked: list[tuple[Tensor, Tensor]] = []

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        self.asked.append((xt, where))
        return super().forward(xt, z, t, where)


@pytest.mark.parametrize("count", [10, 300])
@pytest.mark.parametrize("rows_per_call", [8, 100])
def test_the_denoiser_sees_few_sequences_at_once_and_is_asked_only_for_positions_that_are_scored(
    count: int, rows_per_call: int
) -> None:
    """Memory is set by ``rows_per_call``, not by K, the number of examples or the number of masks."""
    denoiser = WatchedDenoiser()
    model = MaskedDiffusion(denoiser, LINEAR.schedule, GaussianLatent(TableRecognizer(3, 3), dim=1))
    particles = Particles(count, rows_per_call=rows_per_call)
    x0 = torch.zeros(10, 3, dtype=torch.long)
    step_bound(model, x0, 3, particles, seeded(0))
    # Over all steps every position of every example is scored once by every particle.
    assert sum(int(where.sum()) for _, where in denoiser.asked) == x0.numel() * count
    k_sample_delbo(model, x0, particles, 2, seeded(0))
    assert max(len(xt) for xt, _ in denoiser.asked) <= rows_per_call
    assert all(bool((xt[where] == 3).all()) for xt, where in denoiser.asked), "only hidden positions are scored"


def test_the_number_of_rows_per_call_changes_nothing_but_the_order_of_draws() -> None:
    x0 = torch.tensor([[0, 1, 2], [1, 1, 0]]).repeat(1000, 1)
    without = MaskedDiffusion(TableDenoiser(3, 3, seed=1, timed=True), LINEAR.schedule)
    exact = step_bound(without, x0, 3, Particles(1), seeded(0))
    assert torch.allclose(step_bound(without, x0, 3, Particles(1, rows_per_call=7), seeded(0)), exact, atol=1e-12)
    with_latent = MaskedDiffusion(
        TableDenoiser(3, 3, seed=1, latent=True), LINEAR.schedule, GaussianLatent(TableRecognizer(3, 3), dim=1)
    )
    whole = step_bound(with_latent, x0, 3, Particles(8), seeded(0))
    for rows in (50, 3000):
        parts = step_bound(with_latent, x0, 3, Particles(8, rows_per_call=rows), seeded(0))
        assert not parts.equal(whole)
        assert sigmas(parts - whole, 0) < 5  # the same masks, other particles


def test_the_same_seed_gives_the_same_numbers() -> None:
    latent = GaussianLatent(LeaningRecognizer(), dim=1)
    assert estimates(latent, bent, Particles(9), 50).equal(estimates(latent, bent, Particles(9), 50))
    assert not estimates(latent, bent, Particles(9), 50, seed=1).equal(estimates(latent, bent, Particles(9), 50))


@pytest.mark.parametrize(("count", "limit"), [(0, "least 1"), (-3, "least 1"), (2**20 + 1, "most 1,048,576")])
def test_the_number_of_particles_has_limits(count: int, limit: str) -> None:
    with pytest.raises(UserError, match=f"at {limit}, not {count}"):
        Particles(count)


@pytest.mark.parametrize(
    ("proposals", "named"), [(("posterior",), "'posterior'"), (("prior", "q"), "'q'"), ((), "none")]
)
def test_unknown_proposals_and_none_at_all_are_refused(proposals: tuple[ProposalName, ...], named: str) -> None:
    with pytest.raises(UserError, match=f"proposals takes recognition, revealed, prior, not {named}$"):
        Particles(4, proposals)
