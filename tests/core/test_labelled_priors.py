"""A learned prior given labels: a density for each label and for none, and bounds given a label that are valid with it.

Integrals over z are sums over fine grids, exact to the tolerances that are stated.
"""

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.exact import ConstantRecognizer, seeded
from vadd.core import FlowPrior, GaussianLatent, LabelledLatent, LinearSchedule, MaskedDiffusion, Noise, step_bound
from vadd.core.latents import changed
from vadd.networks.flows import CouplingFlow

CLASSES = 2
GRID = torch.linspace(-12, 12, 4801, dtype=torch.float64)[:, None]
WIDTH = float(GRID[1] - GRID[0])


def flow_prior(dim: int) -> FlowPrior:
    """With random weights, so that every label has a density of its own."""
    torch.manual_seed(1)
    prior = FlowPrior(CouplingFlow(dim, context=CLASSES + 1, transforms=2, width=16, components=3), classes=CLASSES)
    with torch.no_grad():
        for parameter in prior.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return prior.requires_grad_(False)


class WiderDenoiser(nn.Module):
    """Two positions of two values; the odds of the second are z plus those of the label."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = 2, 2, False
        self.odds = nn.Parameter(torch.tensor([-1.0, 1.5]))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        odds = z[:, 0] + z[:, 1:] @ self.odds.to(z.dtype)
        return torch.stack([torch.zeros_like(odds), odds], dim=-1)[where.nonzero()[:, 0]]


def model_with(prior: FlowPrior) -> MaskedDiffusion:
    inner = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1)
    latent = LabelledLatent(CLASSES, inner, shares=(0.3, 0.7)).with_prior(prior)
    return MaskedDiffusion(WiderDenoiser(), LinearSchedule(), latent)


def density(prior: FlowPrior, label: int) -> Tensor:
    labels = torch.full((1,), label)
    return prior.log_prob(GRID[:, None].float(), torch.zeros(1, 2), labels).double().exp()[:, 0]


def test_the_density_of_every_label_and_of_none_integrates_to_one() -> None:
    prior = flow_prior(1)
    found = [density(prior, label) for label in range(CLASSES + 1)]
    assert [float(each.sum()) * WIDTH for each in found] == pytest.approx([1.0] * (CLASSES + 1), abs=1e-3)
    assert float((found[0] - found[1]).abs().sum()) * WIDTH > 0.1
    assert float((found[0] - found[2]).abs().sum()) * WIDTH > 0.1


def test_the_density_of_two_numbers_integrates_to_one() -> None:
    prior = flow_prior(2)
    axis = torch.linspace(-9, 9, 361)
    grid = torch.cartesian_prod(axis, axis)
    for label in range(CLASSES + 1):
        density = prior.log_prob(grid[:, None], torch.zeros(1, 2), torch.full((1,), label)).double().exp()
        total = density.sum() * float(axis[1] - axis[0]) ** 2
        assert float(total) == pytest.approx(1.0, abs=2e-3)


def test_draws_are_of_the_density_of_their_label() -> None:
    prior, rows = flow_prior(1), 20_000
    latent = model_with(prior).latent
    assert isinstance(latent, LabelledLatent)
    for label in range(CLASSES):
        exact = density(prior, label)
        mean = float((GRID[:, 0] * exact).sum() * WIDTH)
        spread = float(((GRID[:, 0] - mean) ** 2 * exact).sum() * WIDTH) ** 0.5
        drawn = changed(latent, given=label).draw(torch.zeros(rows, 2), torch.ones(rows), Noise.of(seeded(label), rows))
        # Five standard deviations of a mean of so many.
        assert float(drawn[:, 0].mean()) == pytest.approx(mean, abs=5 * spread / rows**0.5)
        assert drawn[:, 1:].argmax(dim=1).eq(label).all()


@pytest.mark.parametrize("label", [0, 1, None])
def test_bounds_given_a_label_and_of_the_mixture_are_valid_and_tight(label: int | None) -> None:
    prior = flow_prior(1)
    odds, shares = (-1.0, 1.5), (0.3, 0.7)
    x0 = torch.cartesian_prod(torch.arange(2), torch.arange(2))

    def likelihood(given: int) -> Tensor:
        """p(x0 | label) of one step: both positions given the same z."""
        one = torch.stack([torch.zeros(len(GRID)), GRID[:, 0] + odds[given]], dim=1).double().softmax(dim=1)
        return torch.stack([(density(prior, given) * one[:, a] * one[:, b]).sum() * WIDTH for a, b in x0.tolist()])

    exact = [likelihood(given) for given in range(CLASSES)]
    truth = sum((share * each for share, each in zip(shares, exact, strict=True)), torch.zeros(4))
    truth = truth if label is None else exact[label]
    assert float(truth.sum()) == pytest.approx(1.0, abs=1e-3)
    repeats = 100
    found = step_bound(model_with(prior).labelled(label), x0.repeat(repeats, 1), 1, 64, seeded(2)).view(repeats, 4)
    error = found.std(dim=0) / repeats**0.5
    # Never above by more than the quadrature and 5 standard errors; 64 particles leave little.
    assert (found.mean(dim=0) <= truth.log() + 5 * error + 1e-3).all()
    assert (found.mean(dim=0) >= truth.log() - 0.05).all()
