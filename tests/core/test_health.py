"""The health of latents that are made by hand, so that every number is known."""

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from tests.helpers.exact import ConstantRecognizer, TableDenoiser, seeded
from vadd.core import GaussianLatent, LatentHealth, LinearSchedule, MaskedDiffusion, latent_health

POSITIONS, VALUES, DIM = 4, 3, 16


class LinearRecognizer(nn.Module):
    """Mean: ``slopes`` (d,) times the first value of x0, plus the number of masked positions times ``per_mask``."""

    def __init__(self, slopes: Tensor, log_std: float = 0.0, per_mask: float = 0.0) -> None:
        super().__init__()
        self.slopes, self.log_std, self.per_mask = slopes, log_std, per_mask

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == VALUES).sum(1, keepdim=True)
        mean = x0[:, :1] * self.slopes + self.per_mask * masked
        return mean, torch.full_like(mean, self.log_std)


def examples(rows: int = 1200) -> Tensor:
    """The first position takes each of 0, 1, 2 equally often: variance 2/3."""
    x0 = torch.zeros(rows, POSITIONS, dtype=torch.long)
    x0[:, 0] = torch.arange(rows) % VALUES
    return x0


def health(recognizer: nn.Module, dim: int = DIM) -> LatentHealth:
    model = MaskedDiffusion(
        TableDenoiser(POSITIONS, VALUES, latent=True), LinearSchedule(), GaussianLatent(recognizer, dim)
    )
    found = latent_health(model, examples(), seeded(0))
    assert found is not None
    return found


def slopes(*active: float) -> Tensor:
    return torch.tensor([*active, *[0.0] * (DIM - len(active))])


@pytest.mark.parametrize("log_std", [0.0, -1.0, 0.5])
def test_the_kl_when_all_is_masked_is_the_closed_form(log_std: float) -> None:
    found = health(LinearRecognizer(slopes(1.0, -0.5, 2.0), log_std))
    mean = examples()[:, :1] * slopes(1.0, -0.5, 2.0)
    std = torch.full_like(mean, log_std).exp()
    closed_form = kl_divergence(Normal(mean, std), Normal(torch.zeros_like(mean), 1)).mean(0)
    assert found.kl_per_dimension == pytest.approx(closed_form.tolist(), rel=1e-5, abs=1e-6)
    assert found.kl_all_masked == pytest.approx(float(closed_form.sum()), rel=1e-5)


def test_the_kl_per_dimension_sums_to_the_kl() -> None:
    found = health(LinearRecognizer(slopes(1.0, 0.3), log_std=-0.7))
    assert len(found.kl_per_dimension) == found.dimensions == DIM
    assert sum(found.kl_per_dimension) == pytest.approx(found.kl_all_masked, rel=1e-5)


def test_the_average_kl_weighs_every_number_of_masked_positions_alike() -> None:
    """k masked positions give the mean k in one dimension, so the KL k^2 / 2; 1200 examples hold each k 300 times."""
    found = health(LinearRecognizer(torch.zeros(1), per_mask=1.0), dim=1)
    assert found.kl_average == pytest.approx(sum(k**2 / 2 for k in range(1, POSITIONS + 1)) / POSITIONS, rel=1e-5)
    assert found.kl_all_masked == pytest.approx(POSITIONS**2 / 2, rel=1e-5)


@pytest.mark.parametrize("active", [1, 3, DIM])
def test_a_dimension_is_active_when_its_mean_varies_with_the_data(active: int) -> None:
    found = health(LinearRecognizer(slopes(*[1.0] * active), log_std=-1.0))
    assert found.active_units == active
    assert found.verdict == f"{active} of 16 dimensions active"


def test_a_variance_of_one_hundredth_divides_active_from_inactive() -> None:
    above, below = (0.0102 / (2 / 3)) ** 0.5, (0.0098 / (2 / 3)) ** 0.5
    assert health(LinearRecognizer(slopes(above, -above, below, -below))).active_units == 2


@pytest.mark.parametrize(("mean", "log_std", "kl"), [(0.0, 0.0, 0.0), (3.0, 0.0, 4.5)], ids=["prior", "elsewhere"])
def test_a_posterior_that_ignores_the_data_has_collapsed_whatever_its_kl(
    mean: float, log_std: float, kl: float
) -> None:
    found = health(ConstantRecognizer(mean, log_std), dim=1)
    assert found.active_units == 0
    assert found.verdict.startswith("collapsed")
    assert found.kl_all_masked == pytest.approx(kl)
    assert found.kl_average == pytest.approx(kl)


def test_without_a_latent_there_is_nothing_to_report() -> None:
    model = MaskedDiffusion(TableDenoiser(POSITIONS, VALUES), LinearSchedule())
    assert latent_health(model, examples(), seeded(0)) is None


def test_how_many_examples_are_shown_at_once_does_not_matter() -> None:
    recognizer = LinearRecognizer(slopes(1.0, 0.3), log_std=-0.7, per_mask=0.2)
    model = MaskedDiffusion(
        TableDenoiser(POSITIONS, VALUES, latent=True), LinearSchedule(), GaussianLatent(recognizer, DIM)
    )
    whole, in_parts = (latent_health(model, examples(), seeded(0), rows) for rows in (None, 7))
    assert whole is not None
    assert in_parts == whole
