"""How samples are compared with the data: by its distribution, by features of images, as rows, as text, or pair by pair
of positions.
"""

import copy
import hashlib
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.classifier import classifier_features, data_checksum
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
from vadd.evaluation.evaluator import Evaluator, Reference
from vadd.evaluation.frechet import (
    FeatureStatistics,
    InceptionFeatures,
    feature_statistics,
    frechet_distance,
    kept_statistics,
)
from vadd.evaluation.labels import LabelClassifier, labels_in_order
from vadd.evaluation.reports import (
    DistributionDistance,
    FrechetDistance,
    InceptionDistance,
    PairDistance,
    RealText,
    TextMetrics,
)
from vadd.evaluation.tables import RowComparison
from vadd.evaluation.zero_shot import text_metrics
from vadd.kinds.arrays import Array
from vadd.kinds.text.kind import TextKind
from vadd.parallel import default_device
from vadd.progress import Progress, silent
from vadd.run.run import Run

FRECHET_SAMPLES, FID_SAMPLES = 10_000, 50_000
FEATURE_BATCH = 1000


class DistributionEvaluator(Evaluator):
    """Compares samples with a known distribution: with an independent sample of it, and exactly where possible."""

    def __init__(self, reference: Reference) -> None:
        assert reference.data.distribution is not None
        assert reference.run is not None
        self.samples = reference.samples
        self._set_run(reference.run)
        self.truth = reference.data.distribution()
        # A stream of its own: the floor has other samples of the truth.
        self.true_sample = draw_histogram(self.truth, self.samples, np.random.default_rng([reference.seed, 1]))
        self.jsd_floor = sampling_floor(jsd, self.truth, self.samples)
        self.paper_js_floor = sampling_floor(paper_js, self.truth, self.samples)

    def _set_run(self, run: Run) -> None:
        self.run = run
        self.exact = ExactDistributions(run.model) if ExactDistributions.known_for(run.model) else None

    def for_run(self, run: Run) -> "DistributionEvaluator":
        """The exact distance is of one model."""
        other = copy.copy(self)
        other._set_run(run)
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
        if self.exact is None or settings.sampler != "ancestral" or (one_latent and steps > 1):
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
        self.floor = self._distance(data.test)

    def _distance(self, tokens: Tensor) -> float:
        # Samples of labels come one label after the other: every part has some of each.
        order = torch.arange(len(tokens))
        if len(tokens) > self.count:
            order = torch.from_numpy(np.random.default_rng(0).permutation(len(tokens)))
        parts = torch.split(order[: len(order) // self.count * self.count], self.count)
        return float(np.mean([frechet_distance(self.truth, self._statistics(tokens[part])) for part in parts]))

    def _statistics(self, tokens: Tensor, progress: Progress = silent) -> FeatureStatistics:
        return feature_statistics(self.features, tokens, batch=FEATURE_BATCH, progress=progress)

    def __call__(self, drawn: Array, steps: int) -> FrechetDistance:
        tokens = torch.from_numpy(drawn)
        distance = FrechetDistance(
            frechet=self._distance(tokens),
            frechet_floor=self.floor,
            frechet_count=self.count,
            classifier_accuracy=self.features.accuracy,
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
        self.truth = self._statistics_of_data(self.data.train[: self.samples], "training images")
        held_out = self._statistics_of_data(self.data.test[: self.samples], "test images")
        self.floor = frechet_distance(self.truth, held_out)

    def _statistics_of_data(self, tokens: Tensor, name: str) -> FeatureStatistics:
        """Computing them takes long and the data do not change, so the statistics are kept."""
        images = self._images(tokens)
        key = hashlib.sha256((self.features.checksum + data_checksum(images)).encode()).hexdigest()
        file = data_directory("inception") / f"statistics-{len(images)}-{key[:16]}.safetensors"
        return kept_statistics(file, partial(self._statistics, images, f"features of the {name}"))

    def _statistics(self, images: Tensor, what: str) -> FeatureStatistics:
        return feature_statistics(self.features, images, what=what, progress=self.progress)

    def _images(self, tokens: Tensor) -> Tensor:
        """(n, H, W, C) uint8, the levels spread over 0..255."""
        # Rounded, not cut off: with 256 levels the bytes come back as they were.
        spread = (tokens.float() * (255 / (self.data.vocab_size - 1))).round()
        return spread.to(torch.uint8).view(-1, *self.data.shape)

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


def array_evaluator(reference: Reference) -> Evaluator:
    """By the distribution of the data where it is known."""
    known = reference.data.distribution is not None and reference.run is not None
    return DistributionEvaluator(reference) if known else PairEvaluator(reference)


def image_evaluator(reference: Reference) -> Evaluator:
    """Images without labels are compared like arrays."""
    labelled = reference.data.train_labels is not None and reference.data.distribution is None
    return FrechetEvaluator(reference) if labelled else array_evaluator(reference)


EVALUATORS: dict[str, Callable[[Reference], Evaluator]] = {
    "points": array_evaluator,
    "array": array_evaluator,
    "image": image_evaluator,
    "table": RowComparison,
    "text": TextEvaluator,
}
"""By kind of example."""


def choose_evaluator(reference: Reference) -> Evaluator:
    """By FID where an Inception network is given, else by the kind of the examples."""
    kind = reference.data.kind
    reference.progress("the sampling floor")
    if reference.inception is not None:
        if kind.name != "image":
            raise UserError(f"the FID is for images; the examples of this run have the shape {kind.shape}")
        return InceptionEvaluator(reference)
    if reference.language is not None and kind.name != "text":
        raise UserError(f"generative perplexity is for runs on text; the examples of this run are {kind.noun}")
    return EVALUATORS[kind.name](reference)
