"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.evaluation.divergence import draw_histogram, histogram, jsd, paper_js, sampling_floor
from vadd.evaluation.exact import ExactDistributions
from vadd.evaluation.pairs import pair_jsd, position_pairs
from vadd.run import Run

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES = 100_000

Report = dict[str, Any]
"""What ``vadd eval --json`` writes for one run."""

Progress = Callable[[str], None]
Result = dict[str, float | int | None]


@dataclass(frozen=True)
class Evaluation:
    report: Report
    histograms: dict[int, Array] = field(default_factory=dict)
    """For examples of two positions: the distribution of the samples (V, V) by number of steps."""


def evaluate(
    run: Run,
    steps: Sequence[int] = DEFAULT_STEPS,
    samples: int = DEFAULT_SAMPLES,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Evaluation:
    """Sample at each number of steps and compare with the data.

    Where the data's distribution is known, with it; else, pair by pair of positions, with the held-out examples.
    """
    if not steps or min(steps) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {', '.join(map(str, steps)) or 'none'}")
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    judge = (
        DistributionJudge(run, samples, seed) if run.data.distribution is not None else PairJudge(run, samples, seed)
    )
    results, histograms = [], {}
    for count in steps:
        progress(f"{judge.samples} samples in {plural(count, 'step')}")
        drawn = run.sample(judge.samples, steps=count, seed=seed).numpy()
        results.append({"steps": count, **judge(drawn, count)})
        if run.data.positions == 2:
            histograms[count] = histogram(drawn, run.data.values)
    report = {
        "run": str(run.directory.path),
        "recipe": run.recipe.name,
        "model": run.recipe.model,
        "samples": judge.samples,
        "results": results,
    }
    return Evaluation(report, histograms)


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
