"""The objectives against brute-force sums over masks and quadrature over t and z."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from tests.helpers.exact import (
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    gauss_hermite,
    index_of,
    mask_integral,
    nonempty_masks,
    seeded,
    sigmas,
)
from tests.helpers.objectives import evaluate, every_mask_once
from vadd.core import (
    Evidence,
    ExactCount,
    GaussianLatent,
    Latent,
    LinearSchedule,
    MaskDraw,
    MaskedDiffusion,
    Masking,
    StratifiedTimes,
    objective,
)

for_each_size = pytest.mark.parametrize(("positions", "values"), [(2, 5), (3, 3)])


@torch.no_grad()
def exact_bracket(
    denoiser: TableDenoiser, recognizer: TableRecognizer | None, x0: Tensor, masked: Tensor, t: Tensor, kl_weight: float
) -> Tensor:
    """E_r sum_{i in S} log mu_i(xt, z, t)[x0_i] - lambda KL, z by Gauss-Hermite, for every row of ``masked`` (B, N)."""
    result = []
    for mask, time in zip(masked, t, strict=True):
        xt = x0.masked_fill(mask, denoiser.vocab_size)
        nodes, weights = gauss_hermite(64)
        mean, log_std = torch.zeros(1, 1), torch.zeros(1, 1)
        if recognizer is not None:
            mean, log_std = recognizer(x0[None], xt[None], time[None])
        z = mean + log_std.exp() * nodes[:, None]
        logits = denoiser(xt.expand(64, -1), z, time.expand(64), torch.ones(64, len(x0), dtype=torch.bool))
        log_mu = logits.log_softmax(-1).view(64, len(x0), -1)
        log_likelihood = sum(log_mu[:, i, x0[i]] for i in range(len(x0)) if mask[i])
        kl = kl_divergence(Normal(mean, log_std.exp()), Normal(0, 1)).sum()
        result.append((weights * log_likelihood).sum() - kl_weight * kl)
    return torch.stack(result)


@for_each_size
def test_mdlm_is_the_sum_over_counts_of_the_mean_over_subsets(positions: int, values: int) -> None:
    denoiser = TableDenoiser(positions, values)
    x0 = torch.arange(positions) % values
    total = 0.0
    for mask in nonempty_masks(positions):
        xt = x0.masked_fill(mask, values)[None]
        mu = denoiser(xt, None, torch.zeros(1), torch.ones(1, positions, dtype=torch.bool)).softmax(-1).detach()
        k = int(mask.sum())
        total += sum(math.log(mu[i, x0[i]]) for i in range(positions) if mask[i]) / (k * math.comb(positions, k))
    result = evaluate(MaskedDiffusion(denoiser, LinearSchedule()), x0, every_mask_once(positions))
    assert -result.loss.item() * positions == pytest.approx(total, rel=1e-9)
    assert -result.reconstruction.item() == pytest.approx(total, rel=1e-9)
    assert result.kl.item() == 0


@for_each_size
def test_mdlm_with_the_true_conditionals_attains_the_entropy(positions: int, values: int) -> None:
    """By the chain rule over random orders the optimum, averaged over the data, is minus the entropy."""
    data = torch.rand((values,) * positions, generator=seeded(1), dtype=torch.float64) ** 3
    data /= data.sum()
    denoiser = TableDenoiser(positions, values)
    with torch.no_grad():
        for state in all_sequences(positions, values + 1):
            known = data[tuple(slice(None) if v == values else slice(v, v + 1) for v in state.tolist())]
            for i in torch.nonzero(state == values)[:, 0].tolist():
                marginal = known.sum(dim=[j for j in range(positions) if j != i])
                denoiser.base[index_of(state[None], values + 1), i] = marginal.log()
    model, masking = MaskedDiffusion(denoiser, LinearSchedule()), every_mask_once(positions)
    log_likelihoods = [-evaluate(model, x0, masking).loss.item() * positions for x0 in all_sequences(positions, values)]
    mean = (data.flatten() * torch.tensor(log_likelihoods, dtype=torch.float64)).sum().item()
    assert mean == pytest.approx((data * data.log()).sum().item(), rel=1e-9)


@for_each_size
@pytest.mark.parametrize("kl_weight", [0.0, 0.4, 1.0])
def test_vadd_with_a_posterior_of_no_width_is_its_value_at_the_mean(
    positions: int, values: int, kl_weight: float
) -> None:
    """z is then its mean to the last digit, so the sum over masks is exact and free of sampling."""
    denoiser, log_std = TableDenoiser(positions, values, latent=True), -40.0
    x0 = torch.arange(positions) % values
    kl = 0.5 * (0.3**2 - 1) - log_std
    total, total_kl = 0.0, 0.0
    for mask in nonempty_masks(positions):
        everywhere = torch.ones(1, positions, dtype=torch.bool)
        z = torch.full((1, 1), 0.3, dtype=torch.float64)
        mu = denoiser(x0.masked_fill(mask, values)[None], z, torch.zeros(1), everywhere).softmax(-1).detach()
        weight = 1 / (int(mask.sum()) * math.comb(positions, int(mask.sum())))
        total += weight * sum(math.log(mu[i, x0[i]]) for i in range(positions) if mask[i])
        total_kl += weight * kl
    model = MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(ConstantRecognizer(0.3, log_std), dim=1))
    result = evaluate(model, x0, every_mask_once(positions), kl_weight)
    assert -result.reconstruction.item() == pytest.approx(total, rel=1e-9)
    assert result.kl.item() == pytest.approx(total_kl, rel=1e-9)
    assert -result.loss.item() * positions == pytest.approx(total - kl_weight * total_kl, rel=1e-9)


@pytest.mark.parametrize(
    ("draw", "start"), [(ExactCount(), 0.0), (StratifiedTimes(0.02), 0.02)], ids=["exact", "stratified"]
)
@pytest.mark.parametrize("kl_weight", [0.4, 1.0])
@pytest.mark.parametrize("with_latent", [False, True], ids=["mdlm", "vadd"])
def test_the_loss_estimates_the_integral_over_time_masks_and_latent(
    draw: MaskDraw, start: float, kl_weight: float, with_latent: bool
) -> None:
    """A denoiser and a recognizer that both look at t, 300 batches, 5 standard errors: false alarm about 6e-7 each."""
    denoiser = TableDenoiser(2, 3, latent=with_latent, timed=True)
    recognizer = TableRecognizer(2, 3) if with_latent else None
    x0 = torch.tensor([2, 0])
    exact = mask_integral(
        LINEAR,
        2,
        lambda masked, t: exact_bracket(denoiser, recognizer, x0, masked, t, kl_weight if with_latent else 0.0),
        start,
    )
    latent: Latent | None = None if recognizer is None else GaussianLatent(recognizer, dim=1)
    model, generator = MaskedDiffusion(denoiser, LinearSchedule(), latent), seeded(3)
    masked_batches = (draw(64, 2, model.schedule, generator) for _ in range(300))
    losses = torch.stack(
        [evaluate(model, x0, m, kl_weight, seed).loss.detach() for seed, m in enumerate(masked_batches)]
    )
    assert sigmas(-2 * losses, exact) < 5


def test_mdlm_is_vadd_with_a_denoiser_that_ignores_z_and_the_prior_as_posterior() -> None:
    denoiser, x0, masking = TableDenoiser(3, 3, timed=True), torch.tensor([0, 2, 1]), every_mask_once(3)
    latents = [None, GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1)]
    results = [evaluate(MaskedDiffusion(denoiser, LinearSchedule(), latent), x0, masking) for latent in latents]
    gradients = [torch.autograd.grad(result.loss, denoiser.base)[0] for result in results]
    assert_close(results[0].loss, results[1].loss)
    assert_close(gradients[0], gradients[1])
    assert results[1].kl == 0


@pytest.mark.parametrize("weight", [0.0, 1.0, 1e30, math.inf], ids=str)
@pytest.mark.parametrize("particles", [1, 3])
def test_an_example_with_nothing_masked_counts_exactly_zero(weight: float, particles: int) -> None:
    """Value and gradient, also at t = 0 where the weight is infinite."""
    latent = GaussianLatent(ConstantRecognizer(0.7, -0.5), dim=1, particles=particles)
    model = MaskedDiffusion(TableDenoiser(2, 3, latent=True), LinearSchedule(), latent)
    nothing = Masking(torch.zeros(1, 2, dtype=torch.bool), torch.zeros(1), torch.tensor([weight]))
    result = evaluate(model, torch.tensor([0, 1]), nothing)
    assert result.loss == 0
    assert result.reconstruction == 0
    assert result.kl == 0
    gradients = torch.autograd.grad(result.loss, list(model.parameters()), allow_unused=True)
    assert all(gradient is None or (gradient == 0).all() for gradient in gradients)


def test_an_example_with_nothing_masked_still_counts_in_the_mean() -> None:
    latent = GaussianLatent(ConstantRecognizer(0.7, -0.5), dim=1)
    model = MaskedDiffusion(TableDenoiser(2, 3, latent=True), LinearSchedule(), latent)
    one = Masking(torch.tensor([[True, False]]), torch.tensor([0.5]), torch.tensor([2.0]))
    both = Masking(
        torch.tensor([[True, False], [False, False]]), torch.tensor([0.5, 0.0]), torch.tensor([2.0, math.inf])
    )
    alone, beside = (evaluate(model, torch.tensor([0, 1]), masking) for masking in (one, both))
    assert beside.kl.item() == pytest.approx(alone.kl.item() / 2)
    assert alone.kl > 0


@pytest.mark.parametrize("positions", [1, 2, 7])
def test_the_loss_is_per_position_and_its_parts_per_example(positions: int) -> None:
    reconstruction, kl = torch.tensor([-1.0, -2.0, -3.0, -4.0]), torch.tensor([0.5, 0.25, 0.125, 1.0])
    result = objective(Evidence(reconstruction - 0.5 * kl, reconstruction, kl), positions)
    assert result.reconstruction.item() == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert result.kl.item() == pytest.approx((0.5 + 0.25 + 0.125 + 1) / 4)
    assert result.loss.item() * positions == pytest.approx(result.reconstruction.item() + 0.5 * result.kl.item())
