"""Filling in with a run: what is known stays, the rest follows the conditional law, and chunks do not matter.

Chi-square tests are at level 1e-5, with fixed seeds; there are 8.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import vadd
from tests.conftest import tiny_recipe
from tests.core.plan_helpers import ancestral, model_of, p_value, planned_law
from tests.exact import LINEAR, TableDenoiser, properties
from vadd.core import SAMPLERS, Ordered, TokenSampler, sample
from vadd.core.noise import BLOCK, Noise
from vadd.core.randomness import SAMPLING, step_generator
from vadd.errors import UserError
from vadd.generation.infilling import infill
from vadd.recipe import MlpNetwork
from vadd.runs.run import Run, RunDirectory

LEVEL = 1e-5
EACH = 4000


class Spy(TableDenoiser):
    """Counts the sequences it is shown."""

    shown = 0

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        self.shown += len(xt)
        return super().forward(xt, z, t, where)


def run_of(denoiser: TableDenoiser) -> Run:
    """A run that was never trained and lies nowhere."""
    return Run(RunDirectory("nowhere"), model_of(denoiser, LINEAR), tiny_recipe())


def block_noise(rows: int, seed: int = 0) -> Noise:
    return Noise([step_generator(seed, SAMPLING, block) for block in range(-(-rows // BLOCK))], rows)


@st.composite
def unfinished(draw: st.DrawFn) -> tuple[Tensor, Tensor, int]:
    """Sequences, which of their positions are known, and V; what is not known may be any number."""
    rows, positions, values = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    size = rows * positions
    known = torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    x = torch.tensor(draw(st.lists(st.integers(0, values - 1), min_size=size, max_size=size)))
    junk = torch.tensor(draw(st.lists(st.integers(-(2**40), 2**40), min_size=size, max_size=size)))
    return torch.where(known, x, junk).view(rows, -1), known.view(rows, -1), values


@pytest.mark.parametrize("name", SAMPLERS)
@given(case=unfinished(), count=st.integers(1, 3), steps=st.integers(1, 5), seed=st.integers(0, 2**32))
@properties
def test_known_positions_never_change_and_the_rest_is_filled(
    name: str, case: tuple[Tensor, Tensor, int], count: int, steps: int, seed: int
) -> None:
    x, known, values = case
    before, positions = x.clone(), x.shape[1]
    run = run_of(TableDenoiser(positions, values, latent=True, timed=True))
    steps = {"parallel": min(steps, positions), "first-hitting": positions}.get(name, steps)
    filled = infill(run, x, known, steps=steps, count=count, seed=seed, sampler=SAMPLERS[name])
    assert filled.shape == (len(x), count, positions)
    assert filled.dtype == torch.int64
    assert (filled == before[:, None])[known[:, None].expand_as(filled)].all()
    assert ((filled >= 0) & (filled < values)).all()
    assert x.equal(before), "the sequences belong to the caller"


@pytest.mark.parametrize("count", [1, 10, BLOCK, 2 * BLOCK + 22])
@pytest.mark.parametrize("latent", ["resample", "fixed"])
def test_with_nothing_known_it_is_sampling_bit_for_bit(count: int, latent: str) -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    settings = {
        "sampler": Ordered("margin"),
        "values": TokenSampler(temperature=0.7),
        "latent": latent,
        "grid": "cosine",
    }
    filled = infill(run, torch.full((1, 4), -1), steps=3, count=count, seed=5, **settings)  # type: ignore[arg-type]
    free = sample(run.model, count, 3, block_noise(count, 5), **settings)  # type: ignore[arg-type]
    assert filled[0].equal(free.tokens)


def test_with_everything_known_the_network_is_not_called() -> None:
    spy = Spy(3, 2, latent=True)
    x = torch.tensor([[0, 1, 1], [1, 0, 0]])
    filled = infill(run_of(spy), x, torch.ones_like(x, dtype=torch.bool), steps=4, count=3)
    assert filled.equal(x[:, None].expand(2, 3, 3))
    assert filled.equal(infill(run_of(spy), x, steps=4, count=3))
    assert spy.shown == 0


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_completions_follow_the_conditional_law_of_each_sequence(latent: bool) -> None:
    denoiser = TableDenoiser(3, 2, seed=31, latent=latent, timed=True)
    starts = [[-1, -1, -1], [-1, 1, -1], [0, -1, -1], [1, 0, -1]]
    filled = infill(run_of(denoiser), torch.tensor(starts), steps=2, count=EACH, seed=1)
    for start, completions in zip(starts, filled, strict=True):
        law = planned_law(denoiser, LINEAR, ancestral([0, 0.5, 1]), [2 if v < 0 else v for v in start])
        assert p_value(completions, law, 2) > LEVEL


@pytest.mark.parametrize("rows_at_once", [1, BLOCK, 3 * BLOCK + 7, 8192])
def test_chunks_do_not_matter(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    x = torch.tensor([[-1, 0, -1, -1], [-1, -1, -1, 2], [1, -1, 1, 1]])
    whole = infill(run, x, steps=3, count=90)
    monkeypatch.setattr(MlpNetwork, "rows_at_once", rows_at_once)
    told: list[int] = []
    states: list[Tensor] = []
    assert whole.equal(infill(run, x, steps=3, count=90, progress=lambda done: told.append(done)))
    size = max(BLOCK, rows_at_once // BLOCK * BLOCK)
    assert told == [*range(size, 270, size), 270]
    assert whole.equal(infill(run, x, steps=3, count=90, record=states.append))
    assert whole.flatten(0, 1)[:BLOCK].equal(states[0][-1])


def test_what_is_recorded_leads_from_the_start_to_the_completions() -> None:
    run = run_of(TableDenoiser(4, 3))
    x = torch.tensor([[-1, 0, -1, -1], [2, -1, -1, -1]])
    states: list[Tensor] = []
    filled = infill(run, x, steps=5, count=3, record=states.append)
    (recorded,) = states
    assert recorded.shape == (6, 6, 4)
    assert recorded[0].equal(x.masked_fill(x < 0, 3).repeat_interleave(3, dim=0))
    assert recorded[-1].equal(filled.flatten(0, 1))


def test_a_latent_of_ones_own_is_used() -> None:
    run = run_of(TableDenoiser(4, 3, latent=True))
    z = torch.linspace(-2, 2, 130).view(2, 65, 1)
    x = torch.full((2, 4), -1)
    filled = infill(run, x, steps=3, count=65, latent=z)
    expected = sample(run.model, 130, 3, block_noise(130), latent=z.flatten(0, 1)).tokens
    assert filled.flatten(0, 1).equal(expected)
    with pytest.raises(UserError, match=r"have the shape \(2, 65, d\), not \(130, 1\)"):
        infill(run, x, steps=3, count=65, latent=z.flatten(0, 1))


def test_the_sampler_is_the_recipes_unless_given() -> None:
    run, x = run_of(TableDenoiser(4, 3, latent=True)), torch.full((1, 4), -1)
    other = run.with_sampling(sampler="margin")
    habitual = infill(other, x, steps=2, count=20)
    assert habitual.equal(infill(run, x, steps=2, count=20, sampler="margin"))
    assert not habitual.equal(infill(other, x, steps=2, count=20, sampler="ancestral"))


def test_grid_and_latent_policy_are_those_of_the_recipe_unless_given() -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    other = run.with_sampling(grid="cosine", latent_policy="fixed")
    x = torch.full((1, 4), -1)
    changed = infill(other, x, steps=3, count=50)
    assert not changed.equal(infill(run, x, steps=3, count=50))
    assert changed.equal(infill(run, x, steps=3, count=50, grid="cosine", latent="fixed"))


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.int32])
def test_arrays_of_any_integers_and_of_the_examples_shape_are_taken(array_run: Path, kind: type[np.generic]) -> None:
    run = vadd.load(array_run)
    x = np.array([[[0, -1, 2], [-1, 1, -1]]]).astype(kind)
    filled = infill(run, x, steps=2, count=5)
    assert filled.shape == (1, 5, 6)
    assert filled[:, :, [0, 2, 4]].equal(torch.tensor([0, 2, 1]).expand(1, 5, 3))
    flat = x.reshape(1, 6)
    assert filled.equal(infill(run, flat, steps=2, count=5))
    assert filled.equal(infill(run, np.where(flat < 0, 3, flat).astype(kind), flat >= 0, steps=2, count=5))
    assert not filled.equal(infill(run, x, steps=2, count=5, seed=1))


@pytest.mark.parametrize(
    ("x", "known", "told"),
    [
        (torch.zeros(2, 7, dtype=torch.int64), None, "have 7 positions, more than the model's 4"),
        (torch.zeros(2, 3, dtype=torch.int64), None, r"have the shape \(n, 4\), not \(2, 3\)"),
        (torch.zeros(4, dtype=torch.int64), None, r"have the shape \(n, 4\), not \(4,\)"),
        (torch.zeros(0, 4, dtype=torch.int64), None, r"have the shape \(n, 4\), not \(0, 4\)"),
        (torch.zeros(2, 4), None, r"are integers; these are float32 \(2, 4\)"),
        (torch.tensor([[0, 1, 3, -1]]), None, r"hold the value 3; the model knows 0\.\.2"),
        (torch.tensor([[0, 1, -2, -1]]), None, "hold the value -2"),
        (torch.tensor([[0, 1, -1, 0]]), torch.ones(1, 4, dtype=torch.bool), "hold the value -1"),
        (torch.zeros(1, 4, dtype=torch.int64), torch.ones(4, dtype=torch.bool), r"known says .* it is bool \(4,\)"),
        (torch.zeros(1, 4, dtype=torch.int64), torch.ones(1, 4), r"known says .* it is float32 \(1, 4\)"),
    ],
)
def test_what_cannot_be_filled_is_told_in_one_line(x: Tensor, known: Tensor | None, told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        infill(run_of(TableDenoiser(4, 3)), x, known, steps=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"count": 0}, "number of completions must be at least 1, not 0"),
        ({"steps": 0}, "at least 1 step"),
        ({"grid": "square"}, "unknown step grid"),
        ({"latent": "new"}, "unknown latent policy"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(UserError, match=told):
        infill(run_of(TableDenoiser(4, 3)), torch.full((1, 4), -1), **{"steps": 2, **settings})  # type: ignore[arg-type]


def test_a_run_fills_in_by_itself() -> None:
    torch.manual_seed(0)
    run = run_of(TableDenoiser(3, 2))
    x = torch.tensor([[1, -1, 0], [-1, -1, 1]])
    assert torch.equal(run.infill(x, steps=2, count=5, seed=3), infill(run, x, steps=2, count=5, seed=3))
