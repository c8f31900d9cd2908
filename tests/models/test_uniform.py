"""Uniform noise against sums over all states: posterior, sampler, bound, with and without a latent."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.bounds import GridLatent, PriorGrid, grid_times
from tests.helpers.exact import (
    COSINE,
    LINEAR,
    KnownSchedule,
    all_sequences,
    chi_square_p_value,
    index_of,
    seeded,
)
from tests.helpers.states import POSITIONS, STATES, VALUES, TableOfStates
from vadd.core import LinearSchedule, MaskedBatch, StepTimes, elbo, sample, step_bound
from vadd.errors import UserError
from vadd.models import UniformDiffusion
from vadd.models.uniform import uniform_step


def chain_law(network: TableOfStates, known: KnownSchedule, times: list[float], z: Tensor) -> Tensor:
    """The exact law of the sampler with a fresh z at each step, z (Z, 1) of equal weights: (V ** N,)."""
    states = all_sequences(POSITIONS, VALUES)
    law = torch.full((STATES,), 1 / STATES, dtype=torch.float64)
    for s, t in reversed(list(itertools.pairwise(times))):
        matrix = torch.zeros(STATES, STATES, dtype=torch.float64)
        for node in z:
            everywhere = torch.ones_like(states, dtype=torch.bool)
            with torch.no_grad():
                logits = network(states, node.expand(STATES, 1), torch.full((STATES,), t), everywhere)
            mu = logits.view(STATES, POSITIONS, VALUES).softmax(-1)
            alone = torch.ones(STATES, STATES, dtype=torch.float64)
            for i in range(POSITIONS):
                kept = known.alpha(t) / known.alpha(s)
                noise = kept * torch.eye(VALUES, dtype=torch.float64) + (1 - kept) / VALUES
                joint = noise[:, states[:, i]].T * (known.alpha(s) * mu[:, i] + (1 - known.alpha(s)) / VALUES)
                alone *= (joint / joint.sum(-1, keepdim=True))[:, states[:, i]]
            matrix += alone / len(z)
        law = law @ matrix
    return law


NO_Z = torch.zeros(1, 1, dtype=torch.float64)


@pytest.mark.parametrize("known", [LINEAR, COSINE], ids=lambda known: known.name)
def test_the_posterior_is_bayes_rule(known: KnownSchedule) -> None:
    t, s = 0.7, 0.3

    def forward(alpha: float) -> Tensor:
        return alpha * torch.eye(VALUES, dtype=torch.float64) + (1 - alpha) / VALUES

    to_s, to_t = forward(known.alpha(s)), forward(known.alpha(t) / known.alpha(s))
    torch.testing.assert_close(to_s @ to_t, forward(known.alpha(t)))  # the kernel is a Markov chain
    for x0, xt in itertools.product(range(VALUES), repeat=2):
        expected = to_s[x0] * to_t[:, xt] / (to_s @ to_t)[x0, xt]
        alphas = (torch.tensor([known.alpha(time)], dtype=torch.float64) for time in (t, s))
        found = uniform_step(torch.eye(VALUES, dtype=torch.float64)[[x0]], torch.tensor([xt]), *alphas)
        torch.testing.assert_close(found[0], expected)


@pytest.mark.parametrize("steps", [1, 3])
def test_samples_follow_the_law_of_the_chain(steps: int) -> None:
    """Chi-square; a false alarm in one of 10^4 trials."""
    network = TableOfStates()
    drawn = sample(UniformDiffusion(network, LinearSchedule()), 20_000, steps, seeded(1))
    counts = np.bincount(index_of(drawn.tokens, VALUES).numpy(), minlength=STATES)
    assert chi_square_p_value(counts, chain_law(network, LINEAR, grid_times(steps), NO_Z).numpy()) > 1e-4
    assert (drawn.evaluations, drawn.sequences) == (steps, steps * 20_000)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("latent", [False, True])
def test_the_step_bound_never_exceeds_the_likelihood_of_the_sampler(steps: int, latent: bool) -> None:
    """On average over many draws for each of the 9 sequences, to 5 standard errors. z is summed over a grid."""
    network, repeats = TableOfStates(latent=latent), 800
    prior = PriorGrid.quantiles(16)
    model = UniformDiffusion(network, LinearSchedule(), GridLatent(prior) if latent else None)
    x0 = all_sequences(POSITIONS, VALUES)
    exact = chain_law(network, LINEAR, grid_times(steps), prior.z if latent else NO_Z).log()
    draws = step_bound(model, x0.repeat(repeats, 1), steps, 1, seeded(2)).view(repeats, -1)
    assert (draws.mean(0) <= exact + 5 * draws.std(0) / math.sqrt(repeats)).all()
    assert (draws.mean(0) > exact - 3).all(), "a bound that says nothing would prove nothing"


def test_the_objective_is_the_bound_of_the_steps_that_are_drawn() -> None:
    """In expectation, to 5 standard errors of the difference of two independent means."""
    model = UniformDiffusion(TableOfStates(), LinearSchedule())
    x0 = torch.tensor([[2, 0]]).expand(20_000, -1)
    masking = StepTimes(((3, 1.0),))(len(x0), POSITIONS, model.schedule, seeded(3))
    with torch.no_grad():
        trained = model(MaskedBatch.of(x0, masking, model.mask_value), 1.0, seeded(4)).bound.double()
    judged = step_bound(model, x0, 3, 1, seeded(5))
    error = math.sqrt(float(trained.var() + judged.var()) / len(x0))
    assert abs(float(trained.mean() - judged.mean())) < 5 * error


def test_what_is_known_stays() -> None:
    model = UniformDiffusion(TableOfStates(), LinearSchedule())
    start = torch.tensor([[1, VALUES], [VALUES, 2]]).repeat(50, 1)
    filled = sample(model, start, 4, seeded(6)).tokens
    assert torch.equal(filled[start != VALUES], start[start != VALUES])
    assert int(filled.max()) < VALUES


def test_what_it_does_not_have_is_refused() -> None:
    model = UniformDiffusion(TableOfStates(), LinearSchedule())
    x0 = all_sequences(POSITIONS, VALUES)
    with pytest.raises(UserError, match="numbers of masked positions"):
        elbo(model, x0, 2)
    hidden_latent = UniformDiffusion(TableOfStates(latent=True), LinearSchedule(), GridLatent(PriorGrid.quantiles(3)))
    with pytest.raises(UserError, match="a bound needs a new z at each step"):
        step_bound(hidden_latent, x0, 2, latent_policy="fixed")
