"""MAUVE and FCD against the packages that publish them, where these are installed."""

import numpy as np
import pytest
import torch

from vadd.evaluation.frechet import FeatureStatistics, frechet_distance
from vadd.evaluation.two_samples import mauve_of

SMILES = ["C", "CC", "CCO", "CCN", "C=O", "C#N", "NC=O", "C1CC1", "C1CO1", "c1ccccc1", "CC(=O)C", "COC"]


def test_mauve_is_that_of_mauve_text() -> None:
    """Histograms drawn at random, some clusters empty on one side."""
    pytest.importorskip("faiss")
    package = pytest.importorskip("mauve.compute_mauve")
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = rng.dirichlet(np.full(12, 0.3), size=2)
        p[rng.integers(12)] = q[rng.integers(12)] = 0
        p, q = p / p.sum(), q / q.sum()
        mixtures = np.linspace(1e-6, 1 - 1e-6, 25)
        curve = package.get_divergence_curve_for_multinomials(p, q, mixtures, 5)
        x, y = curve.T
        by_x, by_y = np.argsort(x), np.argsort(y)
        area = (
            package.compute_area_under_curve(x[by_x], y[by_x]) + package.compute_area_under_curve(y[by_y], x[by_y])
        ) / 2
        assert mauve_of(p, q) == pytest.approx(area, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_fcd_is_the_frechet_distance_of_chemnets_features() -> None:
    """The package's root of a product of matrices is in the precision of its float32 features."""
    pytest.importorskip("rdkit")
    package = pytest.importorskip("fcd")
    model = package.load_ref_model()
    halves = [SMILES[::2] * 3, SMILES[1::2] * 3]
    features = [torch.from_numpy(package.get_predictions(model, half, n_jobs=0)) for half in halves]
    found = frechet_distance(*map(FeatureStatistics.of, features))
    assert found == pytest.approx(package.get_fcd(*halves, model), rel=1e-3)
