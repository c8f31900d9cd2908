"""Bounds of samplers that draw transitions: along one path of states their mean is the sum over all pairs of states,
and their spread is far below that of states drawn by themselves at every step.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.bounds import GridLatent, PriorGrid, grid_times
from tests.helpers.exact import TableDenoiser, all_sequences, index_of, seeded, sigmas
from tests.helpers.states import TableOfStates, TableScores, TrueConditionals, random_joint
from vadd.core import LinearSchedule, MaskedBatch, Masking, step_bound
from vadd.models import ScoreEntropy, UniformDiffusion, ValueRates
from vadd.models.transitions import TransitionModel

POSITIONS, VALUES = 2, 3
RATES = torch.tensor([0.4, 1.0, 2.5], dtype=torch.float64)


def sedd() -> TransitionModel:
    return ScoreEntropy(TableScores(TableDenoiser(POSITIONS, VALUES), 0.5), LinearSchedule())


def genmd4() -> TransitionModel:
    model = ValueRates(TableDenoiser(POSITIONS, VALUES, timed=True), LinearSchedule()).double()
    model.log_rates.data = RATES.log()
    return model


def udlm() -> TransitionModel:
    return UniformDiffusion(TableOfStates(), LinearSchedule())


def vadd_uniform() -> TransitionModel:
    return UniformDiffusion(TableOfStates(latent=True), LinearSchedule(), GridLatent(PriorGrid.quantiles(16)))


EVERY = [sedd, genmd4, udlm, vadd_uniform]


def forward_kernel(model: TransitionModel, value: int, s: float, t: float) -> Tensor:
    """Of one position that was ``value`` at t = 0, from s to t: (states, states), written down anew."""
    if isinstance(model, UniformDiffusion):
        kept = (1 - t) / (1 - s)
        uniform: Tensor = kept * torch.eye(VALUES, dtype=torch.float64) + (1 - kept) / VALUES
        return uniform
    rate = float(RATES[value]) if isinstance(model, ValueRates) else 1.0
    kept = (1 - t**rate) / (1 - s**rate)
    matrix: Tensor = kept * torch.eye(VALUES + 1, dtype=torch.float64)
    matrix[:, VALUES] = 1 - kept
    matrix[VALUES] = torch.eye(VALUES + 1, dtype=torch.float64)[VALUES]
    return matrix


def mean_over_pairs(model: TransitionModel, x0: Tensor, times: list[float]) -> float:
    """The sum over all steps and all pairs (x_s, x_t) of q(x_s, x_t | x0) log p(x_s | x_t) / q(x_s | x_t, x0)."""
    symbols = VALUES if isinstance(model, UniformDiffusion) else VALUES + 1
    states, total = all_sequences(POSITIONS, symbols), 0.0
    laws = [torch.eye(symbols, dtype=torch.float64)[int(value)] for value in x0]
    for s, t in itertools.pairwise(times):
        joints = [law[:, None] * forward_kernel(model, int(value), s, t) for law, value in zip(laws, x0, strict=True)]
        laws = [joint.sum(0) for joint in joints]
        pairs = torch.cartesian_prod(torch.arange(len(states)), torch.arange(len(states)))
        before, after = states[pairs[:, 0]], states[pairs[:, 1]]
        chance = torch.stack([joint[before[:, i], after[:, i]] for i, joint in enumerate(joints)]).prod(0)
        before, after, chance = before[chance > 0], after[chance > 0], chance[chance > 0]
        time = torch.full((len(chance),), t, dtype=torch.float64)
        batch = MaskedBatch(x0.expand_as(after), after, Masking(after == VALUES, time, torch.ones_like(time)))
        start = torch.full_like(time, s)

        def score(z: Tensor | None, batch: MaskedBatch = batch, start: Tensor = start, xs: Tensor = before) -> Tensor:
            return model.step_score(batch, start, z, xs)

        with torch.no_grad():
            if isinstance(model.latent, GridLatent):
                prior = model.latent.prior
                scores = score(prior.z[:, None].expand(-1, len(chance), -1))
                term = (scores + prior.weights.log()[:, None]).logsumexp(0)
            else:
                term = score(None)[0]
        total += float(chance @ term)
    return total


@pytest.mark.parametrize("make", EVERY, ids=lambda make: str(make.__name__))
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_mean_is_the_sum_over_all_pairs_of_states(make: Callable[[], TransitionModel], steps: int) -> None:
    """Of 20,000 draws, to 5 standard errors."""
    model, x0 = make(), torch.tensor([2, 0])
    draws = step_bound(model, x0.expand(20_000, -1), steps, 1, seeded(3))
    exact = mean_over_pairs(model, x0, grid_times(steps))
    if float(draws.std()) < 1e-9:  # SEDD in one step: there is one path
        torch.testing.assert_close(draws, torch.full_like(draws, exact), rtol=1e-6, atol=0)
    else:
        assert sigmas(draws, exact) < 5


def independent_states(model: TransitionModel, x0: Tensor, steps: int) -> Tensor:
    """One draw for every example with a state of its own at every step, averaged over x_s where that is a sum."""
    total, generator = torch.zeros(len(x0), dtype=torch.float64), seeded(7)
    for s, t in itertools.pairwise(grid_times(steps)):
        time = torch.full((len(x0),), t, dtype=torch.float64)
        noisy = torch.rand(x0.shape, generator=generator, dtype=torch.float64) < model.noise_chance(x0, time)
        masking = Masking(noisy, time, torch.ones_like(time))
        batch = MaskedBatch.of(x0, masking, VALUES)
        if isinstance(model, UniformDiffusion):
            batch = model.noised(batch, generator)
        with torch.no_grad():
            total += model.step_score(batch, torch.full_like(time, s), None, None)[0]
    return total


class TrueUniformConditionals(nn.Module):
    """log P(x0_i = v | x_t at the other position) under uniform noise: what the posterior wants in the place of x0."""

    uses_time = True

    def __init__(self, joint: Tensor) -> None:
        super().__init__()
        self.positions, self.vocab_size = POSITIONS, VALUES
        self.joint = nn.Parameter(joint.view(VALUES, VALUES))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        noise = t.double()[:, None, None] / VALUES
        likelihood = (1 - VALUES * noise) * torch.eye(VALUES, dtype=torch.float64)[xt] + noise
        first, second = likelihood[:, 1] @ self.joint.T, likelihood[:, 0] @ self.joint
        return torch.stack([first, second], dim=1).log()[where]


def dependent() -> Tensor:
    """A distribution of two positions that are a little more often the same."""
    clean = all_sequences(POSITIONS, VALUES)
    joint = random_joint(5) * (1 + 0.5 * (clean[:, 0] == clean[:, 1]))
    return joint / joint.sum()


def good_models() -> list[TransitionModel]:
    joint = dependent()
    conditionals = TrueConditionals(joint, POSITIONS, VALUES)
    rates = ValueRates(conditionals, LinearSchedule()).double()
    return [
        ScoreEntropy(conditionals, LinearSchedule()),
        rates,
        UniformDiffusion(TrueUniformConditionals(joint), LinearSchedule()),
    ]


@pytest.mark.parametrize("number", range(3), ids=["sedd", "genmd4", "udlm"])
@pytest.mark.parametrize("steps", [2, 20])
def test_the_spread_is_far_below_that_of_states_drawn_by_themselves(number: int, steps: int) -> None:
    """For models that know the data's conditionals, over 4,000 draws from the data."""
    model, joint = good_models()[number], dependent()
    x0 = all_sequences(POSITIONS, VALUES)[torch.multinomial(joint, 4000, replacement=True, generator=seeded(1))]
    log_truth = joint[index_of(x0, VALUES)].log()
    path = step_bound(model, x0, steps, 1, seeded(2)) - log_truth
    alone = independent_states(model, x0, steps) - log_truth
    difference = float((path - alone).mean())
    assert abs(difference) < 5 * float((path - alone).std()) / 4000**0.5
    assert float(path.std()) < 0.5 * float(alone.std())
