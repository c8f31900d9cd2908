"""The Frechet distance between Gaussians against closed forms, and its statistics against numpy's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import properties, seeded
from vadd.errors import UserError
from vadd.evaluation.frechet import FeatureStatistics, feature_statistics, frechet_distance, kept_statistics

SIZE = 7


def rotation(seed: int, size: int = SIZE) -> Tensor:
    orthogonal: Tensor = torch.linalg.qr(torch.randn(size, size, generator=seeded(seed), dtype=torch.float64))[0]
    return orthogonal


def gaussian(seed: int, size: int = SIZE, rank: int | None = None) -> FeatureStatistics:
    """Of any mean and covariance, singular if ``rank`` is less than ``size``."""
    generator = seeded(seed)
    root = torch.randn(size, rank or size, generator=generator, dtype=torch.float64)
    return FeatureStatistics(torch.randn(size, generator=generator, dtype=torch.float64), root @ root.T, 100)


def features(count: int, seed: int, size: int = SIZE) -> Tensor:
    """Far from the origin, where sums of squares would lose what matters."""
    noise = torch.randn(count, size, generator=seeded(seed), dtype=torch.float64)
    return 1000 + noise @ gaussian(seed).covariance


seeds = st.integers(0, 10_000)


@given(seed=seeds)
@properties
def test_commuting_covariances_have_a_closed_form(seed: int) -> None:
    generator = seeded(seed)
    basis = rotation(seed)
    variances = torch.rand(2, SIZE, generator=generator, dtype=torch.float64) * 10
    means = torch.randn(2, SIZE, generator=generator, dtype=torch.float64)
    a, b = (FeatureStatistics(means[i], basis @ variances[i].diag() @ basis.T, 9) for i in range(2))
    expected = (means[0] - means[1]).square().sum() + (variances[0].sqrt() - variances[1].sqrt()).square().sum()
    assert frechet_distance(a, b) == pytest.approx(float(expected), rel=1e-10)


@given(seed=seeds)
@properties
def test_covariances_that_do_not_commute_agree_with_a_matrix_root(seed: int) -> None:
    a, b = gaussian(seed), gaussian(seed + 1)
    root = linalg.sqrtm((a.covariance @ b.covariance).numpy())
    expected = (a.mean - b.mean).square().sum() + (a.covariance + b.covariance).trace() - 2 * np.trace(root).real
    assert frechet_distance(a, b) == pytest.approx(float(expected), rel=1e-7, abs=1e-6)


def test_one_dimension_by_hand() -> None:
    a = FeatureStatistics(torch.tensor([1.0]).double(), torch.tensor([[4.0]]).double(), 10)
    b = FeatureStatistics(torch.tensor([4.0]).double(), torch.tensor([[9.0]]).double(), 10)
    assert frechet_distance(a, b) == pytest.approx(3**2 + (2 - 3) ** 2, rel=1e-14)


@given(seed=seeds, rank=st.integers(1, SIZE))
@properties
def test_it_is_zero_with_itself_symmetric_and_never_negative(seed: int, rank: int) -> None:
    a, b = gaussian(seed, rank=rank), gaussian(seed + 1, rank=SIZE + 1 - rank)
    assert 0 <= frechet_distance(a, a) < 1e-11 * float(a.covariance.trace())
    assert frechet_distance(a, b) > 0
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a), rel=1e-11)


@given(seed=seeds, rank=st.integers(1, SIZE))
@properties
def test_a_common_rotation_and_shift_change_nothing(seed: int, rank: int) -> None:
    turn, shift = rotation(seed), torch.randn(SIZE, generator=seeded(seed), dtype=torch.float64)
    a, b = gaussian(seed, rank=rank), gaussian(seed + 1)
    turned = [FeatureStatistics(turn @ s.mean + shift, turn @ s.covariance @ turn.T, s.count) for s in (a, b)]
    assert frechet_distance(*turned) == pytest.approx(frechet_distance(a, b), rel=1e-10)


def test_scaling_all_features_scales_it_by_the_square() -> None:
    a, b = (FeatureStatistics.of(features(200, seed)) for seed in (1, 2))
    thrice = [FeatureStatistics(3 * s.mean, 9 * s.covariance, s.count) for s in (a, b)]
    assert frechet_distance(*thrice) == pytest.approx(9 * frechet_distance(a, b), rel=1e-12)


def test_it_stays_accurate_with_many_more_features_than_examples() -> None:
    few = FeatureStatistics.of(torch.randn(20, 300, generator=seeded(0)))
    assert torch.linalg.matrix_rank(few.covariance) == 19
    assert frechet_distance(few, few) < 1e-11


def test_point_masses_are_as_far_apart_as_their_means() -> None:
    points = [FeatureStatistics.of(torch.full((3, 2), value)) for value in (0.0, 5.0)]
    assert frechet_distance(*points) == 50


@given(cuts=st.lists(st.integers(1, 59), max_size=5, unique=True), seed=st.integers(0, 100))
@properties
def test_statistics_in_batches_are_those_of_everything(cuts: list[int], seed: int) -> None:
    everything = features(60, seed)
    parts = [FeatureStatistics.of(part) for part in torch.tensor_split(everything, sorted(cuts))]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.count == 60
    assert_close(total.mean, everything.mean(dim=0), rtol=1e-13, atol=0)
    assert_close(total.covariance, torch.from_numpy(np.cov(everything.numpy(), rowvar=False)), rtol=1e-9, atol=1e-9)


def test_feature_statistics_reads_batches_and_tells_how_far_it_is() -> None:
    examples, sizes, told = torch.arange(50).view(25, 2), [], []

    def extract(part: Tensor) -> Tensor:
        sizes.append(len(part))
        return part.float().sin()

    found = feature_statistics(
        extract, examples, batch=10, what="test", progress=lambda what, done=0, total=None: told.append((what, done))
    )
    direct = FeatureStatistics.of(examples.float().sin())
    assert sizes == [10, 10, 5]
    assert told == [("test", 0), ("test", 10), ("test", 20), ("test", 25)]
    assert_close(found.covariance, direct.covariance, rtol=1e-12, atol=1e-14)
    assert frechet_distance(found, direct) < 1e-12


def test_float32_features_are_summed_in_float64() -> None:
    found = FeatureStatistics.of(torch.tensor([[1e4], [1e4 + 2**-9]]))
    assert found.mean.dtype == found.covariance.dtype == torch.float64
    assert float(found.covariance) == pytest.approx(2**-18 / 2)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_features_that_are_not_finite_are_refused_not_scored(wrong: float) -> None:
    with pytest.raises(ValueError, match="are finite"):
        FeatureStatistics.of(torch.tensor([[0.0, 1.0], [wrong, 1.0]]))


def test_what_cannot_be_compared_is_refused() -> None:
    single = FeatureStatistics.of(torch.ones(1, 3))
    with pytest.raises(UserError, match="at least 2 examples"):
        frechet_distance(single, FeatureStatistics.of(torch.ones(2, 3)))
    with pytest.raises(ValueError, match="one set has 3 features, the other 4"):
        frechet_distance(single, FeatureStatistics.of(torch.ones(2, 4)))
    with pytest.raises(ValueError, match=r"shape \(n, D\)"):
        FeatureStatistics.of(torch.ones(3))
    with pytest.raises(UserError, match="no examples"):
        feature_statistics(lambda part: part, torch.zeros(0, 3))


def test_statistics_are_kept_and_not_computed_twice(tmp_path: Path) -> None:
    features = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    file = tmp_path / "new" / "statistics.safetensors"
    first = kept_statistics(file, lambda: FeatureStatistics.of(features))

    def refuse() -> FeatureStatistics:
        raise AssertionError("computed again")

    second = kept_statistics(file, refuse)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.covariance, second.covariance)
    assert first.count == second.count == 20


def test_damaged_statistics_are_computed_anew(tmp_path: Path) -> None:
    features = torch.eye(3)
    file = tmp_path / "statistics.safetensors"
    kept_statistics(file, lambda: FeatureStatistics.of(features))
    file.write_bytes(file.read_bytes()[:-5])
    found = kept_statistics(file, lambda: FeatureStatistics.of(features))
    assert torch.equal(found.mean, FeatureStatistics.of(features).mean)
    assert kept_statistics(file, lambda: FeatureStatistics.of(torch.zeros(2, 3))).count == 3
