"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vadd.data.dataset import Array
from vadd.data.places import data_directory
from vadd.errors import UserError
from vadd.evaluation.classifier import classifier_features
from vadd.evaluation.divergence import draw_histogram, entropy, histogram, jsd, paper_js, sampling_floor
from vadd.evaluation.exact import ExactDistributions
from vadd.evaluation.frechet import feature_statistics, frechet_distance
from vadd.evaluation.likelihood import BoundSettings, health_report, measure_bounds
from vadd.evaluation.pairs import pair_jsd, position_pairs
from vadd.evaluation.progress import Progress, silent
from vadd.run import Run

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES = 100_000
FRECHET_SAMPLES = 10_000
SHOWN_IMAGES = 64

Report = dict[str, Any]
"""What ``vadd eval --json`` writes for one run."""

Result = dict[str, float | int | None]


@dataclass(frozen=True)
class Evaluation:
    report: Report
    histograms: dict[int, Array] = field(default_factory=dict)
    """For examples of two positions: the distribution of the samples (V, V) by number of steps."""
    images: dict[int, Array] = field(default_factory=dict)
    """For images: a few samples (n, N) by number of steps."""


def evaluate(
    run: Run,
    steps: Sequence[int] = DEFAULT_STEPS,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    bounds: BoundSettings | None = None,
    examples: Tensor | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample at each number of steps and compare with the data; if asked to, bound the likelihood of ``examples`` (by
    default the held-out ones).

    Where the data's distribution is known the comparison is with it; else, pair by pair of positions, with the
    held-out examples.
    """
    if min(steps, default=1) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {min(steps)}")
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    report: Report = {"run": str(run.directory.path), "recipe": run.recipe.name, "model": run.recipe.model}
    histograms, images = {}, {}
    report["results"] = []
    if steps:
        judge = choose_judge(run, samples, seed, progress)
        report["samples"] = judge.samples
        for count in steps:
            tell = partial(progress, f"samples in {plural(count, 'step')}", total=judge.samples)
            drawn = run.sample(judge.samples, steps=count, seed=seed, progress=tell).numpy()
            report["results"].append({"steps": count, **judge(drawn, count)})
            if run.data.positions == 2:
                histograms[count] = histogram(drawn, run.data.values)
            if len(run.data.shape) == 3:
                images[count] = drawn[:SHOWN_IMAGES]
    if run.data.distribution is not None:
        report["entropy"] = entropy(run.data.distribution())
    held_out = run.data.test if examples is None else examples
    if bounds is not None:
        report |= measure_bounds(run, held_out, bounds, progress)
    report["latent"] = health_report(run, held_out)
    return Evaluation(report, histograms, images)


class Judge(Protocol):
    """Compares samples with the data; built once for all numbers of steps."""

    samples: int
    """How many samples it wants to see."""

    def __call__(self, drawn: Array, steps: int) -> Result: ...


def choose_judge(run: Run, samples: int, seed: int, progress: Progress) -> Judge:
    progress("the sampling floor")
    if run.data.distribution is not None:
        return DistributionJudge(run, samples, seed)
    if run.data.train_labels is not None and run.data.shape[-1] == 1:
        return FrechetJudge(run, samples, progress)
    return PairJudge(run, samples, seed)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


class DistributionJudge:
    """Compares samples with a known distribution: with an independent sample of it, and exactly where possible."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        assert run.data.distribution is not None
        self.samples = samples
        self.run = run
        self.truth = run.data.distribution()
        self.true_sample = draw_histogram(self.truth, samples, np.random.default_rng([seed, 1]))
        self.floors = {
            "jsd_floor": sampling_floor(jsd, self.truth, samples),
            "paper_js_floor": sampling_floor(paper_js, self.truth, samples),
        }
        self.exact = ExactDistributions(run.model) if run.data.positions == 2 else None

    def __call__(self, drawn: Array, steps: int) -> Result:
        found = histogram(drawn, self.run.data.values)
        return {
            "jsd": jsd(self.true_sample, found),
            "paper_js": paper_js(self.true_sample, found),
            **self.floors,
            "jsd_exact": self._exact_jsd(steps),
        }

    def _exact_jsd(self, steps: int) -> float | None:
        settings = self.run.recipe.sampling
        if self.exact is None or (settings.latent_policy == "fixed" and steps > 1):
            return None
        return jsd(self.truth, self.exact.after(steps, settings.grid).cpu().numpy())


class FrechetJudge:
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
            data.values,
            data_directory("classifiers"),
            progress=progress,
        )
        self.truth = feature_statistics(self.features, data.train, batch=1000, progress=progress)
        self.floor = frechet_distance(self.truth, feature_statistics(self.features, data.test, batch=1000))

    def __call__(self, drawn: Array, steps: int) -> Result:
        found = feature_statistics(self.features, torch.from_numpy(drawn), batch=1000)
        return {
            "frechet": frechet_distance(self.truth, found),
            "frechet_floor": self.floor,
            "classifier_accuracy": self.features.accuracy,
        }


class PairJudge:
    """Compares samples with held-out examples pair by pair of positions, see :mod:`vadd.evaluation.pairs`."""

    def __init__(self, run: Run, samples: int, seed: int) -> None:
        data = run.data
        # As many samples as held-out examples, so that the floor has the noise of the measurement.
        self.samples = min(samples, len(data.test), len(data.train))
        self.values = data.values
        self.pairs = position_pairs(data.positions)
        self.held_out = data.test.numpy()[: self.samples]
        chosen = np.random.default_rng(seed).choice(len(data.train), self.samples, replace=False)
        self.floor = pair_jsd(data.train.numpy()[chosen], self.held_out, self.values, self.pairs)

    def __call__(self, drawn: Array, steps: int) -> Result:
        found = pair_jsd(drawn, self.held_out, self.values, self.pairs)
        return {"pair_jsd": found, "pair_jsd_floor": self.floor}
