"""Autoregression against sums over all sequences: likelihood, sampler, cache, and what it cannot do."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.exact import all_sequences, chi_square_p_value, index_of, seeded
from tests.helpers.networks import awaken
from vadd.core import LinearSchedule, MaskedBatch, TokenSampler, elbo, objective, sample, step_bound
from vadd.core.masking import ExactCount
from vadd.errors import UserError
from vadd.models import Autoregressive
from vadd.networks.transformer import CausalTransformer
from vadd.networks.transformer_blocks import TransformerSize
from vadd.run.sampling import SamplingOptions

POSITIONS, VALUES = 4, 3
SIZES = {
    "long": {"size": TransformerSize(width=8, heads=2, blocks=2, dropout=0.0), "short": False},
    "short": {"size": TransformerSize(width=8, heads=2, blocks=2, dropout=0.0, convolution=3), "short": True},
}


def model_of(kind: str, *, double: bool = True) -> Autoregressive:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = CausalTransformer(POSITIONS, VALUES, **SIZES[kind])  # type: ignore[arg-type]
        awaken(network)
    network = network.double() if double else network
    return Autoregressive(network, LinearSchedule()).eval()


def exact_probabilities(model: Autoregressive) -> Tensor:
    """(V ** N,): the product of the conditionals, each asked for by itself with everything else masked."""
    x0 = all_sequences(POSITIONS, VALUES)
    total = torch.zeros(len(x0), dtype=torch.float64)
    for position in range(POSITIONS):
        hidden = torch.arange(POSITIONS) >= position
        xt = x0.masked_fill(hidden, VALUES)
        where = torch.zeros_like(xt, dtype=torch.bool)
        where[:, position] = True
        logits = model.predict(xt, None, torch.ones(len(xt)), where)
        total += logits.double().log_softmax(-1).gather(1, x0[:, position, None])[:, 0]
    return total.exp()


kinds = pytest.mark.parametrize("kind", SIZES)


@kinds
@torch.no_grad()
def test_likelihoods_sum_to_one_and_are_products_of_conditionals(kind: str) -> None:
    model = model_of(kind)
    x0 = all_sequences(POSITIONS, VALUES)
    found = model.log_likelihood(x0).exp()
    assert float(found.sum()) == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(found, exact_probabilities(model), rtol=1e-12, atol=0)
    assert float(found.max() / found.min()) > 10, "a uniform distribution would prove little"


@kinds
@torch.no_grad()
def test_the_step_bound_the_elbo_and_the_objective_are_the_likelihood(kind: str) -> None:
    model, x0 = model_of(kind), all_sequences(POSITIONS, VALUES)
    exact = exact_probabilities(model).log()
    torch.testing.assert_close(step_bound(model, x0, POSITIONS), exact, rtol=1e-12, atol=0)
    torch.testing.assert_close(elbo(model, x0, 1), exact, rtol=1e-12, atol=0)
    masking = ExactCount()(len(x0), POSITIONS, model.schedule, seeded(0))
    batch = MaskedBatch.of(x0, masking, model.mask_value)
    loss = objective(model(batch, 1.0, seeded(0)), POSITIONS).loss
    assert float(loss) == pytest.approx(-float(exact.mean()) / POSITIONS, rel=1e-12)


@kinds
def test_samples_follow_the_likelihood(kind: str) -> None:
    """Chi-square over all 81 sequences; a false alarm in one of 10^4 trials of a correct sampler."""
    model = model_of(kind)
    with torch.no_grad():
        exact = exact_probabilities(model)
    drawn = sample(model, 20_000, POSITIONS, seeded(1))
    counts = np.bincount(index_of(drawn.tokens, VALUES).numpy(), minlength=VALUES**POSITIONS)
    assert chi_square_p_value(counts, exact.numpy()) > 1e-4
    assert (drawn.evaluations, drawn.sequences) == (POSITIONS, POSITIONS * 20_000)


@kinds
def test_with_and_without_a_cache_the_samples_are_the_same_to_the_bit(kind: str) -> None:
    model = model_of(kind, double=False)
    starts = torch.full((300, POSITIONS), VALUES)
    for known in range(POSITIONS):  # beginnings of every length side by side
        starts[known::4, :known] = torch.randint(VALUES, (len(starts[known::4]), known), generator=seeded(known))
    cached = sample(model, starts, POSITIONS, seeded(2), record=300)
    model.cached = False
    plain = sample(model, starts, POSITIONS, seeded(2), record=300)
    assert torch.equal(cached.tokens, plain.tokens)
    assert cached.trajectory is not None
    assert plain.trajectory is not None
    assert torch.equal(cached.trajectory, plain.trajectory)
    given = starts != VALUES
    assert torch.equal(cached.tokens[given], starts[given])


@kinds
def test_a_position_does_not_see_itself_nor_what_is_to_its_right(kind: str) -> None:
    network = model_of(kind).denoiser
    x = all_sequences(POSITIONS, VALUES)
    where = torch.ones_like(x, dtype=torch.bool)
    with torch.no_grad():
        logits = network(x, None, torch.zeros(len(x)), where).view(len(x), POSITIONS, VALUES)
    for position in range(POSITIONS):
        before = index_of(x[:, :position], VALUES) if position else torch.zeros(len(x), dtype=torch.int64)
        for beginning in set(before.tolist()):
            same = logits[before == beginning, position]
            torch.testing.assert_close(same, same[:1].expand_as(same), rtol=0, atol=1e-14)


def test_temperature_zero_takes_the_likeliest_value_at_every_step() -> None:
    model = model_of("short")
    drawn = sample(model, 3, POSITIONS, seeded(0), token_sampler=TokenSampler(temperature=0)).tokens
    x = torch.full((1, POSITIONS), VALUES)
    for position in range(POSITIONS):
        where = torch.zeros_like(x, dtype=torch.bool)
        where[0, position] = True
        with torch.no_grad():
            x[0, position] = model.predict(x, None, torch.ones(1), where).argmax()
    assert torch.equal(drawn, x.expand(3, -1))


def test_the_likelihood_is_of_the_values_that_are_drawn() -> None:
    """It sums to 1 with values left out, and only what can be drawn has some."""
    model, law = model_of("long"), TokenSampler(temperature=0.7, top_k=2)
    x0 = all_sequences(POSITIONS, VALUES)
    found = step_bound(model, x0, POSITIONS, token_sampler=law).exp()
    assert float(found.sum()) == pytest.approx(1, abs=1e-9)
    assert int((found > 0).sum()) == 2**POSITIONS
    drawn = sample(model, 200, POSITIONS, seeded(2), token_sampler=law).tokens
    assert (found[index_of(drawn, VALUES)] > 0).all()
    assert model.likelihood_kind(POSITIONS).kind == "exact"


def test_what_it_cannot_do_is_refused() -> None:
    model = model_of("short")
    with pytest.raises(UserError, match="to the left of known ones"):
        sample(model, torch.tensor([[VALUES, 1, VALUES, VALUES]]), POSITIONS, seeded(0))
    with pytest.raises(UserError, match="4 steps, not 1"):
        sample(model, 2, 1, seeded(0))
    with pytest.raises(UserError, match="4 steps, not 2"):
        step_bound(model, all_sequences(POSITIONS, VALUES), 2)
    with pytest.raises(UserError, match="this model does not have the sampler 'parallel'; choose from ancestral"):
        SamplingOptions().changed({"sampler": "parallel"}, model)
