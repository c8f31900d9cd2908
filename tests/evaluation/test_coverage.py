"""Precision and recall by nearest neighbours against plain loops, and where they are known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.helpers.exact import properties, seeded
from vadd.evaluation import frechet
from vadd.evaluation.frechet import FeatureStatistics, coverage


def normal(count: int, seed: int, size: int = 3) -> Tensor:
    return torch.randn(count, size, generator=seeded(seed), dtype=torch.float64).float()


def by_loops(points: Tensor, balls: Tensor, k: int) -> float:
    """The share of points in a ball around one of ``balls`` that reaches to its k-th nearest other."""
    inside = 0
    for point in points.double():
        for number, centre in enumerate(balls.double()):
            others = sorted(float((centre - other).norm()) for at, other in enumerate(balls.double()) if at != number)
            if float((point - centre).norm()) <= others[k - 1]:
                inside += 1
                break
    return inside / len(points)


@properties
@given(seed=st.integers(0, 1000), k=st.integers(1, 4), shift=st.floats(0, 3))
def test_it_is_what_loops_give(seed: int, k: int, shift: float) -> None:
    real, drawn = normal(9, seed), 100 + normal(9, seed + 1) + shift
    found = coverage(FeatureStatistics.of(100 + real), FeatureStatistics.of(drawn), k)
    assert found["precision"] == pytest.approx(by_loops(drawn, 100 + real, k))
    assert found["recall"] == pytest.approx(by_loops(100 + real, drawn, k))


def test_how_distances_are_divided_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (FeatureStatistics.of(normal(60, seed) + seed) for seed in range(2))
    whole = coverage(first, second)
    monkeypatch.setattr(frechet, "ROWS", 7)
    assert coverage(first, second) == whole


def test_where_it_is_known() -> None:
    real = FeatureStatistics.of(normal(50, 0))
    assert coverage(real, real) == {"precision": 1, "recall": 1}
    assert coverage(real, FeatureStatistics.of(normal(50, 1) + 100)) == {"precision": 0, "recall": 0}
    one_point = FeatureStatistics.of(normal(50, 0)[:1].expand(50, 3))
    # All samples are good, and only one example is among them.
    assert coverage(real, one_point) == {"precision": 1, "recall": 1 / 50}
    assert coverage(real, FeatureStatistics.of(normal(3, 1))) == {}


def test_both_sides_have_equally_many_and_batches_are_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frechet, "COMPARED", 30)
    features = normal(40, 2)
    parts = [FeatureStatistics.of(part) for part in torch.split(features, 16)]
    total = parts[0] + parts[1] + parts[2]
    assert total.features.equal(features[:30])
    few = FeatureStatistics.of(normal(10, 3))
    first = FeatureStatistics.of(features[:10])
    # Only the centre differs, which moves both sides.
    assert coverage(total, few) == coverage(first, few)
