"""States of few-step samplers, and the bound that a shared latent trains on, against sums over masks, plans and z.

Shares and batches are chosen so that every share of a batch is a whole number: then the times of a batch, and with them
their weights, are always the same ones but for their order, and expectations over them are exact sums.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.bounds import PriorGrid
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    KnownSchedule,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    chi_square_p_value,
    gauss_hermite,
    index_of,
    seeded,
)
from tests.helpers.plans import ancestral, planned_law, step_log_likelihoods
from tests.helpers.priors import bent_flow
from vadd.core import FlowPrior, MaskedBatch, MaskedDiffusion, Masking, SharedLatent, StepTimes
from vadd.errors import UserError

SHARES = {1: 0.3, 2: 0.2, 3: 0.5}
BATCH = 60
MIXTURES = [{1: 1.0}, {3: 2.0}, {2: 0.5, 3: 0.5}, SHARES]
for_each_schedule = pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
for_each_mixture = pytest.mark.parametrize("shares", MIXTURES, ids=str)


def draw_of(shares: dict[int, float]) -> StepTimes:
    return StepTimes(tuple(shares.items()))


def normalised(shares: dict[int, float]) -> dict[int, float]:
    return {steps: share / sum(shares.values()) for steps, share in shares.items()}


def grid_of(steps: int) -> list[float]:
    return [step / steps for step in range(steps + 1)]


def mask_probabilities(known: KnownSchedule, t: float, masks: Tensor) -> Tensor:
    """P(S | t) for masks (M, N): (M,)."""
    hidden, count = 1 - known.alpha(t), masks.sum(1).double()
    return hidden**count * (1 - hidden) ** (masks.shape[1] - count)


@for_each_schedule
@for_each_mixture
def test_times_and_weights_are_those_of_the_steps_as_often_as_their_shares_say(
    known: KnownSchedule, shares: dict[int, float]
) -> None:
    """t = i / T and w = T rho_i, share / T of the batch each: exact counts, float32 values."""
    masking = draw_of(shares)(BATCH, 4, known.schedule, seeded(0))
    expected = sorted(
        (i / steps, steps * known.reveal(i / steps, (i - 1) / steps))
        for steps, share in normalised(shares).items()
        for i in range(1, steps + 1)
        for _ in range(round(BATCH * share / steps))
    )
    # Weights of equal times are sorted among themselves; the times must not differ in their last bit for that.
    found = sorted((round(t, 6), w) for t, w in zip(masking.t.tolist(), masking.weight.tolist(), strict=True))
    assert_close(torch.tensor(found), torch.tensor(sorted((round(t, 6), w) for t, w in expected)))


@pytest.mark.parametrize("batch", [1, 7, 64, 100])
def test_the_default_shares_are_respected_to_one_example(batch: int) -> None:
    """Of each T at most one more or less than its share; T is told by the time and the cosine schedule's weight."""
    draw = StepTimes()
    for seed in range(5):
        masking = draw(batch, 3, COSINE.schedule, seeded(seed))
        counted = dict.fromkeys((steps for steps, _ in draw.shares), 0)
        for t, weight in zip(masking.t.tolist(), masking.weight.tolist(), strict=True):
            counted[steps_of(t, weight, list(counted))] += 1
        assert all(abs(counted[steps] - batch * share) <= 1 + 1e-9 for steps, share in draw.shares)


def steps_of(t: float, weight: float, numbers: list[int]) -> int:
    """The T whose uniform grid has the time t, with this weight under the cosine schedule."""
    on_grid = [steps for steps in numbers if abs(t * steps - round(t * steps)) < 1e-5]
    return min(on_grid, key=lambda steps: abs(steps * COSINE.reveal(t, t - 1 / steps) - weight))


@for_each_schedule
def test_positions_are_masked_independently_as_often_as_the_schedule_says(known: KnownSchedule) -> None:
    """All eight masks of three positions at each time, 30,000 draws: chi-square at level 1e-5, three times a
    schedule; by chance 6e-5 for both, if the seed is ever changed.
    """
    masking = draw_of(SHARES)(30_000, 3, known.schedule, seeded(1))
    masks = all_sequences(3, 2).bool()
    for t in (1 / 3, 1 / 2, 2 / 3):
        seen = masking.masked[(masking.t - t).abs() < 1e-6]
        counts = index_of(seen.long(), 2).bincount(minlength=8)
        assert chi_square_p_value(counts.numpy(), mask_probabilities(known, t, masks).numpy()) > 1e-5


def test_one_step_masks_everything_and_weighs_one() -> None:
    for known in (LINEAR, COSINE):
        masking = draw_of({1: 1.0})(50, 5, known.schedule, seeded(2))
        assert bool(masking.masked.all())
        assert torch.equal(masking.t, torch.ones(50))
        assert_close(masking.weight, torch.ones(50))


@pytest.mark.parametrize(
    "shares",
    [(), ((0, 1.0),), ((-2, 1.0),), ((2, 0.0),), ((1, 0.5), (2, -0.1)), ((1, math.nan),), ((1, math.inf), (2, 1.0))],
    ids=str,
)
def test_shares_that_make_no_sense_are_refused(shares: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(UserError, match="takes numbers of at least 1 with shares above 0, not ") as refused:
        StepTimes(shares)
    assert "\n" not in str(refused.value)


DENOISER = TableDenoiser(2, 3, seed=31, latent=True, timed=True)
X0 = all_sequences(2, 3)
MASKS = all_sequences(2, 2).bool()


def steps_of_a_batch(known: KnownSchedule, shares: dict[int, float]) -> list[tuple[float, float, float]]:
    """Every time and weight that the package draws, with the share of the batch that has it."""
    masking = draw_of(shares)(BATCH, 2, known.schedule, seeded(3))
    pairs = list(zip(masking.t.tolist(), masking.weight.tolist(), strict=True))
    return [(t, weight, pairs.count((t, weight)) / BATCH) for t, weight in sorted(set(pairs))]


@torch.no_grad()
def sampled_reconstruction(known: KnownSchedule, shares: dict[int, float], z: Tensor) -> Tensor:
    """E w sum_{j in S} log mu_j(x_S, z, t)[x0_j] over the package's times and weights and all masks S, for every z
    (Z, 1) and x0: (Z, X).
    """
    total = torch.zeros(len(z), len(X0), dtype=torch.float64)
    for t, weight, share in steps_of_a_batch(known, shares):
        for mask, probability in zip(MASKS, mask_probabilities(known, t, MASKS).tolist(), strict=True):
            xt = X0.masked_fill(mask, 3).repeat(len(z), 1)
            times = torch.full((len(xt),), t, dtype=torch.float64)
            log_mu = DENOISER(xt, z.repeat_interleave(len(X0), 0), times, torch.ones_like(xt, dtype=torch.bool))
            log_mu = log_mu.view(len(z), len(X0), 2, 3).log_softmax(-1)
            chosen = log_mu.gather(-1, X0.expand(len(z), -1, -1)[..., None])[..., 0]
            total += share * weight * probability * (chosen * mask).sum(-1)
    return total


def reconstruction_of_the_bound(known: KnownSchedule, steps: int, z: Tensor) -> Tensor:
    """E_plan sum_i sum_{j in U_i} log mu_j(x_{t_i}, z, t_i)[x0_j] of the sampler with T steps: (Z, X)."""
    plans, grid = ancestral(grid_of(steps))([True, True], known), PriorGrid(z, torch.ones(len(z)))
    of_steps = [step_log_likelihoods(DENOISER, grid, plans, X0, step) for step in range(1, steps + 1)]
    return torch.einsum("p,zpx->zx", plans.probabilities, torch.stack(of_steps).sum(0))


@for_each_schedule
@for_each_mixture
def test_the_weighted_reconstruction_is_that_of_the_bound_averaged_over_t(
    known: KnownSchedule, shares: dict[int, float]
) -> None:
    """Exact sums on both sides, for every x0 and five z; times and weights in float32, so to 1e-5."""
    z = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    expected = sum(
        (share * reconstruction_of_the_bound(known, steps, z) for steps, share in normalised(shares).items()),
        torch.zeros(()),
    )
    assert_close(sampled_reconstruction(known, shares, z), expected, rtol=0, atol=1e-5)


@dataclass(frozen=True)
class WithNoise(MaskedBatch):
    """A batch whose random numbers are given: nodes of a quadrature."""

    noise: Tensor | None = None

    def normal(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        assert self.noise is not None
        return self.noise.view(draws, len(self.x0), dim)


NODES, NODE_WEIGHTS = gauss_hermite(60)
FLOW = FlowPrior(bent_flow(1, seed=5, by=0.1)).requires_grad_(False)
AUTOREGRESSIVE = FlowPrior(bent_flow(1, seed=5, by=0.1, components=0)).requires_grad_(False)


def shared_model(known: KnownSchedule, prior: FlowPrior | None) -> MaskedDiffusion:
    return MaskedDiffusion(
        DENOISER, known.schedule, SharedLatent(TableRecognizer(2, 3, seed=6), 1, mask_value=3, prior=prior)
    ).requires_grad_(False)


def quadrature(known: KnownSchedule, shares: dict[int, float]) -> tuple[WithNoise, Tensor]:
    """Every x0, time, mask and node as one batch, and the probability of each row given its x0."""
    rows = [
        (x0, mask, t, weight, node, share * probability * node_weight)
        for x0 in X0
        for t, weight, share in steps_of_a_batch(known, shares)
        for mask, probability in zip(MASKS, mask_probabilities(known, t, MASKS).tolist(), strict=True)
        for node, node_weight in zip(NODES.tolist(), NODE_WEIGHTS.tolist(), strict=True)
    ]
    clean, masks = torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
    t, weight, noise, probability = torch.tensor([row[2:] for row in rows], dtype=torch.float64).T
    batch = WithNoise(clean, clean.masked_fill(masks, 3), Masking(masks, t, weight), noise=noise)
    return batch, probability


@for_each_schedule
@pytest.mark.parametrize("shares", [{1: 1.0}, {2: 1.0}, SHARES], ids=str)
@pytest.mark.parametrize("prior", [None, FLOW, AUTOREGRESSIVE], ids=["normal", "flow", "autoregressive"])
def test_the_objective_of_a_shared_latent_is_a_bound_of_the_likelihood_with_one_z(
    known: KnownSchedule, shares: dict[int, float], prior: FlowPrior | None
) -> None:
    """Its mean over states and z, summed for every x0, is E_T [E_plan E_r log prod - KL] to 1e-5, and lies below the
    mean over T of the exact log p_T(x0) of the sampler that keeps its z.
    """
    model = shared_model(known, prior)
    batch, probability = quadrature(known, shares)
    evidence = model(batch, 1.0, seeded(0))
    per_x0 = (probability * evidence.bound).view(len(X0), -1).sum(1)

    posterior = model.posterior(MaskedBatch.all_masked(X0, 3))
    assert posterior is not None
    z = posterior.mean + posterior.log_std.exp() * NODES  # (X, nodes)
    if prior is None:
        kl = posterior.kl_to_standard_normal()[:, 0]
    else:
        nothing = torch.full((len(X0), 2), 3)
        kl = (posterior.log_prob(z.T[..., None]) - prior.log_prob(z.T[..., None], nothing)).T @ NODE_WEIGHTS
    expected, likelihood = -kl, torch.zeros(len(X0), dtype=torch.float64)
    for steps, share in normalised(shares).items():
        at_nodes = reconstruction_of_the_bound(known, steps, z.flatten()[:, None]).view(len(X0), len(NODES), len(X0))
        own = at_nodes.diagonal(dim1=0, dim2=2)  # (nodes, X): the z of each x0 for that x0
        expected = expected + share * (NODE_WEIGHTS @ own)
        grid = PriorGrid.even(400) if prior is None else PriorGrid(*prior.nodes(2000, torch.tensor([3, 3])))
        law = planned_law(DENOISER, known, ancestral(grid_of(steps)), fixed_z=True, prior=grid)
        likelihood += share * law.log()
    assert_close(per_x0, expected, rtol=0, atol=1e-5)
    assert bool((per_x0 < likelihood).all())


@pytest.mark.parametrize("prior", [None, FLOW, AUTOREGRESSIVE], ids=["normal", "flow", "autoregressive"])
@pytest.mark.parametrize("kl_weight", [1.0, 0.25])
def test_an_example_with_nothing_masked_pays_its_kl_once_and_so_does_every_other(
    prior: FlowPrior | None, kl_weight: float
) -> None:
    """Whatever its weight is; and its z does not depend on the state."""
    model = shared_model(LINEAR, prior)
    states = torch.tensor([[False, False], [True, False], [True, True]])
    x0, weight = torch.tensor([[1, 2]]).repeat(3, 1), torch.tensor([5.0, 2.0, 1.0])
    batch = WithNoise(
        x0, x0.masked_fill(states, 3), Masking(states, torch.rand(3), weight), noise=torch.full((3,), 0.4)
    )
    evidence = model(batch, kl_weight, seeded(0))
    assert float(evidence.reconstruction[0]) == 0.0
    assert float(evidence.kl[0]) > 0
    assert torch.equal(evidence.kl, evidence.kl[:1].expand(3))
    assert_close(evidence.bound, evidence.reconstruction - kl_weight * evidence.kl)
    assert bool((evidence.reconstruction[1:] < 0).all())
