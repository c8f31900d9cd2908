"""The evidence bounds of the Gaussian latent against quadrature over z, for one and for many particles."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from tests.helpers.exact import ConstantRecognizer, gauss_hermite, normal_log_density, seeded, sigmas
from vadd.core import Evidence, GaussianLatent, IidTimes, LinearSchedule, MaskedBatch, NoLatent

MEAN, LOG_STD = 0.5, -0.3
GRID = torch.linspace(-12, 12, 20_001, dtype=torch.float64)


def log_likelihood(z: Tensor) -> Tensor:
    """The log-probability of two values given z (..., 1): one more likely for large z, the other for small z."""
    return (F.logsigmoid(4 * z - 2) + F.logsigmoid(1 - 2 * z)).sum(-1)


def score(z: Tensor | None) -> Tensor:
    assert z is not None
    return log_likelihood(z)


def empty_batch(size: int) -> MaskedBatch:
    """The score and the posterior of these tests do not look at the batch."""
    x0 = torch.zeros(size, 1, dtype=torch.long)
    return MaskedBatch.of(x0, IidTimes()(size, 1, LinearSchedule(), seeded(0)), 2)


def evidence(particles: int, rows: int, *, kl_weight: float = 1.0, seed: int = 0) -> Evidence:
    latent = GaussianLatent(ConstantRecognizer(MEAN, LOG_STD), dim=1, particles=particles)
    return latent.evidence(score, empty_batch(rows), torch.ones(rows), kl_weight, seeded(seed))


def exact_log_marginal() -> float:
    density = normal_log_density(GRID) + log_likelihood(GRID[:, None])
    return math.log(float(torch.trapezoid(density.exp(), GRID)))


def exact_bound(particles: int, kl_weight: float = 1.0) -> float:
    """E log (1/K) sum_k p(x | z_k) (p(z_k) / r(z_k))^lambda by Gauss-Hermite in all K dimensions."""
    nodes, weights = gauss_hermite(48)
    z = MEAN + math.exp(LOG_STD) * nodes
    one = log_likelihood(z[:, None]) + kl_weight * (
        normal_log_density(z) - normal_log_density(z, MEAN, math.exp(LOG_STD))
    )
    terms = torch.stack(torch.meshgrid(*[one] * particles, indexing="ij"))
    measure = math.prod(torch.meshgrid(*[weights] * particles, indexing="ij"), start=torch.ones(()))
    return float((measure * (torch.logsumexp(terms, 0) - math.log(particles))).sum())


def test_the_exact_bound_rises_with_the_number_of_particles_and_stays_below_the_log_marginal() -> None:
    bounds = [exact_bound(particles) for particles in (1, 2, 3)]
    assert all(lower + 0.01 < upper for lower, upper in itertools.pairwise([*bounds, exact_log_marginal()]))


@pytest.mark.parametrize("kl_weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("particles", [1, 2, 3])
def test_the_mean_of_the_bound_is_its_quadrature(particles: int, kl_weight: float) -> None:
    """30,000 rows, 5 standard errors: false alarm 6e-7 each."""
    bound = evidence(particles, 30_000, kl_weight=kl_weight).bound
    assert sigmas(bound.detach(), exact_bound(particles, kl_weight)) < 5


def test_with_many_particles_the_bound_tends_to_the_log_marginal() -> None:
    """The gap shrinks like 1/K: at K = 300 it is far below 0.01, and the standard error of 2,000 rows below 0.002."""
    bound = evidence(300, 2_000).bound.mean().item()
    assert exact_log_marginal() - 0.01 < bound < exact_log_marginal() + 0.01


@pytest.mark.parametrize("particles", [1, 3])
def test_everything_is_weighed_alike(particles: int) -> None:
    latent = GaussianLatent(ConstantRecognizer(MEAN, LOG_STD), dim=1, particles=particles)
    weight = torch.tensor([0.0, 1.0, 2.5, 4.0])
    weighed = latent.evidence(score, empty_batch(4), weight, 0.5, seeded(0))
    plain = latent.evidence(score, empty_batch(4), torch.ones(4), 0.5, seeded(0))
    for name in ("bound", "reconstruction", "kl"):
        assert_close(getattr(weighed, name), weight.double() * getattr(plain, name).double(), check_dtype=False)


@pytest.mark.parametrize("kl_weight", [0.0, 0.25, 1.0])
def test_one_particle_gives_reconstruction_minus_lambda_kl_in_closed_form(kl_weight: float) -> None:
    result = evidence(1, 50, kl_weight=kl_weight)
    kl = kl_divergence(Normal(torch.tensor(MEAN, dtype=torch.float64), math.exp(LOG_STD)), Normal(0, 1))
    assert_close(result.kl, kl.expand(50))
    assert_close(result.bound, result.reconstruction - kl_weight * kl)


def test_the_reconstruction_is_the_mean_over_particles() -> None:
    """E_r log p(x | z) by Gauss-Hermite, 5 standard errors over the rows: false alarm 6e-7."""
    nodes, weights = gauss_hermite(48)
    exact = float((weights * log_likelihood((MEAN + math.exp(LOG_STD) * nodes)[:, None])).sum())
    assert sigmas(evidence(4, 10_000).reconstruction.detach(), exact) < 5


def test_with_the_exact_posterior_every_single_bound_is_the_log_marginal() -> None:
    """x | z ~ N(z, s^2) has posterior N(x / (1 + s^2), s^2 / (1 + s^2)): the importance weights are then constant."""
    x, s = 0.7, 0.5
    variance = s**2 / (1 + s**2)

    def gaussian_score(z: Tensor | None) -> Tensor:
        assert z is not None
        return normal_log_density(torch.tensor(x, dtype=torch.float64), z, s).sum(-1)

    latent = GaussianLatent(ConstantRecognizer(x / (1 + s**2), 0.5 * math.log(variance)), dim=1, particles=5)
    bound = latent.evidence(gaussian_score, empty_batch(20), torch.ones(20), 1.0, seeded(0)).bound
    log_marginal = normal_log_density(torch.tensor(x, dtype=torch.float64), std=math.sqrt(1 + s**2))
    assert_close(bound, log_marginal.expand(20))


def test_the_gradient_in_the_posterior_is_that_of_the_exact_bound() -> None:
    """The gradient of batch means against autograd through Gauss-Hermite; 5 standard errors, false alarm below 1e-5."""
    nodes, weights = gauss_hermite(48)
    parameters = torch.tensor([MEAN, LOG_STD], dtype=torch.float64, requires_grad=True)
    z = parameters[0] + parameters[1].exp() * nodes
    kl = 0.5 * (parameters[0] ** 2 + (2 * parameters[1]).exp() - 1) - parameters[1]
    exact = torch.autograd.grad((weights * log_likelihood(z[:, None])).sum() - kl, parameters)[0]

    latent = GaussianLatent(ConstantRecognizer(MEAN, LOG_STD), dim=1)
    leaves = list(latent.parameters())
    batches = [
        latent.evidence(score, empty_batch(200), torch.ones(200), 1.0, seeded(seed)).bound.mean() for seed in range(100)
    ]
    gradients = torch.stack([torch.autograd.grad(bound, leaves)[0] for bound in batches])
    assert sigmas(gradients[:, 0], float(exact[0])) < 5
    assert sigmas(gradients[:, 1], float(exact[1])) < 5


def test_without_a_latent_the_evidence_is_the_log_likelihood() -> None:
    exact, weight = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([1.0, 0.5, 0.0])
    result = NoLatent().evidence(lambda z: exact, empty_batch(3), weight, 0.5, seeded(0))
    assert result.bound.equal(torch.tensor([-1.0, -1.0, 0.0]))
    assert result.reconstruction.equal(result.bound)
    assert result.kl.equal(torch.zeros(3))
