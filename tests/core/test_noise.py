"""Random numbers by blocks of rows: what a row is given does not depend on the rows drawn beside it, nor on how many
sequences the network is shown at a time.
"""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from tests.helpers.exact import LINEAR, TableDenoiser, properties, seeded
from tests.helpers.plans import model_of
from vadd.core import Ancestral, Noise, TokenSampler, sample, sampling
from vadd.core.host import BLOCK, Places
from vadd.core.sampling import DrawPrecision, LatentPolicy, uniforms_of_seeds
from vadd.recipe import SAMPLERS

POSITIONS, VALUES = 4, 3
MASK = VALUES
BLOCK_OF_FOUR, ROWS = 4, 10
every_sampler = pytest.mark.parametrize("name", SAMPLERS)


def noise_of(part: slice, *, block: int, seed: int) -> Noise:
    """For some rows, the generator of block number i seeded with seed + i."""
    numbers = range(part.start // block, -(-part.stop // block))
    return Noise([seeded(seed + i) for i in numbers], part.stop - part.start, block, first=part.start % block)


def together(*, rows: int, block: int, seed: int) -> Noise:
    return noise_of(slice(0, rows), block=block, seed=seed)


@st.composite
def cuts(draw: st.DrawFn) -> list[slice]:
    """Rows in chunks of any sizes."""
    ends = [0]
    for size in draw(st.lists(st.integers(1, 30), min_size=1, max_size=5)):
        ends.append(ends[-1] + size)
    return [slice(first, last) for first, last in itertools.pairwise(ends)]


@given(parts=cuts(), block=st.integers(1, 12), seed=st.integers(0, 2**31))
@properties
def test_every_chunk_gives_the_same_numbers_alone(parts: list[slice], block: int, seed: int) -> None:
    """Wherever it begins and ends, and after any number of draws."""
    rows = parts[-1].stop

    def drawn(noise: Noise) -> list[Tensor]:
        return [noise.uniform(3), noise.uniform(), noise.normal(2), noise.seeds(), noise.normal(5), noise.uniform(1)]

    whole = drawn(together(rows=rows, block=block, seed=seed))
    assert [tuple(numbers.shape) for numbers in whole] == [(rows, 3), (rows,), (rows, 2), (rows,), (rows, 5), (rows, 1)]
    for part in parts:
        alone = drawn(noise_of(part, block=block, seed=seed))
        assert all(mine.equal(numbers[part]) for mine, numbers in zip(alone, whole, strict=True))


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_numbers_of_a_row_do_not_depend_on_what_others_ask_for(precision: DrawPrecision) -> None:
    numbers = Noise.of(seeded(1), 3).uniform(POSITIONS)
    if precision == "float32":
        numbers = Noise.of(seeded(1), 3).seeds()
    where = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]]).bool()

    def uniforms_at(places: Places, numbers: Tensor) -> Tensor:
        return places.values(numbers) if precision == "float64" else uniforms_of_seeds(places, numbers, VALUES)

    uniforms = uniforms_at(Places.of(where), numbers)
    assert uniforms.shape == ((5,) if precision == "float64" else (5, VALUES))
    assert len(set(uniforms.flatten().tolist())) == uniforms.numel()
    for row, part in [(0, slice(0, 2)), (1, slice(2, 2)), (2, slice(2, 5))]:
        places = Places.of(where[row : row + 1])
        assert uniforms_at(places, numbers[row : row + 1]).equal(uniforms[part])
    everything = uniforms_at(Places.of(torch.ones_like(where)), numbers)
    assert uniforms[2:].equal(everything[9:12]) == (precision == "float64")


def test_numbers_are_uniform_in_float64_and_never_one() -> None:
    uniform = together(rows=100, block=BLOCK, seed=0).uniform(50)
    assert uniform.dtype == torch.float64
    assert uniform.device.type == "cpu"
    assert ((uniform >= 0) & (uniform < 1)).all()
    assert len(set(uniform.flatten().tolist())) == uniform.numel()


def test_one_generator_serves_all_rows() -> None:
    assert Noise.of(seeded(3), 200).uniform(5).equal(torch.rand(200, 5, generator=seeded(3), dtype=torch.float64))


def test_normal_numbers_are_standard_normal_in_float32() -> None:
    """Kolmogorov-Smirnov at level 1e-6."""
    normal = together(rows=100, block=BLOCK, seed=0).normal(50)
    assert normal.dtype == torch.float32
    assert stats.kstest(normal.flatten().numpy(), stats.norm.cdf).pvalue > 1e-6


@pytest.mark.parametrize(("generators", "rows", "needed"), [(1, 65, 2), (3, 128, 2), (0, 1, 1)])
def test_a_wrong_number_of_generators_is_refused(generators: int, rows: int, needed: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows in blocks of 64 need {needed} generators"):
        Noise([seeded(0)] * generators, rows)


@pytest.mark.parametrize("first", [-1, 64])
def test_a_row_beyond_the_first_block_is_refused(first: int) -> None:
    with pytest.raises(ValueError, match=f"a block of 64 rows has no row {first}"):
        Noise([seeded(0)], 1, first=first)


def test_noise_for_another_number_of_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="noise for 1 rows, but 5 samples"):
        sample(model_of(TableDenoiser(2, 2), LINEAR), 5, 2, Noise.of(seeded(0), 1))


def steps_of(name: str) -> int:
    return SAMPLERS[name].default_steps(POSITIONS, 6)


def partly_known() -> Tensor:
    values = torch.randint(VALUES, (ROWS, POSITIONS), generator=seeded(1))
    return values.masked_fill(torch.rand(ROWS, POSITIONS, generator=seeded(2)) < 0.7, MASK)


@every_sampler
@pytest.mark.parametrize("latent", ["resample", "fixed"])
@pytest.mark.parametrize(
    "token_sampler", [TokenSampler(), TokenSampler(precision="float32")], ids=["float64", "float32"]
)
@pytest.mark.parametrize("filling", [False, True], ids=["from nothing", "infilling"])
def test_rows_are_the_same_whether_drawn_together_or_apart(
    name: str, latent: LatentPolicy, token_sampler: TokenSampler, filling: bool
) -> None:
    model = model_of(TableDenoiser(POSITIONS, VALUES, latent=True, timed=True), LINEAR)
    start = partly_known() if filling else torch.full((ROWS, POSITIONS), MASK)

    def drawn(some: Tensor, noise: Noise) -> Tensor:
        sampler, steps = SAMPLERS[name], steps_of(name)
        return sample(
            model, some, steps, noise, sampler=sampler, latent_policy=latent, token_sampler=token_sampler
        ).tokens

    whole = drawn(start, together(rows=ROWS, block=BLOCK_OF_FOUR, seed=7))
    for size in (1, 3, 4, 7):
        parts = [slice(first, min(first + size, ROWS)) for first in range(0, ROWS, size)]
        apart = [drawn(start[part], noise_of(part, block=BLOCK_OF_FOUR, seed=7)) for part in parts]
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
    monkeypatch.setattr(sampling, "LOGITS_AT_ONCE", most)
    spy.calls.clear()
    assert drawn().equal(whole)
    assert len(spy.calls) > calls
    assert all(logits <= most or sequences == 1 for sequences, logits in spy.calls)


@every_sampler
def test_the_network_is_called_at_the_steps_and_for_the_sequences_that_need_it(name: str) -> None:
    """The counts are those of the calls, and no step is charged at which nobody asks."""
    spy = CountingDenoiser()
    steps = SAMPLERS[name].default_steps(POSITIONS, 60)
    samples = sample(model_of(spy, LINEAR), 2, steps, seeded(4), sampler=SAMPLERS[name])
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
