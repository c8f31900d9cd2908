"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.evaluation.divergence import entropy, histogram
from vadd.evaluation.judges import choose_judge
from vadd.evaluation.likelihood import BoundSettings, has_latent, health_report, measure_bounds
from vadd.evaluation.progress import Progress, silent
from vadd.run import Run
from vadd.sampling import Progress as SamplingProgress

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES = 100_000
SHOWN_IMAGES = 64

Report = dict[str, Any]
"""What ``vadd eval --json`` writes for one run."""


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
    inception: Path | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample at each number of steps and compare with the data; if asked to, bound the likelihood of ``examples`` (by
    default the held-out ones).

    How samples are compared depends on the data, see :mod:`vadd.evaluation.judges`; with the file of an ``inception``
    network it is by FID.
    """
    if min(steps, default=1) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {min(steps)}")
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    report: Report = {"run": str(run.directory.path), "recipe": run.recipe.name, "model": run.recipe.model}
    report["values"] = run.data.values
    if has_latent(run):
        report["latent_policy"] = run.recipe.sampling.latent_policy
    report["sampler"] = run.recipe.sampling.sampler
    histograms, images = {}, {}
    report["results"] = []
    if steps:
        judge = choose_judge(run, samples, seed, inception, progress)
        report["samples"] = judge.samples
        for count in steps:
            tell = counted(progress, f"samples in {plural(count, 'step')}", judge.samples)
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


def counted(progress: Progress, what: str, total: int) -> SamplingProgress:
    """Tells of samples what ``progress`` wants to know."""

    def tell(*, done: int, evaluations: int) -> None:
        progress(what, done, total)

    return tell


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
