"""Images compared with the training set by the Frechet distance of features: those of a small classifier, or FID."""

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.classifier import classifier_features, data_checksum
from vadd.evaluation.frechet import FeatureStatistics, feature_statistics, frechet_distance, kept_statistics
from vadd.evaluation.inception import InceptionFeatures
from vadd.evaluation.judge import Judge, labels_in_order, shares_of_labels
from vadd.evaluation.metrics import FrechetDistance, InceptionDistance
from vadd.kinds.arrays import Array
from vadd.parallel import default_device
from vadd.progress import Progress

FRECHET_SAMPLES = 10_000
FID_SAMPLES = 50_000


class FrechetJudge(Judge):
    """Compares images with the training set by the Frechet distance of a small classifier's features.

    The classifier is trained on the data's own labels and kept; the distance is *not* the FID of the Inception network.
    Its floor is the distance of the test set from the training set.
    """

    def __init__(self, data: DiscreteDataset, samples: int, progress: Progress) -> None:
        assert data.train_labels is not None
        assert data.test_labels is not None
        self.samples = min(samples, FRECHET_SAMPLES)
        self.features = classifier_features(
            data.train,
            data.train_labels,
            data.test,
            data.test_labels,
            data.shape,
            data.vocab_size,
            data_directory("classifiers"),
            progress=progress,
        )
        self.truth = feature_statistics(self.features, data.train, batch=1000, progress=progress)
        self.floor = frechet_distance(self.truth, feature_statistics(self.features, data.test, batch=1000))
        if data.label_names is not None:
            self.of_labels = shares_of_labels(data, self.samples, least=2)
            self.samples = sum(self.of_labels)
            parts = [data.train[data.train_labels == label] for label in range(len(self.of_labels))]
            self.truths = [
                feature_statistics(self.features, part, batch=1000) if len(part) > 1 else None for part in parts
            ]

    def __call__(self, drawn: Array, steps: int) -> FrechetDistance:
        tokens = torch.from_numpy(drawn)
        found = feature_statistics(self.features, tokens, batch=1000)
        distance = FrechetDistance(frechet_distance(self.truth, found), self.floor, self.features.accuracy)
        if not self.of_labels:
            return distance
        by_label = [
            None if truth is None else frechet_distance(truth, feature_statistics(self.features, part, batch=1000))
            for truth, part in zip(self.truths, torch.split(tokens, list(self.of_labels)), strict=True)
        ]
        obeyed = float((self.features.classes(tokens).cpu() == labels_in_order(self.of_labels)).double().mean())
        return replace(distance, labels_obeyed=obeyed, frechet_by_label=tuple(by_label))


class InceptionJudge(Judge):
    """Compares images with the training set by the FID of the clean-fid protocol.

    With fewer samples than training images the reference is cut to as many, and the FID is biased upwards: numbers
    compare only at equal counts.
    """

    def __init__(
        self,
        data: DiscreteDataset,
        samples: int,
        network: Path,
        progress: Progress,
        device: torch.device | None = None,
    ) -> None:
        if len(data.shape) != 3:
            raise UserError(f"the FID is for images; the examples of this run have the shape {data.shape}")
        self.data = data
        self.samples = min(samples, FID_SAMPLES)
        self.features = InceptionFeatures(network, device=device or default_device())
        self.progress = progress
        self.truth = self._statistics_of_data(data.train[: self.samples], "training images")
        held_out = self._statistics_of_data(data.test[: self.samples], "test images")
        self.floor = frechet_distance(self.truth, held_out)

    def _statistics_of_data(self, tokens: Tensor, name: str) -> FeatureStatistics:
        """Computing them takes long and the data do not change, so the statistics are kept."""
        images = self._images(tokens)
        key = hashlib.sha256((self.features.checksum + data_checksum(images)).encode()).hexdigest()
        file = data_directory("inception") / f"statistics-{len(images)}-{key[:16]}.safetensors"
        compute = partial(
            feature_statistics, self.features, images, what=f"features of the {name}", progress=self.progress
        )
        return kept_statistics(file, compute)

    def _images(self, tokens: Tensor) -> Tensor:
        """(n, H, W, C) uint8, the levels spread over 0..255."""
        # Rounded, not cut off: with 256 levels the bytes come back as they were.
        spread = (tokens.float() * (255 / (self.data.vocab_size - 1))).round()
        return spread.to(torch.uint8).view(-1, *self.data.shape)

    def __call__(self, drawn: Array, steps: int) -> InceptionDistance:
        images = self._images(torch.from_numpy(drawn))
        what = f"features of the samples in {steps} steps"
        found = feature_statistics(self.features, images, what=what, progress=self.progress)
        return InceptionDistance(frechet_distance(self.truth, found), self.floor, self.truth.count)
