"""The samplers that plan ahead against the enumeration of their plans.

Every comparison is a chi-square test at level 1e-5 with a fixed seed. There are fewer than 80: if the seeds are ever
changed, a correct sampler fails one of them with probability below 1e-3.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import (
    COSINE,
    LINEAR,
    SQUARE,
    KnownSchedule,
    TableDenoiser,
    index_of,
    sampler_distribution,
    seeded,
)
from tests.helpers.plans import (
    Planner,
    ancestral,
    any_order_law,
    first_hitting,
    in_order,
    model_of,
    p_value,
    parallel,
    planned_law,
)
from vadd.core import Ancestral, FirstHitting, InOrder, MaskedDiffusion, Parallel, Sampler, sample
from vadd.core.sampling import Grid, LatentPolicy

SAMPLES = 20_000
LEVEL = 1e-5


@dataclass(frozen=True)
class Case:
    """A sampler as the package runs it, and all its plans."""

    name: str
    sampler: Sampler
    steps: int
    planner: Planner
    grid: Grid = "uniform"


def cosine_times(steps: int) -> list[float]:
    return [math.sin(math.pi / 2 * i / steps) for i in range(steps + 1)]


LISTED = [0.0, 0.15, 0.4, 1.0]
CASES = [
    Case("ancestral 1", Ancestral(), 1, ancestral([0, 1])),
    Case("ancestral 2", Ancestral(), 2, ancestral([0, 0.5, 1])),
    Case("ancestral 3", Ancestral(), 3, ancestral([0, 1 / 3, 2 / 3, 1])),
    Case("ancestral cosine", Ancestral(), 3, ancestral(cosine_times(3)), "cosine"),
    Case("ancestral listed", Ancestral(), 3, ancestral(LISTED), LISTED),
    Case("parallel 1", Parallel(), 1, parallel(1)),
    Case("parallel 2", Parallel(), 2, parallel(2)),
    Case("parallel 3", Parallel(), 3, parallel(3)),
    Case("left-to-right 2", InOrder(), 2, in_order(2)),
    Case("left-to-right 3", InOrder(), 3, in_order(3)),
]
for_each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
for_each_model = pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
for_each_timing = pytest.mark.parametrize("timed", [False, True], ids=["timeless", "timed"])


def drawn(
    denoiser: TableDenoiser, known: KnownSchedule, case: Case, latent: LatentPolicy | Tensor = "resample"
) -> Tensor:
    model = model_of(denoiser, known)
    return sample(
        model, SAMPLES, case.steps, seeded(case.steps), sampler=case.sampler, grid=case.grid, latent_policy=latent
    ).tokens


def first_hitting_case(positions: int, nodes: int) -> Case:
    return Case("first-hitting", FirstHitting(), positions, first_hitting(nodes))


@for_each_case
@for_each_model
@for_each_timing
def test_samples_follow_the_enumerated_law(case: Case, latent: bool, timed: bool) -> None:
    denoiser = TableDenoiser(3, 2, seed=11, latent=latent, timed=timed)
    law = planned_law(denoiser, SQUARE, case.planner)
    assert float(law.sum()) == pytest.approx(1)
    assert p_value(drawn(denoiser, SQUARE, case), law, 2) > LEVEL


@pytest.mark.parametrize("steps", [2, 3, 4])
@for_each_timing
def test_four_positions_in_parallel_follow_the_enumerated_law(steps: int, timed: bool) -> None:
    """4 in 2, 2; in 2, 1, 1; and one by one."""
    denoiser = TableDenoiser(4, 2, seed=12, timed=timed)
    case = Case("parallel", Parallel(), steps, parallel(steps))
    assert p_value(drawn(denoiser, COSINE, case), planned_law(denoiser, COSINE, case.planner), 2) > LEVEL


@pytest.mark.parametrize(
    ("denoiser", "known", "nodes"),
    [
        (TableDenoiser(2, 3, seed=13, latent=True, timed=True), LINEAR, 12),
        (TableDenoiser(2, 3, seed=13, timed=True), COSINE, 40),
        (TableDenoiser(3, 2, seed=14, timed=True), LINEAR, 10),
        (TableDenoiser(3, 3, seed=15, latent=True), LINEAR, 2),
        (TableDenoiser(4, 2, seed=16), SQUARE, 2),
    ],
    ids=["N = 2, vadd, timed", "N = 2, mdlm, timed", "N = 3, mdlm, timed", "N = 3, vadd", "N = 4, mdlm"],
)
def test_first_hitting_follows_the_enumerated_law(denoiser: TableDenoiser, known: KnownSchedule, nodes: int) -> None:
    """Where the denoiser is told the time, over the times of the events too; more nodes change nothing by 1e-4."""
    case = first_hitting_case(denoiser.positions, nodes)
    law = planned_law(denoiser, known, case.planner)
    assert float(law.sum()) == pytest.approx(1)
    if denoiser.uses_time:
        fewer = planned_law(denoiser, known, first_hitting(nodes - 2))
        assert float((law - fewer).abs().max()) < 1e-4
    assert p_value(drawn(denoiser, known, case), law, denoiser.vocab_size) > LEVEL


@for_each_model
@pytest.mark.parametrize(("positions", "values"), [(2, 3), (3, 2), (4, 2)])
def test_one_position_at_a_time_is_the_any_order_model_of_the_marginals(
    positions: int, values: int, latent: bool
) -> None:
    denoiser = TableDenoiser(positions, values, seed=17, latent=latent)
    law = any_order_law(denoiser)
    one_by_one = Case("parallel", Parallel(), positions, parallel(positions))
    for case in (one_by_one, first_hitting_case(positions, nodes=2)):
        assert_close(planned_law(denoiser, LINEAR, case.planner), law, rtol=0, atol=1e-12)
        assert p_value(drawn(denoiser, LINEAR, case), law, values) > LEVEL


@pytest.mark.parametrize("case", [CASES[2], CASES[6]], ids=lambda case: case.name)
def test_a_fixed_latent_follows_the_enumerated_law(case: Case) -> None:
    denoiser = TableDenoiser(3, 2, seed=18, latent=True, timed=True)
    fixed, resampled = (planned_law(denoiser, LINEAR, case.planner, fixed_z=fixed) for fixed in (True, False))
    tokens = drawn(denoiser, LINEAR, case, "fixed")
    assert p_value(tokens, fixed, 2) > LEVEL
    assert p_value(tokens, resampled, 2) < 1e-8


def test_the_enumeration_of_plans_agrees_with_the_composition_of_steps() -> None:
    """Two enumerations of Algorithm 2 that have nothing in common. The other one rounds 1 - rho to float32."""
    denoiser = TableDenoiser(3, 2, seed=11, timed=True)
    by_steps = sampler_distribution(denoiser, SQUARE, LISTED, fixed_z=False, nodes=1)
    assert_close(planned_law(denoiser, SQUARE, ancestral(LISTED)), by_steps, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("case", "enumerated", "moved"),
    [
        (CASES[6], ancestral([0, 0.5, 1]), 0.0),
        (CASES[1], parallel(2), 0.0),
        (CASES[6], parallel(2), 0.1),
        (first_hitting_case(3, 6), first_hitting(6), 0.1),
        (first_hitting_case(3, 6), parallel(3), 0.0),
    ],
    ids=["parallel", "ancestral", "times of parallel", "times of first-hitting", "first-hitting"],
)
def test_the_comparison_is_sharp_enough_to_see_a_wrong_plan_or_a_wrong_time(
    case: Case, enumerated: Planner, moved: float
) -> None:
    denoiser = TableDenoiser(3, 2, seed=19, timed=True)
    wrong = planned_law(denoiser, LINEAR, enumerated, move_times=moved)
    assert p_value(drawn(denoiser, LINEAR, case), wrong, 2) < 1e-8


class Spy(TableDenoiser):
    """Remembers the state and the time of every call."""

    def __init__(self, positions: int) -> None:
        super().__init__(positions, 2, seed=3)
        self.calls: list[tuple[Tensor, Tensor]] = []

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        self.calls.append((xt.clone(), t.clone()))
        return super().forward(xt, z, t, where)


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_parallel_tells_the_denoiser_the_time_of_the_masked_fraction(steps: int) -> None:
    spy = Spy(5)
    sample(MaskedDiffusion(spy, SQUARE.schedule), 20, steps, seeded(0), sampler=Parallel())
    assert len(spy.calls) == steps
    for xt, t in spy.calls:
        assert_close(t, (xt == 2).float().mean(1).sqrt())


def test_first_hitting_tells_the_denoiser_the_times_at_which_the_process_reveals() -> None:
    """Under alpha = 1 - t^2, the masked fraction at the first of k events is v times the one before, v^k uniform.
    Kolmogorov-Smirnov at level 1e-5.
    """
    spy = Spy(4)
    sample(MaskedDiffusion(spy, SQUARE.schedule), 3000, 4, seeded(0), sampler=FirstHitting())
    levels = [torch.ones(3000), *(t**2 for _, t in spy.calls)]
    assert [set((xt == 2).sum(1).tolist()) for xt, _ in spy.calls] == [{4}, {3}, {2}, {1}]
    for k, before, level in zip([4, 3, 2, 1], levels[:-1], levels[1:], strict=True):
        assert stats.kstest(((level / before) ** k).numpy(), "uniform").pvalue > LEVEL


def full_draws(denoiser: TableDenoiser, times: list[float], count: int, seed: int) -> Tensor:
    """Algorithm 2 as it is written, for alpha = 1 - t: at every masked position one draw from "value or mask"."""
    generator, mask = seeded(seed), denoiser.vocab_size
    x = torch.full((count, denoiser.positions), mask)
    for s, t in zip(reversed(times[:-1]), reversed(times[1:]), strict=True):
        z = torch.randn(count, 1, generator=generator)
        everywhere = torch.ones_like(x, dtype=torch.bool)
        mu = denoiser(x, z, torch.full((count,), t), everywhere).detach().softmax(-1)
        stay = torch.full((len(mu), 1), s / t, dtype=torch.float64)
        either = torch.cat([(1 - s / t) * mu, stay], dim=1)
        drawn = torch.multinomial(either, 1, generator=generator).view_as(x)
        x = torch.where(x == mask, drawn, x)
    return x


@for_each_model
def test_draws_at_the_revealed_positions_only_are_draws_everywhere_in_distribution(latent: bool) -> None:
    """Both samplers' counts in one contingency table: chi-square at level 1e-5."""
    denoiser = TableDenoiser(3, 3, seed=20, latent=latent, timed=True)
    times = [0.0, 0.3, 0.6, 1.0]
    gathered = sample(model_of(denoiser, LINEAR), SAMPLES, 3, seeded(1), grid=times).tokens
    counts = [index_of(x, 3).bincount(minlength=27) for x in (gathered, full_draws(denoiser, times, SAMPLES, seed=2))]
    table = torch.stack(counts)
    assert stats.chi2_contingency(table[:, table.sum(0) >= 20].numpy()).pvalue > LEVEL
