"""The sampler's output against the exact composition of its steps, by enumeration of states and quadrature over z.

Every comparison is a chi-square test at level 1e-5 with a fixed seed. There are fewer than 60: if the seeds are ever
changed, a correct sampler fails one of them with probability below 6e-4.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tests.helpers.exact import (
    COSINE,
    LINEAR,
    SQUARE,
    ConstantRecognizer,
    KnownSchedule,
    TableDenoiser,
    chi_square_p_value,
    index_of,
    sampler_distribution,
    seeded,
)
from vadd.core import GaussianLatent, MaskedDiffusion, Noise, sample
from vadd.core.sampling import Grid, LatentPolicy

SAMPLES = 30_000
LEVEL = 1e-5


def grid_times(steps: int, grid: Grid) -> list[float]:
    fractions = [i / steps for i in range(steps + 1)]
    return fractions if grid == "uniform" else [math.sin(math.pi / 2 * fraction) for fraction in fractions]


def p_value(
    denoiser: TableDenoiser,
    steps: int,
    *,
    sampled: tuple[Grid, LatentPolicy],
    enumerated: tuple[Grid, LatentPolicy],
    known: KnownSchedule = LINEAR,
) -> float:
    latent = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1) if denoiser.latent else None
    model = MaskedDiffusion(denoiser, known.schedule, latent)
    tokens = sample(model, SAMPLES, steps, seeded(steps), grid=sampled[0], latent_policy=sampled[1]).tokens
    counts = index_of(tokens, denoiser.vocab_size).bincount(minlength=denoiser.vocab_size**denoiser.positions)
    exact = sampler_distribution(denoiser, known, grid_times(steps, enumerated[0]), fixed_z=enumerated[1] == "fixed")
    assert float(exact.sum()) == pytest.approx(1)
    return chi_square_p_value(counts.numpy(), exact.numpy())


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("grid", ["uniform", "cosine"])
@pytest.mark.parametrize("policy", ["resample", "fixed"])
@pytest.mark.parametrize("timed", [False, True], ids=["timeless", "timed"])
def test_vadd_samples_follow_the_exact_composition_of_steps(
    steps: int, grid: Grid, policy: LatentPolicy, timed: bool
) -> None:
    denoiser = TableDenoiser(2, 4, seed=1, latent=True, timed=timed)
    assert p_value(denoiser, steps, sampled=(grid, policy), enumerated=(grid, policy)) > LEVEL


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("grid", ["uniform", "cosine"])
@pytest.mark.parametrize("timed", [False, True], ids=["timeless", "timed"])
def test_mdlm_samples_follow_the_exact_composition_of_steps(steps: int, grid: Grid, timed: bool) -> None:
    denoiser = TableDenoiser(2, 4, seed=2, timed=timed)
    assert p_value(denoiser, steps, sampled=(grid, "resample"), enumerated=(grid, "resample")) > LEVEL


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("policy", ["resample", "fixed"])
@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_three_positions_follow_the_exact_composition_of_steps(steps: int, policy: LatentPolicy, latent: bool) -> None:
    denoiser = TableDenoiser(3, 3, seed=3, latent=latent, timed=True)
    assert p_value(denoiser, steps, sampled=("uniform", policy), enumerated=("uniform", policy)) > LEVEL


@pytest.mark.parametrize("known", [COSINE, SQUARE], ids=lambda known: known.name)
def test_the_steps_follow_the_models_schedule(known: KnownSchedule) -> None:
    denoiser = TableDenoiser(2, 4, seed=4, latent=True, timed=True)
    assert p_value(denoiser, 3, sampled=("cosine", "resample"), enumerated=("cosine", "resample"), known=known) > LEVEL


@pytest.mark.parametrize(
    ("sampled", "enumerated"),
    [
        (("uniform", "resample"), ("uniform", "fixed")),
        (("uniform", "fixed"), ("uniform", "resample")),
        (("uniform", "resample"), ("cosine", "resample")),
    ],
    ids=["resample is not fixed", "fixed is not resample", "uniform is not cosine"],
)
def test_the_comparison_is_sharp_enough_to_tell_the_variants_apart(
    sampled: tuple[Grid, LatentPolicy], enumerated: tuple[Grid, LatentPolicy]
) -> None:
    """Otherwise the tests above would prove little."""
    assert (
        p_value(TableDenoiser(2, 4, seed=1, latent=True, timed=True), 2, sampled=sampled, enumerated=enumerated) < 1e-12
    )


def test_in_one_step_the_latent_makes_positions_dependent() -> None:
    """The enumerated law is not the product of its marginals, so the agreement above is about dependence too."""
    law = sampler_distribution(TableDenoiser(2, 4, seed=1, latent=True), LINEAR, [0.0, 1.0], fixed_z=False).view(4, 4)
    product = law.sum(1, keepdim=True) * law.sum(0, keepdim=True)
    assert float((law - product).abs().sum()) / 2 > 0.05
    without = sampler_distribution(TableDenoiser(2, 4, seed=1), LINEAR, [0.0, 1.0], fixed_z=False).view(4, 4)
    assert torch.allclose(without, without.sum(1, keepdim=True) * without.sum(0, keepdim=True))


@torch.no_grad()
def plain_samples(model: MaskedDiffusion, count: int, times: list[float], known: KnownSchedule) -> torch.Tensor:
    """As samplers are usually written: at every step one draw of "value or mask" at all positions, from V + 1."""
    generator = seeded(99)
    x = torch.full((count, model.positions), model.mask_value)
    for t, s in zip(times[:0:-1], times[-2::-1], strict=True):
        told = torch.full((count,), t)
        z = model.latent.draw(x, told, Noise.of(generator, count))
        logits = model.denoiser(x, z, told, torch.ones_like(x, dtype=torch.bool))
        values = logits.double().softmax(-1) * known.reveal(t, s)
        both = torch.cat([values, torch.full((len(values), 1), 1 - known.reveal(t, s), dtype=torch.float64)], dim=1)
        drawn = torch.multinomial(both, 1, generator=generator).view_as(x)
        x = torch.where(x == model.mask_value, drawn, x)
    return x


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_drawing_only_what_is_revealed_is_the_plain_sampler_in_distribution(steps: int, latent: bool) -> None:
    """Two samples of equal size, chi-square for homogeneity; against another number of steps it is sharp."""
    denoiser = TableDenoiser(3, 3, seed=5, latent=latent, timed=True)
    prior = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1) if latent else None
    model = MaskedDiffusion(denoiser, COSINE.schedule, prior)

    def counts(tokens: torch.Tensor) -> np.ndarray[Any, np.dtype[Any]]:
        return index_of(tokens, 3).bincount(minlength=27).numpy()

    def p_of(ours_steps: int) -> float:
        plain = plain_samples(model, SAMPLES, grid_times(steps, "uniform"), COSINE)
        ours = sample(model, SAMPLES, ours_steps, seeded(steps)).tokens
        both = np.stack([counts(plain), counts(ours)])
        return float(stats.chi2_contingency(both[:, both.sum(0) > 0]).pvalue)

    assert p_of(steps) > LEVEL
    if steps == 1:
        assert p_of(2) < 1e-8
