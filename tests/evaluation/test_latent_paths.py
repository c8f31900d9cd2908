"""Moving one dimension of the latent: the numbers against the denoiser asked directly."""

from pathlib import Path

import numpy as np
import pytest
import torch

import vadd
from vadd.core import MaskedBatch, latent_health
from vadd.errors import UserError
from vadd.evaluation.latent_paths import expected_values, traversal


def test_only_the_moving_dimension_moves_and_the_mean_is_the_denoisers(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    walk = traversal(run, "4", dimensions=2, span=2.0, points=3)
    expected = expected_values(run, walk.z)
    dimensions = [int(name[1:]) for name in walk.rows]
    assert sorted(dimensions) == [0, 1]
    assert walk.columns == ["-2.00", "+0.00", "+2.00"]
    assert expected.shape == (2, 3, 2)

    model = run.model
    xt = torch.full((1, 2), model.mask_value)
    posterior = model.posterior(MaskedBatch.all_masked(run.data.test[4:5].long(), model.mask_value))
    assert posterior is not None
    for row, dimension in enumerate(dimensions):
        for column, value in enumerate((-2.0, 0.0, 2.0)):
            z = posterior.mean.clone()
            z[0, dimension] = value
            logits = model.denoiser(xt, z, torch.ones(1), torch.ones(1, 2, dtype=torch.bool))
            mean = logits.double().softmax(-1) @ torch.arange(8.0, dtype=torch.float64)
            assert np.allclose(expected[row, column], mean.numpy(), atol=1e-5)


def test_the_most_telling_dimension_comes_first(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    health = latent_health(run.model, run.data.test[:1000].long(), torch.Generator())
    assert health is not None
    assert traversal(run, "0", 1, 2.5, 2).rows == [f"z{int(np.argmax(health.kl_per_dimension))}"]


def test_a_model_without_latent_has_nothing_to_move(mdlm_run: Path) -> None:
    with pytest.raises(UserError, match="has no latent"):
        traversal(vadd.load(mdlm_run), "0", 1, 2.5, 2)
