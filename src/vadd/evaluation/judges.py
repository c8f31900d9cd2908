"""How samples are compared with the data: by its distribution, by features of images, as text, or pair by pair of
positions.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import Array
from vadd.data.places import data_directory
from vadd.errors import UserError
from vadd.evaluation.classifier import classifier_features, data_checksum
from vadd.evaluation.divergence import draw_histogram, histogram, jsd, paper_js, sampling_floor
from vadd.evaluation.exact import ExactDistributions
from vadd.evaluation.frechet import FeatureStatistics, feature_statistics, frechet_distance, kept_statistics
from vadd.evaluation.inception import InceptionFeatures
from vadd.evaluation.language_judge import LanguageJudge, Scores
from vadd.evaluation.metrics import (
    DistributionDistance,
    FrechetDistance,
    InceptionDistance,
    Metrics,
    PairDistance,
    TableDistance,
    TextMetrics,
)
from vadd.evaluation.pairs import pair_jsd, position_pairs
from vadd.evaluation.reports import JudgeReport, RealText
from vadd.evaluation.table_rows import RowComparison
from vadd.evaluation.text_statistics import text_statistics
from vadd.progress import Progress
from vadd.runs.run import Run

FRECHET_SAMPLES = 10_000
FID_SAMPLES = 50_000


class Judge(ABC):
    """Compares samples with the data; built once for all numbers of steps."""

    samples: int
    """How many samples it wants to see."""
    classes: int = 0
    """How many labels there are, if it wants equally many samples of each, one label after the other."""
    limit: str = "this comparison takes"
    """Why these are fewer than somebody asked for."""
    reader: JudgeReport | None = None
    """The language model that reads the samples, if there is one."""
    real_text: RealText | None = None
    """What it found in real text, if the samples are text."""

    @abstractmethod
    def __call__(self, drawn: Array, steps: int) -> Metrics:
        """Judge samples (n, N) that were drawn in ``steps`` steps."""


def choose_judge(
    run: Run,
    samples: int,
    seed: int,
    inception: Path | None,
    progress: Progress,
    language: LanguageJudge | None = None,
) -> Judge:
    """By FID if an Inception network is given, by generative perplexity if a language model is, else by what the data
    allow.
    """
    progress("the sampling floor")
    if inception is not None:
        return InceptionJudge(run, samples, inception, progress)
    if language is not None or run.tokenizer is not None:
        return TextJudge(run, samples, seed, language, progress)
    if run.data.table is not None:
        return TableJudge(run, samples, seed)
    if run.data.distribution is not None:
        return DistributionJudge(run, samples, seed)
    if run.data.train_labels is not None and run.data.shape[-1] == 1:
        return FrechetJudge(run, samples, progress)
    return PairJudge(run, samples, seed)


class DistributionJudge(Judge):
    """Compares samples with a known distribution: with an independent sample of it, and exactly where possible."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        assert run.data.distribution is not None
        self.samples = samples
        self.run = run
        self.truth = run.data.distribution()
        # A stream of its own: the floor has other samples of the truth.
        self.true_sample = draw_histogram(self.truth, samples, np.random.default_rng([seed, 1]))
        self.jsd_floor = sampling_floor(jsd, self.truth, samples)
        self.paper_js_floor = sampling_floor(paper_js, self.truth, samples)
        self.exact = ExactDistributions(run.model) if ExactDistributions.known_for(run.model) else None

    def __call__(self, drawn: Array, steps: int) -> DistributionDistance:
        found = histogram(drawn, self.run.data.vocab_size)
        return DistributionDistance(
            jsd=jsd(self.true_sample, found),
            paper_js=paper_js(self.true_sample, found),
            jsd_floor=self.jsd_floor,
            paper_js_floor=self.paper_js_floor,
            jsd_exact=self._exact_jsd(steps),
        )

    def _exact_jsd(self, steps: int) -> float | None:
        settings = self.run.recipe.sampling
        if self.exact is None or settings.sampler != "ancestral" or (settings.latent_policy == "fixed" and steps > 1):
            return None
        return jsd(self.truth, self.exact.after(steps, settings.grid).cpu().numpy())


class FrechetJudge(Judge):
    """Compares images with the training set by the Frechet distance of a small classifier's features.

    The classifier is trained on the data's own labels and kept; the distance is *not* the FID of the Inception network.
    Its floor is the distance of the test set from the training set.
    """

    def __init__(self, run: Run, samples: int, progress: Progress) -> None:
        data = run.data
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
        self.classes = len(run.format.labels or ())
        if self.classes:
            # As many of each label, one label after the other.
            self.samples = max(2, self.samples // self.classes) * self.classes
            parts = [data.train[data.train_labels == label] for label in range(self.classes)]
            self.truths = [feature_statistics(self.features, part, batch=1000) for part in parts]

    def __call__(self, drawn: Array, steps: int) -> FrechetDistance:
        tokens = torch.from_numpy(drawn)
        found = feature_statistics(self.features, tokens, batch=1000)
        distance = FrechetDistance(frechet_distance(self.truth, found), self.floor, self.features.accuracy)
        if not self.classes:
            return distance
        each = tokens.view(self.classes, -1, tokens.shape[1])
        wanted = torch.arange(self.classes).repeat_interleave(each.shape[1])
        by_label = [
            frechet_distance(truth, feature_statistics(self.features, part, batch=1000))
            for truth, part in zip(self.truths, each, strict=True)
        ]
        obeyed = float((self.features.classes(tokens).cpu() == wanted).double().mean())
        return replace(distance, labels_obeyed=obeyed, frechet_by_label=tuple(by_label))


class InceptionJudge(Judge):
    """Compares images with the training set by the FID of the clean-fid protocol.

    With fewer samples than training images the reference is cut to as many, and the FID is biased upwards: numbers
    compare only at equal counts.
    """

    def __init__(self, run: Run, samples: int, network: Path, progress: Progress) -> None:
        if len(run.data.shape) != 3:
            raise UserError(f"the FID is for images; the examples of this run have the shape {run.data.shape}")
        self.run = run
        self.samples = min(samples, FID_SAMPLES)
        self.features = InceptionFeatures(network, device=run.model.device)
        self.progress = progress
        self.truth = self._statistics_of_data(run.data.train[: self.samples], "training images")
        held_out = self._statistics_of_data(run.data.test[: self.samples], "test images")
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
        spread = (tokens.float() * (255 / (self.run.data.vocab_size - 1))).round()
        return spread.to(torch.uint8).view(-1, *self.run.data.shape)

    def __call__(self, drawn: Array, steps: int) -> InceptionDistance:
        images = self._images(torch.from_numpy(drawn))
        what = f"features of the samples in {steps} steps"
        found = feature_statistics(self.features, images, what=what, progress=self.progress)
        return InceptionDistance(frechet_distance(self.truth, found), self.floor, self.truth.count)


class TextJudge(Judge):
    """How varied texts are, beside as many held-out ones; with a language model also their generative perplexity."""

    def __init__(self, run: Run, samples: int, seed: int, language: LanguageJudge | None, progress: Progress) -> None:
        if run.tokenizer is None:
            raise UserError(f"generative perplexity is for runs on text; {run.directory.path} is not one")
        self.run, self.samples, self.language, self.progress = run, samples, language, progress
        held_out = run.data.test
        # Samples have nothing to do with each other; of neighbouring held-out texts that is not true.
        chosen = np.random.default_rng([seed, 2]).permutation(len(held_out))[:samples]
        real = held_out[torch.from_numpy(np.sort(chosen))].long()
        self.reader = None if language is None else language.about()
        self.real_text = RealText(len(real), self._measure(real, "the judge reads real text"))

    def _measure(self, tokens: Tensor, what: str) -> TextMetrics:
        texts = self.run.texts(tokens)
        metrics = text_statistics(own_tokens(self.run, tokens), texts)
        if self.language is None:
            return metrics
        scores = self.language.score(texts, what=what, progress=self.progress)
        return with_scores(metrics, scores, texts, self.language)

    def __call__(self, drawn: Array, steps: int) -> TextMetrics:
        return self._measure(torch.from_numpy(drawn), f"the judge reads samples, T = {steps}")


def with_scores(metrics: TextMetrics, scores: Scores, texts: Sequence[str], language: LanguageJudge) -> TextMetrics:
    """What a language model found in ``texts`` beside how varied they are."""
    perplexity, error = scores.perplexity(language.convention)
    return replace(
        metrics,
        gen_ppl=perplexity,
        gen_ppl_stderr=error,
        judge_bits=bits_per_character(scores, texts),
        judged_tokens=int(scores.tokens.sum()),
        empty_texts=scores.empty,
        cut_texts=scores.cut,
    )


def own_tokens(run: Run, tokens: Tensor) -> list[Array]:
    """The ids that belong to each of the texts (n, N): all of them, or up to the first EOS if the texts are padded."""
    assert run.tokenizer is not None
    if run.format.pad is None:
        return list(tokens.numpy())
    return [run.tokenizer.padded_document(row) for row in tokens.numpy()]


def bits_per_character(scores: Scores, texts: Sequence[str]) -> float | None:
    """What the judge needs for a character. Unlike the perplexity per token it does not depend on how the texts fall
    into tokens: letters without sense fall into many that are each easy to guess. None where texts were cut.
    """
    characters = sum(len(text) for text, tokens in zip(texts, scores.tokens, strict=True) if tokens)
    return None if scores.cut or not characters else float(scores.nats.sum()) / (characters * math.log(2))


class TableJudge(Judge):
    """Compares rows of a table, see :mod:`vadd.evaluation.table_rows`."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        self.comparison = RowComparison(run.data, samples, seed)
        self.samples = self.comparison.samples

    def __call__(self, drawn: Array, steps: int) -> TableDistance:
        return self.comparison(drawn)


class PairJudge(Judge):
    """Compares samples with held-out examples pair by pair of positions, see :mod:`vadd.evaluation.pairs`."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        data = run.data
        # As many samples as held-out examples, so that the floor has the noise of the measurement.
        self.samples = min(samples, len(data.test), len(data.train))
        self.limit = "there are held-out examples"
        self.vocab_size = data.vocab_size
        self.pairs = position_pairs(data.positions)
        self.held_out = data.test.numpy()[: self.samples]
        chosen = np.random.default_rng(seed).choice(len(data.train), self.samples, replace=False)
        self.floor = pair_jsd(data.train.numpy()[chosen], self.held_out, self.vocab_size, self.pairs)

    def __call__(self, drawn: Array, steps: int) -> PairDistance:
        return PairDistance(pair_jsd(drawn, self.held_out, self.vocab_size, self.pairs), self.floor)
