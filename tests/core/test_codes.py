"""Codes that are summed exactly, against enumeration: every state, every code, z (d = 0 or 1) on a grid.

Seeds are fixed. Comparisons of means fail by chance beyond 5 standard errors, those of frequencies below a p-value of
1e-5; there are fewer than 60.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.bounds import PriorGrid, grid_times, standard_error
from tests.helpers.exact import (
    LINEAR,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    chi_square_p_value,
    index_of,
    nonempty_masks,
    seeded,
    step_matrix,
)
from vadd.core import (
    CodedLatent,
    GaussianLatent,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    Noise,
    Particles,
    latent_health,
    sample,
    step_bound,
)
from vadd.core.sampling import LatentPolicy
from vadd.errors import UserError
from vadd.run.infilling import latents_that_fit

CODES = 3
PI = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
POSITIONS, VALUES = 3, 2
for_both_widths = pytest.mark.parametrize("dim", [0, 1])


class CodedTable(TableDenoiser):
    """Random logits for every state and code; with a z before the code they bend with a sine of it."""

    def __init__(self, positions: int, values: int, *, dim: int, seed: int = 0) -> None:
        super().__init__(positions, values, seed=seed, latent=dim > 0)
        shape = (CODES, *self.base.shape)
        self.of_code = nn.Parameter(2 * torch.randn(shape, generator=seeded(seed + 100), dtype=torch.float64))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        assert z.shape[1] == self.latent + CODES
        plain = super().forward(xt, z, t, torch.ones_like(where))
        state = index_of(xt, self.vocab_size + 1)
        added = torch.einsum("bc,cbnv->bnv", z[:, -CODES:].double(), self.of_code[:, state])
        return (plain.view(added.shape) + added)[where]


def coded_model(dim: int, particles: int = 1, *, positions: int = POSITIONS, values: int = VALUES) -> MaskedDiffusion:
    inner = GaussianLatent(TableRecognizer(positions, values, seed=3), 1, particles) if dim else None
    latent = CodedLatent(CODES, inner)
    latent.logits.data = PI.log().float() + 0.7  # a softmax does not see the constant
    return MaskedDiffusion(CodedTable(positions, values, dim=dim), LINEAR.schedule, latent)


def nodes_of(model: MaskedDiffusion, count: int = 301) -> tuple[Tensor, Tensor]:
    """Points (Z, d + C) and weights (Z,) that stand for the prior, made without the package."""
    codes = torch.eye(CODES, dtype=torch.float64)
    if model.latent.dim == CODES:
        return codes, PI
    grid = PriorGrid.even(count)
    pairs = torch.cat([grid.z.repeat_interleave(CODES, 0), codes.repeat(count, 1)], dim=1)
    return pairs, (grid.weights[:, None] * PI).flatten()


@torch.no_grad()
def exact_log_joint(model: MaskedDiffusion, batch: MaskedBatch, where: Tensor) -> Tensor:
    """log E_z sum_c pi_c prod_{i in where} mu_i[x0_i], (B,)."""
    nodes, weights = nodes_of(model)
    scores = model.log_likelihood(batch, nodes[:, None].expand(-1, len(batch.x0), -1), where)
    return (scores + weights.log()[:, None]).logsumexp(0)


@torch.no_grad()
def law_of(model: MaskedDiffusion, steps: int, policy: LatentPolicy) -> Tensor:
    """The exact distribution of the sampler's output, (V ** N,)."""
    denoiser = model.denoiser
    assert isinstance(denoiser, CodedTable)
    nodes, weights = nodes_of(model)
    states = all_sequences(denoiser.positions, denoiser.vocab_size + 1)
    law = torch.zeros(len(nodes), 1, len(states), dtype=torch.float64)
    law[:, :, -1] = 1  # all masked is the last state
    for s, t in reversed(list(itertools.pairwise(grid_times(steps)))):
        law = law @ step_matrix(denoiser, nodes, t, LINEAR.reveal(t, s))
        if policy == "resample":
            law = torch.einsum("z,zis->is", weights, law).expand(len(nodes), -1, -1)
    complete = (states < denoiser.vocab_size).all(1)
    return torch.einsum("z,zis->s", weights, law)[complete]


def every_problem() -> MaskedBatch:
    """Every x0 under every mask, with weights that differ."""
    x0, masks = all_sequences(POSITIONS, VALUES), nonempty_masks(POSITIONS)
    rows, masked = x0.repeat_interleave(len(masks), 0), masks.repeat(len(x0), 1)
    weight = torch.linspace(0.5, 2, len(rows))
    return MaskedBatch.of(rows, Masking(masked, torch.full((len(rows),), 0.6), weight), VALUES)


def test_with_codes_alone_the_evidence_is_the_logarithm_of_the_sum() -> None:
    model, batch = coded_model(0), every_problem()
    evidence = model(batch, 0.3, seeded(0))
    exact = batch.masking.weight * exact_log_joint(model, batch, batch.masked)
    assert_close(evidence.bound.detach(), exact, rtol=1e-6, atol=1e-6)
    assert_close(evidence.reconstruction, evidence.bound)
    assert not evidence.kl.any()


def test_the_gradient_of_the_prior_is_what_the_posterior_of_the_codes_has_more_than_it() -> None:
    model, batch = coded_model(0), every_problem()
    latent = model.latent
    assert isinstance(latent, CodedLatent)
    model(batch, 1.0, seeded(0)).bound.sum().backward()
    codes = torch.eye(CODES)[:, None].expand(-1, len(batch.x0), -1)
    posterior = (model.log_likelihood(batch, codes, batch.masked) + PI.log()[:, None]).softmax(0)
    expected = (batch.masking.weight * (posterior - PI[:, None])).sum(1).detach()
    assert latent.logits.grad is not None
    assert float(expected.abs().min()) > 0.1
    assert_close(latent.logits.grad.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("particles", [1, 3])
def test_beside_a_gaussian_the_codes_are_summed_inside_its_bound(particles: int) -> None:
    model, batch = coded_model(1, particles), every_problem()
    posterior = model.posterior(batch)
    assert posterior is not None
    z = posterior.from_noise(batch.normal(particles, 1, seeded(4)))
    codes = torch.eye(CODES, dtype=torch.float64)
    summed = torch.stack(
        [
            model.log_likelihood(batch, torch.cat([z, code.expand(*z.shape[:2], -1)], dim=2), batch.masked) + p.log()
            for code, p in zip(codes, PI, strict=True)
        ]
    ).logsumexp(0)
    kl = posterior.kl_to_standard_normal().sum(-1)
    log_ratio = 0.5 * (-(z**2) + ((z - posterior.mean) / posterior.log_std.exp()) ** 2).sum(-1)
    ratio = log_ratio + posterior.log_std.sum(-1)
    several = (summed + 0.4 * ratio).logsumexp(0) - math.log(particles)
    expected = summed[0] - 0.4 * kl if particles == 1 else several
    evidence = model(batch, 0.4, seeded(4))
    weight = batch.masking.weight
    for found, wanted in ((evidence.bound, expected), (evidence.reconstruction, summed.mean(0)), (evidence.kl, kl)):
        assert_close(found, weight * wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows_per_call", [1, 100, 16384])
def test_with_codes_alone_the_marginal_is_exact_in_parts_of_any_size(rows_per_call: int) -> None:
    model, batch = coded_model(0), every_problem()
    revealed = batch.masked & (torch.arange(POSITIONS) > 0)
    batch, revealed = batch[revealed.any(1)], revealed[revealed.any(1)]
    seen: list[int] = []

    def score(z: Tensor | None) -> Tensor:
        assert z is not None
        seen.append(len(z))
        return model.log_likelihood(batch, z, revealed)

    with torch.no_grad():
        found = model.latent.log_marginal(score, batch, revealed, Particles(1, rows_per_call=rows_per_call), seeded(0))
    assert found.dtype == torch.float64
    assert sum(seen) == CODES
    assert max(seen) * len(batch.x0) <= max(rows_per_call, len(batch.x0))
    assert_close(found, exact_log_joint(model, batch, revealed), rtol=1e-6, atol=1e-6)


def test_beside_a_gaussian_the_marginal_stays_below_and_comes_close() -> None:
    model = coded_model(1)
    x0 = all_sequences(POSITIONS, VALUES)
    batch = MaskedBatch.all_masked(x0, VALUES)
    exact = exact_log_joint(model, batch, batch.masked)
    means = []
    for count in (1, 8, 256):
        found = step_bound(model, x0.repeat(200, 1), 1, Particles(count), seeded(count)).view(200, -1)
        assert bool((found.mean(0) <= exact + 5 * standard_error(found)).all())
        means.append(float((exact - found).mean()))
    assert means[0] > means[1] > means[2] > -1e-3
    assert means[2] < 0.03


def test_with_codes_alone_the_one_step_bound_is_the_likelihood() -> None:
    model, x0 = coded_model(0), all_sequences(POSITIONS, VALUES)
    assert_close(step_bound(model, x0, 1, 1), law_of(model, 1, "resample").log(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("policy", ["resample", "fixed"])
def test_with_codes_alone_several_steps_are_bounded(policy: LatentPolicy) -> None:
    """Jensen over the plans is all that is lost."""
    model, x0 = coded_model(0), all_sequences(POSITIONS, VALUES)
    law = law_of(model, 2, policy).log()
    found = step_bound(model, x0.repeat(500, 1), 2, 1, seeded(1), latent_policy=policy).view(500, -1)
    assert bool((found.mean(0) <= law + 5 * standard_error(found)).all())
    assert float((law - found.mean(0)).mean()) < 1.0


@for_both_widths
@pytest.mark.parametrize(("steps", "policy"), [(1, "resample"), (2, "resample"), (3, "fixed")])
def test_the_sampler_draws_from_the_exact_law(dim: int, steps: int, policy: LatentPolicy) -> None:
    model = coded_model(dim, positions=2, values=3)
    drawn = sample(model, 20_000, steps, seeded(steps), latent_policy=policy).tokens
    counts = index_of(drawn, 3).bincount(minlength=9)
    assert chi_square_p_value(counts.numpy(), law_of(model, steps, policy).numpy()) > 1e-5


@for_both_widths
def test_codes_are_drawn_with_their_probabilities_beside_z(dim: int) -> None:
    latent = coded_model(dim).latent
    z = latent.draw(torch.zeros(20_000, 2), torch.ones(20_000), Noise.of(seeded(2), 20_000))
    assert z is not None
    assert z.shape == (20_000, dim + CODES)
    codes = z[:, dim:]
    assert set(codes.flatten().tolist()) == {0.0, 1.0}
    assert bool((codes.sum(1) == 1).all())
    assert chi_square_p_value(codes.sum(0).numpy(), PI.numpy()) > 1e-5
    if dim:
        means = torch.stack([z[codes[:, c] == 1, 0].mean() for c in range(CODES)])
        assert float(means.abs().max()) < 5 / math.sqrt(0.2 * 20_000)


@for_both_widths
def test_the_prior_nodes_integrate_over_both(dim: int) -> None:
    """E cos(z + c) = exp(-1/2) sum_c pi_c cos(c): every code goes with the whole of z."""
    nodes, weights = coded_model(dim).latent.prior_nodes(2700, torch.zeros(1))
    assert nodes is not None
    assert nodes.shape == (2700 if dim else CODES, dim + CODES)
    assert len(set(map(tuple, nodes.tolist()))) == len(nodes)
    codes = torch.arange(CODES, dtype=torch.float64)
    found = weights @ (nodes[:, :dim].double().sum(1) + nodes[:, dim:].double() @ codes).cos()
    assert float(found) == pytest.approx(math.exp(-dim / 2) * float(PI @ codes.cos()), abs=2e-3 if dim else 1e-6)
    assert_close(weights @ nodes[:, dim:].double(), PI, rtol=1e-6, atol=1e-6)


@for_both_widths
def test_a_point_is_the_mean_and_the_most_probable_code(dim: int) -> None:
    model = coded_model(dim)
    batch = MaskedBatch.all_masked(all_sequences(POSITIONS, VALUES), VALUES)

    def score(z: Tensor | None) -> Tensor:
        return model.log_likelihood(batch, z, batch.masked)

    with torch.no_grad():
        found, posterior = model.latent.point(score, batch), model.posterior(batch)
        assert found is not None
        mean = found[:, :0] if posterior is None else posterior.mean
        every = torch.eye(CODES, dtype=torch.float64)[:, None].expand(-1, len(mean), -1)
        best = (score(torch.cat([mean.expand(CODES, -1, -1), every], dim=2)) + PI.log()[:, None]).argmax(0)
    assert_close(found[:, :dim], mean)
    assert len(set(best.tolist())) > 1
    assert found[:, dim:].argmax(1).tolist() == best.tolist()


def test_completions_choose_the_code_that_goes_with_what_is_known() -> None:
    """Of 400 candidates one is kept; the law of the code that is kept is then close to p(c | known)."""
    model = coded_model(0)
    start = torch.tensor([[1, VALUES, 0]]).repeat(3000, 1)
    z = latents_that_fit(model, start, 400, Noise.of(seeded(5), len(start)))
    assert isinstance(z, Tensor)
    batch = MaskedBatch.all_masked(torch.tensor([[1, 0, 0]]), VALUES)
    with torch.no_grad():
        scores = model.log_likelihood(batch, torch.eye(CODES)[:, None], torch.tensor([[True, False, True]]))
    posterior = (scores[:, 0] + PI.log()).softmax(0)
    assert float((posterior - PI).abs().max()) > 0.05
    assert chi_square_p_value(z.sum(0).numpy(), np.asarray(posterior)) > 1e-5


def test_the_health_is_that_of_the_gaussian_part() -> None:
    x0 = all_sequences(POSITIONS, VALUES)
    assert latent_health(coded_model(0), x0, seeded(0)) is None
    found = latent_health(coded_model(1), x0, seeded(0))
    assert found is not None
    assert found.dimensions == 1


def test_codes_are_at_least_two() -> None:
    with pytest.raises(UserError, match="at least 2 codes"):
        CodedLatent(1)
