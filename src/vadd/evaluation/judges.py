"""How samples are compared with the data: by its distribution, by features of images, as text, or pair by pair of
positions.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import DiscreteDataset
from vadd.errors import UserError
from vadd.evaluation.array_labels import ArrayLabels
from vadd.evaluation.divergence import draw_histogram, histogram, jsd, paper_js, sampling_floor
from vadd.evaluation.exact import ExactDistributions
from vadd.evaluation.image_judges import FrechetJudge, InceptionJudge
from vadd.evaluation.judge import Judge, obedience, shares_of_labels
from vadd.evaluation.language_judge import LanguageJudge, Scores
from vadd.evaluation.metrics import DistributionDistance, PairDistance, TableDistance, TextMetrics
from vadd.evaluation.pairs import pair_jsd, position_pairs
from vadd.evaluation.reports import RealText
from vadd.evaluation.table_rows import RowComparison
from vadd.evaluation.text_labels import LabelReader
from vadd.evaluation.text_statistics import text_statistics
from vadd.kinds.arrays import Array
from vadd.progress import Progress
from vadd.run.run import Run


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
    if inception is None and (language is not None or run.tokenizer is not None):
        return TextJudge(run, samples, seed, language, progress)
    if inception is None and run.data.table is None and run.data.distribution is not None:
        return DistributionJudge(run, samples, seed)
    return judge_of_data(run.data, samples, seed, inception, progress, run.model.device)


def judge_of_data(
    data: DiscreteDataset,
    samples: int,
    seed: int,
    inception: Path | None,
    progress: Progress,
    device: torch.device | None = None,
) -> Judge:
    """Of judges that know the data alone and no model."""
    if inception is not None:
        return InceptionJudge(data, samples, inception, progress, device)
    if data.table is not None:
        return TableJudge(data, samples, seed)
    channels = data.shape[-1] if len(data.shape) == 3 else 0
    if data.train_labels is not None and channels in (1, 3):
        return FrechetJudge(data, samples, progress)
    return PairJudge(data, samples, seed, progress)


class DistributionJudge(Judge):
    """Compares samples with a known distribution: with an independent sample of it, and exactly where possible."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        assert run.data.distribution is not None
        self.samples = samples
        self._of(run)
        self.truth = run.data.distribution()
        # A stream of its own: the floor has other samples of the truth.
        self.true_sample = draw_histogram(self.truth, samples, np.random.default_rng([seed, 1]))
        self.jsd_floor = sampling_floor(jsd, self.truth, samples)
        self.paper_js_floor = sampling_floor(paper_js, self.truth, samples)

    def _of(self, run: Run) -> None:
        self.run = run
        self.exact = ExactDistributions(run.model) if ExactDistributions.known_for(run.model) else None

    def beside(self, run: Run) -> "DistributionJudge":
        """The exact distance is of one model."""
        other = copy.copy(self)
        other._of(run)
        return other

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
        settings = self.run.sampling
        if self.exact is None or settings.sampler != "ancestral" or (settings.latent_policy == "fixed" and steps > 1):
            return None
        return jsd(self.truth, self.exact.after(steps, settings.grid).cpu().numpy())


class TextJudge(Judge):
    """How varied texts are, beside as many held-out ones; with a language model also their generative perplexity, and
    of a run with labels whether they obey them.
    """

    def __init__(self, run: Run, samples: int, seed: int, language: LanguageJudge | None, progress: Progress) -> None:
        if run.tokenizer is None:
            raise UserError(f"generative perplexity is for runs on text; {run.directory.path} is not one")
        self.run, self.samples, self.language, self.progress = run, samples, language, progress
        held_out = run.data.test
        # Samples have nothing to do with each other; of neighbouring held-out texts that is not true.
        chosen = np.random.default_rng([seed, 2]).permutation(len(held_out))[:samples]
        real = held_out[torch.from_numpy(np.sort(chosen))].long()
        self.reader = None if language is None else language.about()
        metrics = self._measure(real, "the judge reads real text")
        self.labels: LabelReader | None = None
        if run.kind.labels is not None:
            self.labels = LabelReader(run, seed, progress)
            self.of_labels = shares_of_labels(run.data, samples, least=1)
            self.samples = sum(self.of_labels)
            metrics = replace(metrics, classifier_accuracy=self.labels.accuracy)
        self.real_text = RealText(len(real), metrics)

    def _measure(self, tokens: Tensor, what: str) -> TextMetrics:
        texts = self.run.texts(tokens)
        metrics = text_statistics(own_tokens(self.run, tokens), texts)
        if self.language is None:
            return metrics
        scores = self.language.score(texts, what=what, progress=self.progress)
        return with_scores(metrics, scores, texts, self.language)

    def __call__(self, drawn: Array, steps: int) -> TextMetrics:
        tokens = torch.from_numpy(drawn)
        metrics = self._measure(tokens, f"the judge reads samples, T = {steps}")
        if self.labels is None:
            return metrics
        obeyed, by_label = obedience(self.labels.labels(self.run.texts(tokens)), self.of_labels)
        return replace(
            metrics, classifier_accuracy=self.labels.accuracy, labels_obeyed=obeyed, obeyed_by_label=by_label
        )


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
    if run.kind.pad is None:
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

    def __init__(self, data: DiscreteDataset, samples: int, seed: int) -> None:
        self.comparison = RowComparison(data, samples, seed)
        self.samples = self.comparison.samples

    def __call__(self, drawn: Array, steps: int) -> TableDistance:
        return self.comparison(drawn)


class PairJudge(Judge):
    """Compares samples with held-out examples pair by pair of positions, see :mod:`vadd.evaluation.pairs`; of data with
    labels it says whether samples obey them.
    """

    def __init__(self, data: DiscreteDataset, samples: int, seed: int, progress: Progress) -> None:
        # As many samples as held-out examples, so that the floor has the noise of the measurement.
        self.samples = min(samples, len(data.test), len(data.train))
        self.limit = "there are held-out examples"
        self.vocab_size = data.vocab_size
        self.pairs = position_pairs(data.positions)
        self.held_out = data.test.numpy()[: self.samples]
        chosen = np.random.default_rng(seed).choice(len(data.train), self.samples, replace=False)
        self.floor = pair_jsd(data.train.numpy()[chosen], self.held_out, self.vocab_size, self.pairs)
        self.labels: ArrayLabels | None = None
        if data.label_names is not None:
            self.labels = ArrayLabels(data, seed, progress)
            self.of_labels = shares_of_labels(data, self.samples, least=1)
            self.samples = sum(self.of_labels)

    def __call__(self, drawn: Array, steps: int) -> PairDistance:
        distance = PairDistance(pair_jsd(drawn, self.held_out, self.vocab_size, self.pairs), self.floor)
        if self.labels is None:
            return distance
        obeyed, by_label = obedience(self.labels.labels(drawn), self.of_labels)
        return replace(
            distance, classifier_accuracy=self.labels.accuracy, labels_obeyed=obeyed, obeyed_by_label=by_label
        )
