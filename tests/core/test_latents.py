"""The Gaussian and its KL, against torch.distributions, closed forms and quadrature over z."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from tests.helpers.exact import ConstantRecognizer, gauss_hermite, normal_log_density, properties, seeded
from tests.helpers.networks import SMALL, awaken, gradients, small_model
from tests.helpers.priors import bent_flow
from vadd.core import (
    DiagonalGaussian,
    FlowPrior,
    GaussianLatent,
    Latent,
    MaskedBatch,
    Masking,
    Noise,
    NoLatent,
    SharedLatent,
    kl_warmup,
)
from vadd.core.gaussian import standard_normal_log_prob

GRID = torch.linspace(-14, 14, 20_001, dtype=torch.float64)
for_some_gaussians = pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -0.7), (-1.5, 0.4)])


def leaf(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64, requires_grad=True)


def random_gaussian(shape: tuple[int, ...]) -> DiagonalGaussian:
    return DiagonalGaussian(*torch.randn(2, *shape, generator=seeded(0), dtype=torch.float64))


def test_the_log_density_agrees_with_torch() -> None:
    gaussian = random_gaussian((5, 3))
    z = torch.randn(7, 5, 3, generator=seeded(1), dtype=torch.float64)
    assert_close(gaussian.log_prob(z), normal_log_density(z, gaussian.mean, gaussian.log_std.exp()).sum(-1))


def test_the_prior_log_density_agrees_with_torch() -> None:
    z = torch.randn(7, 5, 3, generator=seeded(1), dtype=torch.float64)
    assert_close(standard_normal_log_prob(z), normal_log_density(z).sum(-1))


def test_the_kl_of_each_dimension_agrees_with_torch() -> None:
    gaussian = random_gaussian((5, 3))
    reference = kl_divergence(Normal(gaussian.mean, gaussian.log_std.exp()), Normal(torch.zeros_like(gaussian.mean), 1))
    assert gaussian.kl_to_standard_normal().shape == (5, 3)
    assert_close(gaussian.kl_to_standard_normal(), reference)


@for_some_gaussians
def test_the_kl_and_its_gradient_agree_with_quadrature_and_the_closed_form(mean: float, log_std: float) -> None:
    """On a fixed grid of z, where autograd sees the parameters through the density only."""
    m, s = leaf(mean), leaf(log_std)
    log_r = normal_log_density(GRID, m, s.exp())
    by_quadrature = torch.trapezoid(log_r.exp() * (log_r - normal_log_density(GRID)), GRID)
    expected = torch.autograd.grad(by_quadrature, (m, s))

    kl = DiagonalGaussian(m, s).kl_to_standard_normal().sum()
    gradient = torch.autograd.grad(kl, (m, s))
    assert_close(kl, by_quadrature)
    assert_close(gradient, expected)
    assert_close(gradient, (m.detach(), (2 * s.detach()).exp() - 1))


@for_some_gaussians
def test_the_reparameterised_gradient_is_the_gradient_of_the_expectation(mean: float, log_std: float) -> None:
    """Noise integrated by Gauss-Hermite; the expectation itself on a fixed grid of z."""

    def function(z: Tensor) -> Tensor:
        return torch.sin(z) + 0.1 * z**3

    m, s = leaf(mean), leaf(log_std)
    nodes, weights = gauss_hermite(60)
    through_noise = (weights * function(DiagonalGaussian(m, s).from_noise(nodes))).sum()
    expectation = torch.trapezoid(normal_log_density(GRID, m, s.exp()).exp() * function(GRID), GRID)
    assert_close(through_noise, expectation)
    assert_close(torch.autograd.grad(through_noise, (m, s)), torch.autograd.grad(expectation, (m, s)))


def test_the_prior_is_drawn_as_a_standard_normal() -> None:
    """Kolmogorov-Smirnov for each dimension at level 1e-6, correlation within 5 standard errors."""
    latent, noise = GaussianLatent(ConstantRecognizer(0, 0), dim=2), Noise.of(seeded(2), 20_000)
    z = latent.draw(torch.zeros(20_000, 2), torch.ones(20_000), noise)
    assert z.shape == (20_000, 2)
    for dimension in z.T:
        assert stats.kstest(dimension.numpy(), stats.norm.cdf).pvalue > 1e-6
    assert abs(float(torch.corrcoef(z.T)[0, 1])) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize(("dim", "tolerance"), [(1, 2e-3), (2, 2e-2), (3, 2e-2)])
def test_the_prior_nodes_integrate_over_the_prior(dim: int, tolerance: float) -> None:
    """E prod_j cos(z_j) = exp(-d / 2), E sum_j z_j^2 = d; in one dimension the tails cost most, in more the spacing."""
    nodes, weights = GaussianLatent(ConstantRecognizer(0, 0), dim=dim).prior_nodes(4096, torch.zeros(1))
    assert nodes.shape == (4096, dim)
    assert weights.shape == (4096,)
    assert weights.sum().item() == pytest.approx(1)
    assert (weights * nodes.cos().prod(1)).sum().item() == pytest.approx(math.exp(-dim / 2), abs=tolerance)
    assert (weights * nodes.square().sum(1)).sum().item() == pytest.approx(dim, abs=3 * dim * tolerance)
    assert (weights[:, None] * nodes).sum(0).tolist() == pytest.approx([0.0] * dim, abs=tolerance)


def test_without_a_latent_one_node_carries_all_weight() -> None:
    nodes, weights = NoLatent().prior_nodes(100, torch.zeros(1))
    assert nodes is None
    assert weights.tolist() == [1.0]


def test_the_posterior_is_what_the_recognizer_says() -> None:
    latent = GaussianLatent(ConstantRecognizer(0.3, -1.2), dim=1)
    posterior = latent.posterior(MaskedBatch.all_masked(torch.zeros(4, 2, dtype=torch.long), 3))
    assert_close(posterior.mean, torch.full((4, 1), 0.3, dtype=torch.float64))
    assert_close(posterior.log_std, torch.full((4, 1), -1.2, dtype=torch.float64))


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("vocab_size", [2, 3, 100])
@pytest.mark.parametrize("kind", sorted(SMALL))
def test_a_shared_latent_is_recognised_as_if_everything_were_masked(kind: str, vocab_size: int, size: int) -> None:
    """Whatever is masked, at whatever time: the posterior and its gradients are those that the network gives for an xt
    of its own for each example, to float32 rounding.
    """
    latent = small_model(kind, vocab_size=vocab_size, overrides=["latent.kind=shared"]).eval().latent
    assert isinstance(latent, SharedLatent)
    torch.manual_seed(0)
    awaken(latent.recognizer)
    x0 = torch.randint(vocab_size, (size, 4), generator=seeded(1))
    masked = torch.rand(size, 4, generator=seeded(2)) < 0.5
    times = torch.rand(size, generator=seeded(3))
    found = latent.posterior(MaskedBatch.of(x0, Masking(masked, times, torch.ones(size)), vocab_size))
    expected = latent.recognizer(x0, torch.full((size, 4), vocab_size), torch.ones(size))
    pull = torch.randn(2, size, latent.dim, generator=seeded(4))
    pulled = []
    for mean, log_std in ((found.mean, found.log_std), expected):
        latent.zero_grad()
        (torch.stack([mean, log_std]) * pull).sum().backward()  # type: ignore[no-untyped-call]
        pulled.append([gradient.clone() for gradient in gradients(latent.recognizer)])
    assert_close((found.mean, found.log_std), expected, rtol=1e-5, atol=1e-5)
    assert_close(pulled[0], pulled[1], rtol=1e-4, atol=1e-5)


def test_without_a_latent_there_is_nothing_to_draw() -> None:
    latent: Latent = NoLatent()
    generator = seeded(0)
    before = generator.get_state()
    assert latent.draw(torch.zeros(3, 2), torch.ones(3), Noise.of(generator, 3)) is None
    assert latent.dim == 0
    assert generator.get_state().equal(before)


@given(step=st.integers(0, 10_000), warmup=st.integers(1, 5_000))
@properties
def test_the_kl_weight_rises_linearly_to_one_and_stays(step: int, warmup: int) -> None:
    weight = kl_warmup(step, warmup)
    assert weight == pytest.approx(step / warmup if step < warmup else 1.0)
    assert kl_warmup(step + 1, warmup) >= weight
    assert kl_warmup(step, warmup, power=3.0) == pytest.approx(weight**3)


@pytest.mark.parametrize("step", [0, 1, 1000])
def test_without_warmup_the_kl_weight_is_one(step: int) -> None:
    assert kl_warmup(step, 0) == 1.0


def test_the_kl_weight_starts_at_zero() -> None:
    assert kl_warmup(0, 10) == 0.0


def test_the_recognition_model_of_a_shared_latent_does_not_see_the_state() -> None:
    """The posterior is the same in every state: the one of a per-state latent with everything masked."""
    latent, per_state = SharedLatent(Reads(), 2, mask_value=4), GaussianLatent(Reads(), 2)
    x0 = torch.tensor([[0, 1, 2], [3, 1, 0]])
    hidden = torch.tensor([[True, False, True], [False, True, True]])
    some, everything = (
        MaskedBatch(x0, torch.where(masked, 4, x0), Masking(masked, torch.ones(2), torch.ones(2)))
        for masked in (hidden, torch.ones_like(hidden))
    )
    assert torch.equal(latent.posterior(some).mean, latent.posterior(everything).mean)
    assert not torch.equal(per_state.posterior(some).mean, per_state.posterior(everything).mean)
    assert torch.equal(latent.posterior(some).mean, per_state.posterior(everything).mean)


class Reads(nn.Module):
    """A recognition model whose answer is what it was shown."""

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.stack([x0.float().sum(1), xt.float().sum(1)], dim=1)
        return mean, torch.zeros_like(mean)


@pytest.mark.parametrize("kl_weight", [0.0, 0.3, 1.0])
def test_a_trained_prior_follows_at_full_weight_while_the_posterior_feels_the_kl_weight(kl_weight: float) -> None:
    """One pass gives the gradients of two terms with crosswise stops: -log p(z) for the prior's weights, and
    kl_weight KL for the posterior's. Its value is that of the weighted bound.
    """
    prior = FlowPrior(bent_flow(2, seed=3, by=0.1, components=0))
    latent = SharedLatent(nn.Sequential(), 2, mask_value=4, prior=prior)
    mean = torch.randn(5, 2, generator=seeded(0)).requires_grad_()
    log_std = torch.full((5, 2), -0.5).requires_grad_()
    latent._recognized = lambda *_: DiagonalGaussian(mean, log_std)  # type: ignore[method-assign]
    batch = MaskedBatch.all_masked(torch.zeros(5, 3, dtype=torch.int64), 4)

    def score(z: Tensor | None) -> Tensor:
        assert z is not None
        return z.sum(-1)

    evidence = latent.evidence(score, batch, torch.ones(5), kl_weight, seeded(1))
    evidence.bound.sum().backward()  # type: ignore[no-untyped-call]
    followed = [parameter.grad for parameter in prior.parameters()]
    felt = mean.grad, log_std.grad
    assert_close(evidence.bound, evidence.reconstruction - kl_weight * evidence.kl)

    mean.grad = log_std.grad = None
    prior.zero_grad()
    z = DiagonalGaussian(mean, log_std).from_noise(batch.normal(1, 2, seeded(1)))
    prior.log_prob(z.detach(), batch.xt).sum().backward()  # type: ignore[no-untyped-call]
    for got, parameter in zip(followed, prior.parameters(), strict=True):
        assert_close(got, parameter.grad)
    prior.requires_grad_(False)
    entropy = (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()
    (z.sum() + kl_weight * (entropy + prior.log_prob(z, batch.xt).sum())).backward()  # type: ignore[no-untyped-call]
    assert_close(felt, (mean.grad, log_std.grad))
