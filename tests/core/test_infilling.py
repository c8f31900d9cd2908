"""Infilling: sampling from another start. What is known stays, the rest follows the enumerated conditional law.

Chi-square tests are at level 1e-5, with fixed seeds; there are fewer than 60.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.helpers.bounds import PriorGrid
from tests.helpers.exact import LINEAR, SQUARE, TableDenoiser, properties, seeded
from tests.helpers.plans import Planner, ancestral, first_hitting, model_of, p_value, parallel, planned_law
from vadd.core import Ancestral, FirstHitting, Parallel, Sampler, TokenSampler, sample
from vadd.core.sampling import LatentPolicy
from vadd.errors import UserError
from vadd.recipe import SAMPLERS

LEVEL = 1e-5
EACH = 8000
MASK = 2
STARTS = [[MASK, MASK, MASK], [MASK, 1, MASK], [0, MASK, MASK], [1, 0, MASK]]
"""Of three positions with two values."""
in_two_steps = pytest.mark.parametrize(
    ("sampler", "planner"),
    [(Ancestral(), ancestral([0, 0.5, 1])), (Parallel(), parallel(2))],
    ids=["ancestral", "parallel"],
)
every_sampler = pytest.mark.parametrize("name", SAMPLERS)


class Spy(TableDenoiser):
    """Counts its calls."""

    calls = 0

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(xt, z, t, where)


@st.composite
def starts(draw: st.DrawFn) -> tuple[Tensor, int]:
    """Sequences of 1..4 positions, of which any may be known, and the number of values."""
    rows, positions, values = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    symbols = st.integers(0, values)
    row = st.lists(symbols, min_size=positions, max_size=positions)
    return torch.tensor(draw(st.lists(row, min_size=rows, max_size=rows))), values


@every_sampler
@given(
    start=starts(), steps=st.integers(1, 7), seed=st.integers(0, 2**32), latent=st.sampled_from(["resample", "fixed"])
)
@properties
def test_known_positions_never_change_and_the_rest_is_filled(
    name: str, start: tuple[Tensor, int], steps: int, seed: int, latent: LatentPolicy
) -> None:
    given_start, values = start
    positions = given_start.shape[1]
    steps = SAMPLERS[name].default_steps(positions, steps)
    before = given_start.clone()
    model = model_of(TableDenoiser(positions, values, latent=True, timed=True), LINEAR)
    samples = sample(
        model,
        given_start,
        steps,
        seeded(seed),
        sampler=SAMPLERS[name],
        latent_policy=latent,
        token_sampler=TokenSampler(),
        record=len(given_start),
    )
    known = before < values
    assert samples.trajectory is not None
    assert samples.trajectory.shape == (steps + 1, *before.shape)
    assert samples.trajectory[0].equal(before)
    assert (samples.trajectory == before)[:, known].all()
    assert ((samples.tokens >= 0) & (samples.tokens < values)).all()
    assert given_start.equal(before), "the start belongs to the caller"


@every_sampler
@pytest.mark.parametrize("latent", ["resample", "fixed"])
def test_with_nothing_known_it_is_sampling_bit_for_bit(name: str, latent: LatentPolicy) -> None:
    model = model_of(TableDenoiser(4, 3, latent=True, timed=True), SQUARE)
    free, filled = (
        sample(model, start, 4, seeded(1), sampler=SAMPLERS[name], latent_policy=latent)
        for start in (50, torch.full((50, 4), 3))
    )
    assert free.tokens.equal(filled.tokens)
    assert (free.evaluations, free.sequences) == (filled.evaluations, filled.sequences)


@every_sampler
def test_with_everything_known_the_network_is_not_called(name: str) -> None:
    spy = Spy(3, 2, latent=True)
    start = torch.tensor([[0, 1, 1], [1, 0, 0]])
    samples = sample(model_of(spy, LINEAR), start, 3, seeded(0), sampler=SAMPLERS[name])
    assert samples.tokens.equal(start)
    assert samples.tokens.data_ptr() != start.data_ptr()
    assert samples.evaluations == samples.sequences == spy.calls == 0


@pytest.mark.parametrize(
    ("sampler", "steps", "planner"),
    [
        (Ancestral(), 2, ancestral([0, 0.5, 1])),
        (Ancestral(), 3, ancestral([0, 1 / 3, 2 / 3, 1])),
        (Parallel(), 2, parallel(2)),
        (Parallel(), 3, parallel(3)),
        (FirstHitting(), 3, first_hitting(8)),
    ],
    ids=["ancestral 2", "ancestral 3", "parallel 2", "parallel 3", "first-hitting"],
)
@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_each_start_of_a_batch_follows_its_own_conditional_law(
    sampler: Sampler, steps: int, planner: Planner, latent: bool
) -> None:
    """With times that depend on how much each row knows, under alpha = 1 - t^2 (first-hitting: 1 - t)."""
    known = LINEAR if isinstance(sampler, FirstHitting) else SQUARE
    timed = not (latent and isinstance(sampler, FirstHitting))
    denoiser = TableDenoiser(3, 2, seed=21, latent=latent, timed=timed)
    start = torch.tensor(STARTS).repeat(EACH, 1)
    tokens = sample(model_of(denoiser, known), start, steps, seeded(steps), sampler=sampler).tokens
    if not timed:
        planner = first_hitting(2)  # the times do not matter
    for i, row in enumerate(STARTS):
        law = planned_law(denoiser, known, planner, row)
        assert float(law.sum()) == pytest.approx(1)
        assert p_value(tokens[i :: len(STARTS)], law, 2) > LEVEL


@in_two_steps
def test_a_fixed_latent_holds_for_the_whole_trajectory(sampler: Sampler, planner: Planner) -> None:
    denoiser, start = TableDenoiser(3, 2, seed=22, latent=True, timed=True), [MASK, 1, MASK]
    model, rows = model_of(denoiser, LINEAR), torch.tensor([start]).repeat(EACH, 1)
    tokens = sample(model, rows, 2, seeded(3), sampler=sampler, latent_policy="fixed").tokens
    assert p_value(tokens, planned_law(denoiser, LINEAR, planner, start, fixed_z=True), 2) > LEVEL


@in_two_steps
@pytest.mark.parametrize("z", [-1.3, 0.4])
def test_a_latent_that_is_given_is_the_one_used(sampler: Sampler, planner: Planner, z: float) -> None:
    denoiser = TableDenoiser(3, 2, seed=23, latent=True, timed=True)
    node = torch.tensor([[z]], dtype=torch.float64)
    law = planned_law(denoiser, LINEAR, planner, prior=PriorGrid(node, torch.ones(1, dtype=torch.float64)))
    tokens = sample(model_of(denoiser, LINEAR), EACH, 2, seeded(3), sampler=sampler, z=node.repeat(EACH, 1)).tokens
    assert p_value(tokens, law, 2) > LEVEL


@pytest.mark.parametrize("name", ["confidence", "entropy-bounded", "remask"])
def test_each_row_keeps_the_latent_that_is_given_for_it(name: str) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    class LatentSpy(TableDenoiser):
        def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
            assert z is not None
            seen.append((xt.clone(), z.clone()))
            return super().forward(xt, z, t, where)

    # The first position of row i tells its number.
    start = torch.tensor([[i, 3, 3, 3] for i in range(3)])
    z = torch.tensor([[0.5], [-2.0], [1.5]])
    model = model_of(LatentSpy(4, 3, latent=True), LINEAR)
    sample(model, start, 3, seeded(0), sampler=SAMPLERS[name], z=z)
    assert len(seen) > 1
    for xt, used in seen:
        assert used.equal(z[xt[:, 0]])


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 1), (0, 3)], ids=str)
def test_sequences_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"have the shape \(n, 3\), not"):
        sample(model_of(TableDenoiser(3, 2), LINEAR), torch.zeros(shape, dtype=torch.int64), 2, seeded(0))


@pytest.mark.parametrize("wrong", [-1, 3, 100])
def test_values_that_the_model_does_not_know_are_refused(wrong: int) -> None:
    with pytest.raises(UserError, match=rf"hold the value {wrong}; the model knows 0\.\.1"):
        sample(model_of(TableDenoiser(3, 2), LINEAR), torch.tensor([[0, 1, wrong]]), 2, seeded(0))


@pytest.mark.parametrize("shape", [(5,), (4, 1), (5, 1, 1), (5, 2)], ids=str)
def test_latents_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"latents for 5 samples have the shape \(5, 1\), not"):
        sample(model_of(TableDenoiser(3, 2, latent=True), LINEAR), 5, 2, seeded(0), z=torch.zeros(shape))


def test_a_latent_for_a_model_without_one_is_refused() -> None:
    with pytest.raises(UserError, match="has no latent"):
        sample(model_of(TableDenoiser(3, 2), LINEAR), 5, 2, seeded(0), z=torch.zeros(5, 1))
