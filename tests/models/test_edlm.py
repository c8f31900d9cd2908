"""Candidates weighed by an energy: with many, one step follows the true joint; with one they are MDLM's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.helpers.exact import (
    LINEAR,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    index_of,
    sampler_distribution,
    seeded,
)
from tests.helpers.networks import awaken
from vadd.core import LinearSchedule, MaskedBatch, MaskedDiffusion, TokenSampler, sample, step_bound
from vadd.errors import UserError
from vadd.models import Autoregressive, EnergyOfAnother, EnergyWeighted, LearnedEnergy
from vadd.networks.transformer import CausalTransformer
from vadd.networks.transformer_blocks import TransformerSize

POSITIONS, VALUES = 3, 2
STATES = VALUES**POSITIONS


def autoregressive(positions: int = POSITIONS, values: int = VALUES) -> Autoregressive:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = CausalTransformer(positions, values, TransformerSize(width=8, heads=2, blocks=1, dropout=0.0))
        awaken(network)
    return Autoregressive(network.double(), LinearSchedule()).eval()


def masked() -> MaskedDiffusion:
    return MaskedDiffusion(TableDenoiser(POSITIONS, VALUES), LinearSchedule())


def energy(candidates: int, window: float = 1.0) -> EnergyOfAnother:
    return EnergyOfAnother.of(masked(), autoregressive(), EnergyWeighted(candidates, window))


def counts_of(model: MaskedDiffusion, n: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.bincount(index_of(sample(model, n, steps, seeded(seed)).tokens, VALUES).numpy(), minlength=STATES)


@torch.no_grad()
def test_with_many_candidates_one_step_follows_the_energy_s_model() -> None:
    """Chi-square with 200 candidates, whose bias is below what 1,000 samples show; a false alarm in one of 10^4."""
    truth = autoregressive().log_likelihood(all_sequences(POSITIONS, VALUES)).exp()
    assert chi_square_p_value(counts_of(energy(200), 1000, steps=1), truth.numpy()) > 1e-4
    alone = sampler_distribution(TableDenoiser(POSITIONS, VALUES), LINEAR, [0.0, 1.0], fixed_z=False, nodes=1)
    assert float((truth - alone).abs().sum()) > 0.3, "the proposal by itself is far from it"


@pytest.mark.parametrize("steps", [1, 3])
def test_with_one_candidate_the_samples_are_those_of_the_masked_model(steps: int) -> None:
    drawn = sample(energy(1), 500, steps, seeded(2))
    plain = sample(masked(), 500, steps, seeded(2))
    assert torch.equal(drawn.tokens, plain.tokens)
    assert drawn.sequences == plain.sequences


def test_two_candidates_follow_the_sum_over_all_pairs() -> None:
    """One step with k = 2 has an exact law: sum over pairs of proposals of their probabilities times the choice."""
    x = all_sequences(POSITIONS, VALUES)
    with torch.no_grad():
        proposal = sampler_distribution(TableDenoiser(POSITIONS, VALUES), LINEAR, [0.0, 1.0], fixed_z=False, nodes=1)
        weight = autoregressive().log_likelihood(x).exp() / proposal
    law = torch.zeros(STATES, dtype=torch.float64)
    for a in range(STATES):
        for b in range(STATES):
            together = proposal[a] * proposal[b] / (weight[a] + weight[b])
            law[a] += together * weight[a]
            law[b] += together * weight[b]
    assert chi_square_p_value(counts_of(energy(2), 20_000, steps=1), law.numpy()) > 1e-4


def test_outside_the_window_nothing_is_weighed() -> None:
    none = sample(energy(5, window=0.0), 300, 3, seeded(1))
    plain = sample(masked(), 300, 3, seeded(1))
    assert torch.equal(none.tokens, plain.tokens)
    assert sample(energy(5, window=0.4), 300, 3, seeded(1)).sequences > plain.sequences


def test_what_is_known_stays_and_every_shown_sequence_counts() -> None:
    start = torch.tensor([[1, VALUES, VALUES]]).repeat(100, 1)
    drawn = sample(energy(4), start, 1, seeded(0))
    assert (drawn.tokens[:, 0] == 1).all()
    assert int(drawn.tokens.max()) < VALUES
    assert drawn.sequences == 100 * (1 + 4)


class TableEnergy(nn.Module):
    """A number for every complete sequence, whatever the state; the form of a recognition model."""

    def __init__(self, energies: Tensor) -> None:
        super().__init__()
        self.energies = nn.Parameter(energies)

    def forward(self, x: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        found = self.energies[index_of(x, VALUES)][:, None]
        return found, found


def test_noise_contrastive_estimation_finds_the_ratio() -> None:
    """Everything masked: the gradient of the exact objective is zero at E = log p(x | masked) - log data(x)."""
    x = all_sequences(POSITIONS, VALUES)
    proposal = sampler_distribution(TableDenoiser(POSITIONS, VALUES), LINEAR, [0.0, 1.0], fixed_z=False, nodes=1)
    data = torch.rand(STATES, generator=seeded(1), dtype=torch.float64)
    data = data / data.sum()
    model = LearnedEnergy(TableDenoiser(POSITIONS, VALUES), LinearSchedule(), TableEnergy((proposal / data).log()))
    energies = model.energies(x, x, torch.ones(STATES))
    exact = (data * F.logsigmoid(-energies) + proposal * F.logsigmoid(energies)).sum()
    (gradient,) = torch.autograd.grad(exact, model.energy.energies)  # type: ignore[arg-type]
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)
    # What training averages is this sum: 5 standard errors, a false alarm in 10^6.
    drawn = torch.multinomial(data, 40_000, replacement=True, generator=seeded(2))
    with torch.no_grad():
        told = model(MaskedBatch.all_masked(x[drawn], VALUES), 1.0, seeded(3)).bound.double()
    assert abs(float(told.mean()) - exact.item()) < 5 * float(told.std()) / 200
    assert not any(parameter.requires_grad for parameter in model.denoiser.parameters())  # type: ignore[attr-defined]


def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="no likelihood bound exists for the sampler EnergyWeighted"):
        step_bound(energy(2), all_sequences(POSITIONS, VALUES), 2)
    with pytest.raises(UserError, match="this model has no temperature"):
        sample(energy(2), 2, 2, seeded(0), token_sampler=TokenSampler(temperature=0.5))
    with pytest.raises(UserError, match="--energy needs an autoregressive run"):
        EnergyOfAnother.of(masked(), masked(), EnergyWeighted())
    with pytest.raises(UserError, match="--energy needs a masked model"):
        EnergyOfAnother.of(autoregressive(), autoregressive(), EnergyWeighted())
    with pytest.raises(UserError, match="at least 1, not 0"):
        EnergyWeighted(0)
    with pytest.raises(UserError, match="window must be at most 1"):
        EnergyWeighted(2, window=1.5)
