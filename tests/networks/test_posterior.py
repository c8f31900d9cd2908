"""What every recognition model ends with: a posterior whose scale is bounded."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.networks import SMALL, small_model
from vadd.core import MaskedBatch
from vadd.networks.layers import mean_and_log_std


def test_the_first_half_is_the_mean_and_the_second_the_logarithm_of_the_scale() -> None:
    out = torch.linspace(-2, 2, 24).view(2, 3, 4)
    mean, log_std = mean_and_log_std(out)
    assert_close(torch.cat([mean, log_std], dim=-1), out)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_the_scale_is_bounded_however_large_the_weights(kind: str) -> None:
    """Between 1e-5 and 100; and more does not make it larger, where larger is possible."""
    batch = MaskedBatch.all_masked(torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0], [1, 0, 0, 2]]), 3)

    def log_std(factor: float) -> Tensor:
        model = small_model(kind)
        with torch.no_grad():
            for parameter in model.latent.parameters():
                parameter.mul_(factor)
            posterior = model.posterior(batch)
        assert posterior is not None
        assert posterior.mean.isfinite().all()
        return posterior.log_std

    large, larger = log_std(50), log_std(500)
    for found in (large, larger):
        assert 1e-5 < float(found.exp().min()) < float(found.exp().max()) < 100
    assert_close(torch.stack([large.min(), large.max()]), torch.stack([larger.min(), larger.max()]))
