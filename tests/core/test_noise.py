"""Random numbers by blocks of rows: what a row is given does not depend on the rows drawn beside it, nor on how many
sequences the network is shown at a time.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.core.plan_helpers import model_of
from tests.exact import LINEAR, TableDenoiser, properties, seeded
from vadd.core import SAMPLERS, Ancestral, Noise, ValueDraw, sample, sampler
from vadd.core.noise import BLOCK
from vadd.core.sampler import LatentPolicy

POSITIONS, VALUES = 4, 3
MASK = VALUES
BLOCK_OF_FOUR, ROWS = 4, 10
every_sampler = pytest.mark.parametrize("name", SAMPLERS)


def blocks(*, rows: int, block: int, seed: int) -> list[tuple[Noise, slice]]:
    """Each block of the rows on its own."""
    parts = [slice(first, min(first + block, rows)) for first in range(0, rows, block)]
    return [(Noise([seeded(seed + i)], part.stop - part.start, block), part) for i, part in enumerate(parts)]


def together(*, rows: int, block: int, seed: int) -> Noise:
    return Noise([seeded(seed + i) for i in range(-(-rows // block))], rows, block)


sizes = {"rows": st.integers(1, 30), "block": st.integers(1, 12), "seed": st.integers(0, 2**31)}


@given(**sizes, density=st.floats(0, 1))
@properties
def test_every_block_gives_the_same_numbers_alone(rows: int, block: int, seed: int, density: float) -> None:
    where = torch.rand(rows, POSITIONS, generator=seeded(seed)) < density
    whole = together(rows=rows, block=block, seed=seed)
    uniform, shaped, at, again = whole.uniform(3), whole.uniform(), whole.uniform_at(where, 2), whole.uniform(1)
    normal = whole.each(lambda part, generator: torch.randn(part.stop - part.start, 2, generator=generator))
    assert uniform.shape == (rows, 3)
    assert shaped.shape == (rows,)
    assert at.shape == (int(where.sum()), 2)
    assert normal is not None
    ends = where.sum(1).cumsum(0).tolist()
    for noise, part in blocks(rows=rows, block=block, seed=seed):
        here = slice(ends[part.start - 1] if part.start else 0, ends[part.stop - 1])
        assert noise.uniform(3).equal(uniform[part])
        assert noise.uniform().equal(shaped[part])
        assert noise.uniform_at(where[part], 2).equal(at[here])
        assert noise.uniform(1).equal(again[part])
        alone = noise.each(lambda rows, generator: torch.randn(rows.stop - rows.start, 2, generator=generator))
        assert alone is not None
        assert alone.equal(normal[part])


def test_numbers_are_uniform_in_float64_and_never_one() -> None:
    uniform = together(rows=100, block=BLOCK, seed=0).uniform(50)
    assert uniform.dtype == torch.float64
    assert uniform.device.type == "cpu"
    assert ((uniform >= 0) & (uniform < 1)).all()
    assert len(set(uniform.flatten().tolist())) == uniform.numel()


def test_one_generator_serves_all_rows() -> None:
    assert Noise.of(seeded(3), 200).uniform(5).equal(torch.rand(200, 5, generator=seeded(3), dtype=torch.float64))


def test_what_draws_nothing_gives_nothing() -> None:
    assert together(rows=9, block=4, seed=0).each(lambda rows, generator: None) is None


def test_blocks_are_given_their_rows_in_order() -> None:
    seen: list[slice] = []

    def draw(rows: slice, generator: torch.Generator) -> Tensor:
        seen.append(rows)
        return torch.arange(rows.start, rows.stop)

    drawn = together(rows=9, block=4, seed=0).each(draw)
    assert drawn is not None
    assert drawn.tolist() == list(range(9))
    assert seen == [slice(0, 4), slice(4, 8), slice(8, 9)]


@pytest.mark.parametrize(("generators", "rows", "needed"), [(1, 65, 2), (3, 128, 2), (0, 1, 1)])
def test_a_wrong_number_of_generators_is_refused(generators: int, rows: int, needed: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows in blocks of 64 need {needed} generators"):
        Noise([seeded(0)] * generators, rows)


def test_noise_for_another_number_of_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="noise for 1 rows, but 5 samples"):
        sample(model_of(TableDenoiser(2, 2), LINEAR), 5, 2, Noise.of(seeded(0), 1))


def steps_of(name: str) -> int:
    return POSITIONS if name in ("parallel", "first-hitting") else 6


def partly_known() -> Tensor:
    values = torch.randint(VALUES, (ROWS, POSITIONS), generator=seeded(1))
    return values.masked_fill(torch.rand(ROWS, POSITIONS, generator=seeded(2)) < 0.7, MASK)


@every_sampler
@pytest.mark.parametrize("latent", ["resample", "fixed"])
@pytest.mark.parametrize("values", [ValueDraw(), ValueDraw(precision="float32")], ids=["float64", "float32"])
@pytest.mark.parametrize("filling", [False, True], ids=["from nothing", "infilling"])
def test_rows_are_the_same_whether_drawn_together_or_apart(
    name: str, latent: LatentPolicy, values: ValueDraw, filling: bool
) -> None:
    model = model_of(TableDenoiser(POSITIONS, VALUES, latent=True, timed=True), LINEAR)
    start = partly_known() if filling else torch.full((ROWS, POSITIONS), MASK)

    def drawn(some: Tensor, noise: Noise) -> Tensor:
        return sample(model, some, steps_of(name), noise, sampler=SAMPLERS[name], latent=latent, values=values).tokens

    whole = drawn(start, together(rows=ROWS, block=BLOCK_OF_FOUR, seed=7))
    apart = [drawn(start[part], noise) for noise, part in blocks(rows=ROWS, block=BLOCK_OF_FOUR, seed=7)]
    assert whole.equal(torch.cat(apart))


def test_blocks_draw_independently_of_each_other() -> None:
    """Equal generators give equal blocks, different ones different blocks."""
    model = model_of(TableDenoiser(POSITIONS, VALUES, latent=True), LINEAR)
    equal = sample(model, 20, 3, Noise([seeded(5), seeded(5)], 20, 10)).tokens
    assert equal[:10].equal(equal[10:])
    different = sample(model, 20, 3, Noise([seeded(5), seeded(6)], 20, 10)).tokens
    assert different[:10].equal(equal[:10])
    assert not different[:10].equal(different[10:])


class CountingDenoiser(TableDenoiser):
    """Remembers how many sequences and how many logits every call took."""

    def __init__(self) -> None:
        super().__init__(POSITIONS, VALUES, latent=True, timed=True)
        self.calls: list[tuple[int, int]] = []

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert where.any(1).all(), "sequences that ask for nothing are not shown"
        logits = super().forward(xt, z, t, where)
        self.calls.append((len(xt), logits.numel()))
        return logits


@every_sampler
@pytest.mark.parametrize("most", [1, 7, 20])
def test_few_logits_at_once_give_the_same_samples(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = CountingDenoiser()
    model = model_of(spy, LINEAR)

    def drawn() -> Tensor:
        return sample(model, partly_known(), steps_of(name), seeded(3), sampler=SAMPLERS[name]).tokens

    whole, calls = drawn(), len(spy.calls)
    monkeypatch.setattr(sampler, "LOGITS_AT_ONCE", most)
    spy.calls.clear()
    assert drawn().equal(whole)
    assert len(spy.calls) > calls
    assert all(logits <= most or sequences == 1 for sequences, logits in spy.calls)


@every_sampler
def test_the_network_is_called_at_the_steps_and_for_the_sequences_that_need_it(name: str) -> None:
    """The counts are those of the calls, and no step is charged at which nobody asks."""
    spy = CountingDenoiser()
    steps = POSITIONS if name in ("parallel", "first-hitting") else 60
    samples = sample(model_of(spy, LINEAR), 2, steps, seeded(4), sampler=SAMPLERS[name], record=True)
    assert samples.evaluations == len(spy.calls) <= steps
    assert samples.sequences == sum(sequences for sequences, _ in spy.calls) <= 2 * samples.evaluations
    if SAMPLERS[name].exact:  # two sequences of four positions
        assert samples.evaluations <= 2 * POSITIONS
        assert sum(logits for _, logits in spy.calls) == 2 * POSITIONS * VALUES


def test_one_sequence_on_a_fine_grid_costs_one_call_for_each_position() -> None:
    """60 steps, of which 4 at most reveal something."""
    spy = CountingDenoiser()
    samples = sample(model_of(spy, LINEAR), 1, 60, seeded(5), sampler=Ancestral())
    assert samples.evaluations == samples.sequences == len(spy.calls) <= POSITIONS
