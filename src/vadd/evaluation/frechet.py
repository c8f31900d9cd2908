r"""The Frechet distance between two sets of examples, seen through a feature extractor.

Each set is summed up by the mean and the covariance of its features; between the two Gaussians

.. math:: d = |\mu_a - \mu_b|^2 + \mathrm{tr}(A + B - 2 (A B)^{1/2}).

With Inception's features it is called FID. It is biased upwards for few examples, so it means something only beside
its *floor*, the same number between training and test set, and only for equal extractors and equal set sizes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from vadd.errors import UserError
from vadd.files import whole_file
from vadd.progress import Progress, silent

BATCH = 128


class FeatureExtractor(Protocol):
    def __call__(self, examples: Tensor, /) -> Tensor:
        """Features (n, D) of n examples: images (n, H, W, C), uint8 in 0..255, or what the extractor says it reads."""


@dataclass(frozen=True)
class FeatureStatistics:
    """The statistics of a set of features; ``a + b`` are those of the union. Float64 on the CPU."""

    mean: Tensor
    """(D,)"""
    covariance: Tensor
    """(D, D), the unbiased estimate as in ``numpy.cov``; zero for a single example."""
    count: int

    @classmethod
    def of(cls, features: Tensor) -> "FeatureStatistics":
        """The statistics of features (n, D), all of them finite."""
        if features.ndim != 2 or len(features) == 0:
            raise ValueError(f"features have the shape (n, D) with n > 0, not {tuple(features.shape)}")
        exact = features.detach().cpu().double()  # to the CPU first: Apple's GPUs have no float64
        if not exact.isfinite().all():
            raise ValueError("some features are not finite")
        count, mean = len(exact), exact.mean(dim=0)
        deviations = exact - mean
        return cls(mean, deviations.T @ deviations / max(1, count - 1), count)

    def __add__(self, other: "FeatureStatistics") -> "FeatureStatistics":
        count = self.count + other.count
        shift = other.mean - self.mean
        # Deviations from each part's own mean, then that of the means: no difference of large sums.
        scatter = self.covariance * (self.count - 1) + other.covariance * (other.count - 1)
        scatter += torch.outer(shift, shift) * (self.count * other.count / count)
        return FeatureStatistics(self.mean + shift * (other.count / count), scatter / (count - 1), count)


def feature_statistics(
    extract: FeatureExtractor,
    examples: Tensor,
    *,
    batch: int = BATCH,
    what: str = "features",
    progress: Progress = silent,
) -> FeatureStatistics:
    """The statistics of the features of all examples, ``batch`` of them at a time."""
    if len(examples) == 0:
        raise UserError("there are no examples to take features of")
    total: FeatureStatistics | None = None
    progress(what, 0, len(examples))
    for part in torch.split(examples, batch):
        found = FeatureStatistics.of(extract(part))
        total = found if total is None else total + found
        progress(what, total.count, len(examples))
    assert total is not None
    return total


def kept_statistics(file: Path, compute: Callable[[], FeatureStatistics]) -> FeatureStatistics:
    """What ``compute`` gives, from ``file`` if it is there and whole, else computed and kept there."""
    try:
        kept = load(file.read_bytes())
        return FeatureStatistics(kept["mean"], kept["covariance"], int(kept["count"]))
    except (OSError, SafetensorError, KeyError):
        found = compute()
    content = save({"mean": found.mean, "covariance": found.covariance, "count": torch.tensor(found.count)})
    with whole_file(file) as target:
        target.write(content)
    return found


def frechet_distance(a: FeatureStatistics, b: FeatureStatistics) -> float:
    r"""At least 0, with an error of about 1e-12 of the total variance.

    With A = R R^T and B = S S^T the eigenvalues of (A B)^{1/2} are the singular values of R^T S. Taken from there, not
    from a root of A B, they are real, not negative, and keep their precision where the covariances are singular, as
    they are with fewer examples than features.
    """
    if a.mean.shape != b.mean.shape:
        raise ValueError(f"one set has {len(a.mean)} features, the other {len(b.mean)}")
    if min(a.count, b.count) < 2:
        raise UserError("a Frechet distance needs at least 2 examples on each side")
    overlap = torch.linalg.svdvals(covariance_root(a.covariance).T @ covariance_root(b.covariance)).sum()
    between = (a.mean - b.mean).square().sum()
    distance = float(between + a.covariance.trace() + b.covariance.trace() - 2 * overlap)
    return 0.0 if distance < 0 else distance  # rounding; not max(), which would turn NaN into 0


def covariance_root(covariance: Tensor) -> Tensor:
    """R (D, rank) with R R^T the covariance (D, D); directions without variance, up to rounding, are left out."""
    values, vectors = torch.linalg.eigh(covariance)
    noise = values[-1] * len(values) * torch.finfo(values.dtype).eps
    present = values > noise
    root: Tensor = vectors[:, present] * values[present].sqrt()
    return root
