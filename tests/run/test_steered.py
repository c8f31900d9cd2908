"""Completions whose z is drawn position after position towards what is known, against enumeration.

The components of the prior are far apart and narrow, so a z is a path of components, and there are 27 of them. Means
are compared at five standard errors in 54 cells, and counts by four chi-square tests at level 1e-5, all with fixed
seeds: if the seeds are ever changed, a correct package fails with probability below 1e-4.
"""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.exact import LINEAR, ConstantRecognizer, chi_square_p_value, seeded
from tests.helpers.priors import bent
from vadd.core import MaskedDiffusion, Noise, SharedLatent
from vadd.core.shared import FlowPrior
from vadd.networks.autoregressive import AutoregressiveTransformer
from vadd.run.infilling import latents_that_fit

POSITIONS, COMPONENTS, MASK = 3, 3, 2
PATHS = torch.tensor(list(product(range(COMPONENTS), repeat=POSITIONS)))


def density(pairs: bool = False) -> AutoregressiveTransformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = AutoregressiveTransformer(POSITIONS, 1, width=16, blocks=2, components=COMPONENTS, pairs=pairs)
    bent(made, 0, 0.2)
    with torch.no_grad():
        made.means.copy_(torch.tensor([[-2.0], [0.0], [2.0]]))
        made.log_stds.fill_(-6.0)
    return made.requires_grad_(False)


def path_of(z: Tensor) -> Tensor:
    """The numbers of the paths of draws (..., 3)."""
    components = (z / 2).round().long() + 1
    return components @ torch.tensor([9, 3, 1])


def law_of(prior: AutoregressiveTransformer) -> Tensor:
    """The probability of each path: of the density at its means, what is not the height of the Gaussians."""
    means = prior.means[PATHS][..., 0]
    heights = POSITIONS * (6.0 - 0.5 * torch.tensor(2 * torch.pi).log())
    law = (prior.log_prob(means) - heights).exp().double()
    assert float(law.sum()) == pytest.approx(1, abs=1e-3)
    return law / law.sum()


class Reader(nn.Module):
    """Of every position it says what its own number of z and a little of the next one say."""

    positions, vocab_size, uses_time = POSITIONS, MASK, False

    def forward(self, xt: Tensor, z: Tensor, t: Tensor, where: Tensor) -> Tensor:
        towards = 0.8 * z + 0.3 * z.roll(-1, dims=1)
        return torch.stack([torch.zeros_like(towards), towards], dim=-1)[where]


@pytest.mark.parametrize("pairs", [False, True])
def test_the_mean_of_the_weights_is_that_of_the_prior_whatever_the_gains(pairs: bool) -> None:
    """Few particles and strong gains: there are many paths that end."""
    prior, rows, particles = density(pairs), 10_000, 4
    gains = torch.randn(1, POSITIONS, COMPONENTS, generator=seeded(1)).expand(rows, -1, -1)
    noise = torch.randn(particles, rows, prior.noise_dim, generator=seeded(2))
    levels = torch.rand(rows, POSITIONS, generator=seeded(3))
    z, log_weights = prior.steered(noise, levels, gains)
    # One mean a row: its particles depend on each other.
    hits = nn.functional.one_hot(path_of(z), len(PATHS)).double() * log_weights.double().exp()[..., None]
    means, law = hits.mean(0), law_of(prior)
    errors = means.std(0) / rows**0.5
    assert bool(((means.mean(0) - law).abs() < 5 * errors + 1e-9).all())
    assert float((law - path_frequencies(z)).abs().max()) > 0.02, "the gains matter"


def path_frequencies(z: Tensor) -> Tensor:
    return path_of(z).flatten().bincount(minlength=len(PATHS)).double() / path_of(z).numel()


@pytest.mark.parametrize("known", [[1, MASK, 0], [MASK, 0, MASK]], ids=str)
@pytest.mark.parametrize("pairs", [False, True])
def test_chosen_latents_follow_the_enumerated_conditional(known: list[int], pairs: bool) -> None:
    """40 candidates, 1,500 rows: their bias is too small to be seen. The prior's own law is refuted."""
    prior, start = density(pairs), torch.tensor(known)
    latent = SharedLatent(ConstantRecognizer(0.0, 0.0), POSITIONS, MASK, prior=FlowPrior(prior))
    model = MaskedDiffusion(Reader(), LINEAR.schedule, latent).requires_grad_(False)
    z = latents_that_fit(model, start.repeat(1500, 1), 40, Noise.of(seeded(4), 1500))
    assert z is not None
    everywhere = torch.ones(len(PATHS), POSITIONS, dtype=torch.bool)
    logits = Reader()(everywhere, prior.means[PATHS][..., 0], torch.ones(1), everywhere).view(-1, POSITIONS, MASK)
    said = logits.double().softmax(-1)
    likelihood = torch.ones(len(PATHS), dtype=torch.float64)
    for position, value in enumerate(known):
        likelihood *= said[:, position, value] if value != MASK else 1.0
    law, counts = law_of(prior), path_of(z).bincount(minlength=len(PATHS)).numpy()
    assert chi_square_p_value(counts, (law * likelihood / (law @ likelihood)).numpy()) > 1e-5
    assert chi_square_p_value(counts, law.numpy()) < 1e-8


def test_a_row_does_not_depend_on_the_others() -> None:
    prior = density()
    latent = SharedLatent(ConstantRecognizer(0.0, 0.0), POSITIONS, MASK, prior=FlowPrior(prior))
    model = MaskedDiffusion(Reader(), LINEAR.schedule, latent).requires_grad_(False)
    start = torch.tensor([[1, MASK, 0], [MASK, 0, 1], [0, 0, MASK]])
    whole = latents_that_fit(model, start, 16, Noise([seeded(5)], 3))
    alone = latents_that_fit(model, start[1:], 16, Noise([seeded(5)], 2, first=1))
    assert whole is not None
    assert alone is not None
    torch.testing.assert_close(whole[1:], alone)
