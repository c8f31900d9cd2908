"""The bounds as a user calls them: a number of particles is enough, and without a generator the answer repeats."""

import torch

from tests.helpers.networks import flat_settings
from vadd.core import GaussianLatent, LinearSchedule, MaskedDiffusion, Particles, k_sample_delbo, step_bound
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer


def test_a_number_of_particles_stands_for_the_default_proposals_and_seed_zero() -> None:
    torch.manual_seed(0)
    denoiser = MlpDenoiser(2, 3, flat_settings("mlp", width=8, depth=1), latent_dim=1)
    recognizer = SiameseMlpRecognizer(2, 3, flat_settings("mlp", width=8, depth=1), latent_dim=1)
    model = MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(recognizer, 1)).eval()
    x0 = torch.randint(3, (6, 2))
    seeded = torch.Generator().manual_seed
    assert torch.equal(step_bound(model, x0, 2, 6), step_bound(model, x0, 2, Particles(6), seeded(0)))
    assert torch.equal(k_sample_delbo(model, x0, 6, 4), k_sample_delbo(model, x0, Particles(6), 4, seeded(0)))
    assert not torch.equal(step_bound(model, x0, 2, 6), step_bound(model, x0, 2, 6, seeded(1)))
