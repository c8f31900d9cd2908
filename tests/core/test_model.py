"""The composed model: its sizes, and the log-likelihood of the masked values against a loop over positions."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import ConstantRecognizer, TableDenoiser, seeded
from vadd.core import ExactCount, GaussianLatent, IidTimes, LinearSchedule, MaskedBatch, MaskedDiffusion, NoLatent

POSITIONS, VALUES, SIZE = 3, 4, 6


def batch_of(size: int = SIZE) -> MaskedBatch:
    x0 = torch.randint(VALUES, (size, POSITIONS), generator=seeded(0))
    return MaskedBatch.of(x0, ExactCount()(size, POSITIONS, LinearSchedule(), seeded(1)), VALUES)


def by_loop(denoiser: TableDenoiser, batch: MaskedBatch, z: Tensor | None, where: Tensor) -> Tensor:
    """One call of the network for each example and particle, one sum over positions."""
    result = torch.zeros(1 if z is None else len(z), len(batch.x0), dtype=torch.float64)
    for particle in range(len(result)):
        for b in range(len(batch.x0)):
            latent = None if z is None else z[particle, b : b + 1]
            everywhere = torch.ones(1, POSITIONS, dtype=torch.bool)
            mu = denoiser(batch.xt[b : b + 1], latent, batch.t[b : b + 1], everywhere).softmax(-1)
            for i in range(POSITIONS):
                if where[b, i]:
                    result[particle, b] += mu[i, batch.x0[b, i]].log()
    return result


@pytest.mark.parametrize("particles", [None, 1, 3])
@pytest.mark.parametrize("subset", [False, True], ids=["all masked", "some of the masked"])
def test_the_log_likelihood_is_the_sum_over_the_positions_asked_for(particles: int | None, subset: bool) -> None:
    denoiser = TableDenoiser(POSITIONS, VALUES, latent=particles is not None, timed=True)
    batch = batch_of()
    where = batch.masking.masked.clone()
    if subset:
        where[:, 0] = False
    z = None if particles is None else torch.randn(particles, SIZE, 1, generator=seeded(2), dtype=torch.float64)
    result = MaskedDiffusion(denoiser, LinearSchedule()).log_likelihood(batch, z, where)
    assert_close(result, by_loop(denoiser, batch, z, where))


@pytest.mark.parametrize("particles", [None, 1, 3])
def test_the_log_likelihood_of_nothing_is_zero(particles: int | None) -> None:
    batch = batch_of()
    z = None if particles is None else torch.zeros(particles, SIZE, 1)
    model = MaskedDiffusion(TableDenoiser(POSITIONS, VALUES, latent=particles is not None), LinearSchedule())
    result = model.log_likelihood(batch, z, torch.zeros_like(batch.masking.masked))
    assert result.shape == (particles or 1, SIZE)
    assert (result == 0).all()


@pytest.mark.parametrize("particles", [1, 3])
def test_forward_scores_the_masked_positions_with_the_latent(particles: int) -> None:
    """A posterior of no width makes every particle its mean, so the reconstruction is known exactly."""
    denoiser = TableDenoiser(POSITIONS, VALUES, latent=True)
    latent = GaussianLatent(ConstantRecognizer(0.4, -40.0), dim=1, particles=particles)
    batch = batch_of()
    evidence = MaskedDiffusion(denoiser, LinearSchedule(), latent)(batch, 0.0, seeded(3))
    at_mean = torch.full((1, SIZE, 1), 0.4, dtype=torch.float64)
    expected = batch.masking.weight * by_loop(denoiser, batch, at_mean, batch.masking.masked)[0]
    assert_close(evidence.reconstruction, expected)
    assert_close(evidence.bound, expected)


def test_the_model_knows_its_sizes_and_its_mask() -> None:
    model = MaskedDiffusion(TableDenoiser(POSITIONS, VALUES), LinearSchedule())
    assert (model.positions, model.vocab_size, model.mask_value) == (POSITIONS, VALUES, VALUES)
    assert model.device == torch.device("cpu")
    assert isinstance(model.latent, NoLatent)


def test_the_parameters_of_all_parts_belong_to_the_model() -> None:
    denoiser, recognizer = TableDenoiser(2, 3, latent=True), ConstantRecognizer(0, 0)
    model = MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(recognizer, dim=1))
    assert set(model.parameters()) == {*denoiser.parameters(), *recognizer.parameters()}


def test_the_same_seed_gives_the_same_evidence() -> None:
    latent = GaussianLatent(ConstantRecognizer(0.1, 0.2), dim=1, particles=2)
    model = MaskedDiffusion(TableDenoiser(POSITIONS, VALUES, latent=True), LinearSchedule(), latent)
    x0 = torch.zeros(5, POSITIONS, dtype=torch.long)
    batch = MaskedBatch.of(x0, IidTimes()(5, POSITIONS, LinearSchedule(), seeded(0)), VALUES)
    assert model(batch, 1.0, seeded(4)).bound.equal(model(batch, 1.0, seeded(4)).bound)
    assert not model(batch, 1.0, seeded(4)).bound.equal(model(batch, 1.0, seeded(5)).bound)
