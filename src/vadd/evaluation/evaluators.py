"""How samples are compared with the data: by its distribution, by features of images, as rows, as text, or pair by pair
of positions.
"""

import copy
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.data.download import data_directory
from vadd.evaluation.cache import data_checksum
from vadd.evaluation.classifier import LabelClassifier, classifier_features, labels_in_order, shares_of_labels
from vadd.evaluation.divergence import (
    ExactDistributions,
    draw_histogram,
    histogram,
    jsd,
    pair_jsd,
    paper_js,
    position_pairs,
    sampling_floor,
)
from vadd.evaluation.frechet import (
    COMPARED,
    FeatureStatistics,
    InceptionFeatures,
    coverage,
    feature_statistics,
    frechet_distance,
    kept_statistics,
)
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import some_of
from vadd.evaluation.reports import (
    DistributionDistance,
    FrechetDistance,
    InceptionDistance,
    JudgeReport,
    Metrics,
    PairDistance,
    RealText,
    TextMetrics,
)
from vadd.evaluation.zero_shot import text_metrics
from vadd.kinds.arrays import Array
from vadd.kinds.text.kind import TextKind
from vadd.parallel import default_device
from vadd.progress import Progress, silent
from vadd.run.run import Run

FRECHET_SAMPLES, FID_SAMPLES = 10_000, 50_000
FEATURE_BATCH = 1000


@dataclass(frozen=True)
class Reference:
    """What samples are to be compared with, and how."""

    data: DiscreteDataset
    samples: int
    seed: int = 0
    run: Run | None = None
    """Of which the exact distribution of samples is computed, where there is a formula."""
    inception: Path | None = None
    """The file of an Inception network: images are compared by FID."""
    language: LanguageJudge | None = None
    """A judge model: texts are also compared by generative perplexity."""
    progress: Progress = silent


class Evaluator(ABC):
    """Compares samples with the data; built once for all numbers of steps."""

    samples: int
    """How many samples it needs."""
    of_labels: tuple[int, ...] = ()
    """How many samples of each label, one label after the other, where it evaluates labels."""
    limit: str = "this comparison takes"
    """Why these are fewer than were asked for."""
    judge: JudgeReport | None = None
    """The judge model, if there is one."""
    real_text: RealText | None = None
    """The metrics of real text, if the samples are text."""

    @abstractmethod
    def __init__(self, reference: Reference) -> None: ...

    @abstractmethod
    def __call__(self, drawn: Array, steps: int) -> Metrics:
        """The metrics of samples (n, N) that were drawn in ``steps`` steps."""

    def for_run(self, run: Run) -> "Evaluator":
        """The same for another model of the same data."""
        return self

    def _divide_labels(self, data: DiscreteDataset, least: int = 1) -> None:
        self.of_labels = shares_of_labels(data, self.samples, least)
        self.samples = sum(self.of_labels)


class DistributionEvaluator(Evaluator):
    """Compares samples with a known distribution: with an independent sample of it, and exactly where possible."""

    def __init__(self, reference: Reference) -> None:
        assert reference.data.distribution is not None
        assert reference.run is not None
        self.samples, self.run = reference.samples, reference.run
        self.exact = ExactDistributions.of(self.run.model)
        self.truth = reference.data.distribution()
        # A stream of its own: the floor has other samples of the truth.
        self.true_sample = draw_histogram(self.truth, self.samples, np.random.default_rng([reference.seed, 1]))
        self.jsd_floor = sampling_floor(jsd, self.truth, self.samples)
        self.paper_js_floor = sampling_floor(paper_js, self.truth, self.samples)

    def for_run(self, run: Run) -> "DistributionEvaluator":
        """The exact distance is of one model."""
        other = copy.copy(self)
        other.run, other.exact = run, ExactDistributions.of(run.model)
        return other

    def __call__(self, drawn: Array, steps: int) -> DistributionDistance:
        sampled = histogram(drawn, self.run.data.vocab_size)
        return DistributionDistance(
            jsd=jsd(self.true_sample, sampled),
            paper_js=paper_js(self.true_sample, sampled),
            jsd_floor=self.jsd_floor,
            paper_js_floor=self.paper_js_floor,
            jsd_exact=self._exact_jsd(steps),
        )

    def _exact_jsd(self, steps: int) -> float | None:
        settings = self.run.sampling
        one_latent = settings.latent_policy == "fixed" and not self.run.model.latent.absent
        if self.exact is None or settings.inexact or settings.sampler != "ancestral" or (one_latent and steps > 1):
            return None
        return jsd(self.truth, self.exact.after(steps, settings.grid).cpu().numpy())


class PairEvaluator(Evaluator):
    """Compares samples with held-out examples: the mean Jensen-Shannon divergence over pairs of positions. A factorised
    one-step sampler gets every single position right and the pairs wrong.
    """

    def __init__(self, reference: Reference) -> None:
        data, seed = reference.data, reference.seed
        # As many samples as held-out examples, so that the floor has the noise of the measurement.
        self.samples = min(reference.samples, len(data.test), len(data.train))
        self.limit = "there are held-out examples"
        self.vocab_size = data.vocab_size
        self.pairs = position_pairs(data.positions)
        self.held_out = data.test.numpy()[: self.samples]
        chosen = np.random.default_rng(seed).choice(len(data.train), self.samples, replace=False)
        self.floor = pair_jsd(data.train.numpy()[chosen], self.held_out, self.vocab_size, self.pairs)
        self.classifier: LabelClassifier | None = None
        if data.label_names is not None:
            self.classifier = LabelClassifier(data, seed, reference.progress)
            self._divide_labels(data)

    def __call__(self, drawn: Array, steps: int) -> PairDistance:
        return PairDistance(
            pair_jsd=pair_jsd(drawn, self.held_out, self.vocab_size, self.pairs),
            pair_jsd_floor=self.floor,
            **({} if self.classifier is None else self.classifier.metrics(drawn, self.of_labels)),
        )


class FrechetEvaluator(Evaluator):
    """Compares images with the training set by the Frechet distance of a small classifier's features.

    The classifier is trained on the data's own labels and kept; the distance is *not* the FID of the Inception network.
    Its floor is the distance of the test set from the training set. Few images score worse than many, so both are means
    over parts of equal size: as many images as the smaller of the two sets has.
    """

    def __init__(self, reference: Reference) -> None:
        data, progress = reference.data, reference.progress
        assert data.train_labels is not None
        self.samples = min(reference.samples, FRECHET_SAMPLES)
        self.features = classifier_features(data, data_directory("classifiers"), progress=progress)
        self.truth = self._statistics(data.train, progress)
        if data.label_names is not None:
            self._divide_labels(data, least=2)
            parts = [data.train[data.train_labels == label] for label in range(len(self.of_labels))]
            self.truths = [self._statistics(part) if len(part) > 1 else None for part in parts]
        self.count = min(self.samples, len(data.test))
        self.floor, held_out = self._distance(data.test)
        self.floors = {f"{name}_floor": share for name, share in coverage(self.truth, held_out).items()}

    def _distance(self, tokens: Tensor) -> tuple[float, FeatureStatistics]:
        """Also the statistics of the first part."""
        # Samples of labels come one label after the other: every part has some of each.
        order = torch.arange(len(tokens))
        if len(tokens) > self.count:
            order = torch.from_numpy(np.random.default_rng(0).permutation(len(tokens)))
        parts = torch.split(order[: len(order) // self.count * self.count], self.count)
        statistics = [self._statistics(tokens[part]) for part in parts]
        return float(np.mean([frechet_distance(self.truth, each) for each in statistics])), statistics[0]

    def _statistics(self, tokens: Tensor, progress: Progress = silent) -> FeatureStatistics:
        return feature_statistics(self.features, tokens, batch=FEATURE_BATCH, progress=progress)

    def __call__(self, drawn: Array, steps: int) -> FrechetDistance:
        tokens = torch.from_numpy(drawn)
        frechet, of_samples = self._distance(tokens)
        distance = FrechetDistance(
            frechet=frechet,
            frechet_floor=self.floor,
            frechet_count=self.count,
            classifier_accuracy=self.features.accuracy,
            **coverage(self.truth, of_samples),
            **self.floors,
        )
        if not self.of_labels:
            return distance
        parts = torch.split(tokens, list(self.of_labels))
        by_label = tuple(
            None if truth is None else frechet_distance(truth, self._statistics(part))
            for truth, part in zip(self.truths, parts, strict=True)
        )
        obeyed = float((self.features.classes(tokens).cpu() == labels_in_order(self.of_labels)).double().mean())
        return distance.changed(labels_obeyed=obeyed, frechet_by_label=by_label)


class InceptionEvaluator(Evaluator):
    """Compares images with the training set by the FID of the clean-fid protocol.

    With fewer samples than training images the reference is cut to as many, and the FID is biased upwards: numbers
    compare only at equal counts.
    """

    def __init__(self, reference: Reference) -> None:
        assert reference.inception is not None
        self.data, self.progress = reference.data, reference.progress
        self.samples = min(reference.samples, FID_SAMPLES)
        device = default_device() if reference.run is None else reference.run.model.device
        self.features = InceptionFeatures(reference.inception, device=device)
        self.truth = self._statistics_of_data(self.data.train, "training images")
        held_out = self._statistics_of_data(self.data.test, "test images")
        self.floor = frechet_distance(self.truth, held_out)
        self.floors = {f"{name}_floor": share for name, share in coverage(self.truth, held_out).items()}

    def _statistics_of_data(self, tokens: Tensor, name: str) -> FeatureStatistics:
        """Computing them takes long and the data do not change, so the statistics are kept."""
        images = self._images(tokens[some_of(len(tokens), self.samples, seed=0)])
        key = hashlib.sha256((f"{self.features.checksum}, {COMPARED}" + data_checksum(images)).encode()).hexdigest()
        file = data_directory("inception") / f"statistics-{len(images)}-{key[:16]}.cache"
        return kept_statistics(file, partial(self._statistics, images, f"features of the {name}"))

    def _statistics(self, images: Tensor, what: str) -> FeatureStatistics:
        return feature_statistics(self.features, images, what=what, progress=self.progress)

    def _images(self, tokens: Tensor) -> Tensor:
        """(n, H, W, C) uint8, the levels spread over 0..255, without the frame that the data were given."""
        # Rounded, not cut off: with 256 levels the bytes come back as they were.
        spread = (tokens.float() * (255 / (self.data.vocab_size - 1))).round()
        framed, (height, width, _), frame = spread.to(torch.uint8), self.data.shape, self.data.frame
        return framed.view(-1, *self.data.shape)[:, frame : height - frame, frame : width - frame]

    def __call__(self, drawn: Array, steps: int) -> InceptionDistance:
        images, what = self._images(torch.from_numpy(drawn)), f"features of the samples in {steps} steps"
        statistics, at_floor = self._statistics(images[: len(self.data.test)], what), None
        if len(images) > len(self.data.test):
            at_floor = frechet_distance(self.truth, statistics)
            statistics = statistics + self._statistics(images[len(self.data.test) :], what)
        return InceptionDistance(
            fid=frechet_distance(self.truth, statistics),
            fid_floor=self.floor,
            fid_at_floor=at_floor,
            fid_reference=self.truth.count,
            **coverage(self.truth, statistics),
            **self.floors,
        )


class TextEvaluator(Evaluator):
    """How varied texts are, beside as many held-out ones; with a judge model also their generative perplexity, and of
    data with labels whether they show them.
    """

    def __init__(self, reference: Reference) -> None:
        self.data, self.samples, self.progress = reference.data, reference.samples, reference.progress
        assert isinstance(self.data.kind, TextKind)
        self.kind, self.language, held_out = self.data.kind, reference.language, self.data.test
        # Samples have nothing to do with each other; of neighbouring held-out texts that is not true.
        chosen = np.random.default_rng([reference.seed, 2]).permutation(len(held_out))[: self.samples]
        real = held_out[torch.from_numpy(np.sort(chosen))].long().numpy()
        self.judge = None if self.language is None else self.language.about()
        metrics = self._measure(real, "the judge reads real text")
        self.classifier: LabelClassifier | None = None
        if self.data.label_names is not None:
            self.classifier = LabelClassifier(self.data, reference.seed, self.progress)
            self._divide_labels(self.data)
            metrics = metrics.changed(classifier_accuracy=self.classifier.accuracy)
        self.real_text = RealText(texts=len(real), metrics=metrics)

    def _measure(self, tokens: Array, what: str) -> TextMetrics:
        own, texts = self.kind.own_tokens(tokens), self.kind.texts(tokens)
        return text_metrics(own, texts, self.language, what=what, progress=self.progress)

    def __call__(self, drawn: Array, steps: int) -> TextMetrics:
        metrics = self._measure(drawn, f"the judge reads samples, T = {steps}")
        return metrics if self.classifier is None else metrics.changed(**self.classifier.metrics(drawn, self.of_labels))
