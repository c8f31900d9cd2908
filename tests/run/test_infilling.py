"""Filling in with a run: what is known stays, the rest follows the conditional law, and chunks do not matter.

Chi-square tests are at level 1e-5, with fixed seeds; there are 8.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import vadd
from tests.helpers.exact import LINEAR, TableDenoiser, properties
from tests.helpers.plans import ancestral, model_of, p_value, planned_law
from tests.helpers.progress import Told
from tests.helpers.tiny import tiny_recipe
from vadd.core import Ordered, TokenSampler, sample
from vadd.core.host import BLOCK, SAMPLING, Noise, step_generator
from vadd.core.sampling import LatentPolicy
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.recipe import SAMPLERS
from vadd.run import run as memory
from vadd.run.directory import RunDirectory
from vadd.run.infilling import masked_starts
from vadd.run.run import Run

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
    format = kind_of((denoiser.positions,), denoiser.vocab_size)
    return Run(RunDirectory("nowhere"), model_of(denoiser, LINEAR), tiny_recipe(), format)


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
    steps = SAMPLERS[name].default_steps(positions, steps)
    filled = run.infill(x, known, steps=steps, count=count, seed=seed, sampler=SAMPLERS[name])
    assert filled.shape == (len(x), count, positions)
    assert filled.dtype == torch.int64
    assert (filled == before[:, None])[known[:, None].expand_as(filled)].all()
    assert ((filled >= 0) & (filled < values)).all()
    assert x.equal(before), "the sequences belong to the caller"


@pytest.mark.parametrize("count", [1, 10, BLOCK, 2 * BLOCK + 22])
@pytest.mark.parametrize("latent", ["resample", "fixed"])
def test_with_nothing_known_it_is_sampling_bit_for_bit(count: int, latent: LatentPolicy) -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    sampler, colder = Ordered("margin"), TokenSampler(temperature=0.7)
    options: dict[str, Any] = {
        "sampler": sampler,
        "temperature": 0.7,
        "latent_policy": latent,
        "grid": "cosine",
        "steps": 3,
        "seed": 5,
    }
    filled = run.infill(torch.full((1, 4), -1), count=count, **options)[0]
    assert filled.equal(run.sample(count, **options))
    noise = block_noise(count, 5)
    free = sample(
        run.model, count, 3, noise, sampler=sampler, grid="cosine", latent_policy=latent, token_sampler=colder
    )
    assert filled.equal(free.tokens)


def test_with_everything_known_the_network_is_shown_nothing() -> None:
    run, x = run_of(Spy(3, 2, latent=True)), torch.tensor([[0, 1, 1], [1, 0, 0]])
    filled = run.infill(x, torch.ones_like(x, dtype=torch.bool), steps=4, count=3)
    assert filled.equal(x[:, None].expand(2, 3, 3))
    assert isinstance(run.model.denoiser, Spy)
    run.model.denoiser.shown = 0  # the memory of a row has been measured by now
    assert filled.equal(run.infill(x, steps=4, count=3))
    assert run.model.denoiser.shown == 0


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_completions_follow_the_conditional_law_of_each_sequence(latent: bool) -> None:
    denoiser = TableDenoiser(3, 2, seed=31, latent=latent, timed=True)
    starts = [[-1, -1, -1], [-1, 1, -1], [0, -1, -1], [1, 0, -1]]
    filled = run_of(denoiser).infill(torch.tensor(starts), steps=2, count=EACH, seed=1)
    for start, completions in zip(starts, filled, strict=True):
        law = planned_law(denoiser, LINEAR, ancestral([0, 0.5, 1]), [2 if v < 0 else v for v in start])
        assert p_value(completions, law, 2) > LEVEL


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (BLOCK, BLOCK), (3 * BLOCK + 7, 3 * BLOCK), (8192, 270)])
def test_chunks_do_not_matter(rows: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    x = torch.tensor([[-1, 0, -1, -1], [-1, -1, -1, 2], [1, -1, 1, 1]])
    whole = run.infill(x, steps=3, count=90)
    monkeypatch.setattr(memory, "CPU_ROWS", rows)
    told = Told()
    assert whole.equal(run.infill(x, steps=3, count=90, progress=told))
    seen = [done for _, done, _ in told]
    assert seen == sorted(seen)
    assert {*range(size, 270, size), 270} <= set(seen), "the end of every chunk"


def test_what_is_recorded_leads_from_the_start_to_the_completions() -> None:
    run = run_of(TableDenoiser(4, 3))
    x = torch.tensor([[-1, 0, -1, -1], [2, -1, -1, -1]])
    starts = masked_starts(run.model, run.shape, x, None, 3)
    assert starts.equal(x.masked_fill(x < 0, 3).repeat_interleave(3, dim=0))
    (part,) = run.stream(starts, steps=5, record=4)
    assert part.trajectory is not None
    assert part.trajectory.shape == (6, 4, 4)
    assert part.trajectory[0].equal(starts[:4])
    assert part.tokens.equal(run.infill(x, steps=5, count=3).flatten(0, 1))
    assert part.trajectory[-1].equal(part.tokens[:4])


def test_a_latent_of_ones_own_is_used() -> None:
    run = run_of(TableDenoiser(4, 3, latent=True))
    z = torch.linspace(-2, 2, 130).view(2, 65, 1)
    x = torch.full((2, 4), -1)
    filled = run.infill(x, steps=3, count=65, z=z)
    expected = sample(run.model, 130, 3, block_noise(130), z=z.flatten(0, 1)).tokens
    assert filled.flatten(0, 1).equal(expected)
    assert filled.equal(run.infill(x, steps=3, count=65, z=z.flatten(0, 1)))
    with pytest.raises(UserError, match=r"have the shape \(2, 65, d\), not \(65, 2, 1\)"):
        run.infill(x, steps=3, count=65, z=z.view(65, 2, 1))


def test_the_sampler_is_the_recipes_unless_given() -> None:
    run, x = run_of(TableDenoiser(4, 3, latent=True)), torch.full((1, 4), -1)
    other = run.with_sampling(sampler="margin")
    habitual = other.infill(x, steps=2, count=20)
    assert habitual.equal(run.infill(x, steps=2, count=20, sampler="margin"))
    assert not habitual.equal(other.infill(x, steps=2, count=20, sampler="ancestral"))


def test_grid_and_latent_policy_are_those_of_the_recipe_unless_given() -> None:
    run = run_of(TableDenoiser(4, 3, latent=True, timed=True))
    other = run.with_sampling(grid="cosine", latent_policy="fixed")
    x = torch.full((1, 4), -1)
    changed = other.infill(x, steps=3, count=50)
    assert not changed.equal(run.infill(x, steps=3, count=50))
    assert changed.equal(run.infill(x, steps=3, count=50, grid="cosine", latent_policy="fixed"))


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.int32])
def test_arrays_of_any_integers_are_taken(array_run: Path, kind: type[np.generic]) -> None:
    run = vadd.load(array_run)
    x = np.array([[[0, -1, 2], [-1, 1, -1]]]).astype(kind)
    filled = run.infill(x, steps=2, count=5)
    assert filled.flatten(2)[:, :, [0, 2, 4]].equal(torch.tensor([0, 2, 1]).expand(1, 5, 3))
    flat = x.reshape(1, 6)
    assert filled.flatten(2).equal(run.infill(flat, steps=2, count=5))
    assert filled.flatten(2).equal(run.infill(np.where(flat < 0, 3, flat).astype(kind), flat >= 0, steps=2, count=5))
    assert not filled.equal(run.infill(x, steps=2, count=5, seed=1))


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 6), (1, 2, 3), (4, 6), (4, 2, 3)])
def test_completions_have_the_shape_of_what_is_given(array_run: Path, shape: tuple[int, ...]) -> None:
    """One example or several, flat or not; with a count one axis more, behind that of the examples."""
    run = vadd.load(array_run)
    x = np.full(shape, -1)
    one = run.infill(x, steps=2)
    assert one.shape == shape
    several = run.infill(x, steps=2, count=5)
    alone = shape in ((6,), (2, 3))
    assert several.shape == ((5, *shape) if alone else (shape[0], 5, *shape[1:]))
    assert several.reshape(-1, 6)[: one.numel() // 6].equal(one.reshape(-1, 6)), "the first samples of the same seed"


@pytest.mark.parametrize(
    ("x", "known", "told"),
    [
        (torch.zeros(2, 7, dtype=torch.int64), None, r"shape \(n, 4\), not \(2, 7\)"),
        (torch.zeros(2, 3, dtype=torch.int64), None, r"have the shape \(n, 4\), not \(2, 3\)"),
        (torch.zeros(3, dtype=torch.int64), None, r"have the shape \(n, 4\), not \(3,\)"),
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
        run_of(TableDenoiser(4, 3)).infill(x, known, steps=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"grid": "square"}, "unknown grid"),
        ({"latent_policy": "new"}, "unknown latent_policy"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        run_of(TableDenoiser(4, 3)).infill(torch.full((1, 4), -1), **{"steps": 2, **settings})
