"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.evaluation.divergence import entropy, histogram
from vadd.evaluation.judges import choose_judge
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import BoundSettings, has_latent, health_report, measure_bounds
from vadd.progress import Progress, named, silent
from vadd.runs.metrics import training_seconds
from vadd.runs.run import Run

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES = 100_000
TEXT_SAMPLES = 256
"""Of texts: as many as the field judges by, and judging them takes long."""
SHOWN_IMAGES = 64
SHOWN_TEXTS = 4

Report = dict[str, Any]
"""What ``vadd eval --json`` writes for one run."""


@dataclass(frozen=True)
class Evaluation:
    report: Report
    histograms: dict[int, Array] = field(default_factory=dict)
    """For examples of two positions: the distribution of the samples (V, V) by number of steps."""
    images: dict[int, Array] = field(default_factory=dict)
    """For images: a few samples (n, N) by number of steps."""
    texts: dict[int, list[str]] = field(default_factory=dict)
    """For text: a few samples by number of steps."""


def evaluate(
    run: Run,
    steps: Sequence[int] = DEFAULT_STEPS,
    samples: int | None = None,
    seed: int = 0,
    bounds: BoundSettings | None = None,
    examples: Tensor | None = None,
    inception: Path | None = None,
    language: LanguageJudge | None = None,
    grown: Callable[[Report], None] = lambda report: None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample at each number of steps and compare with the data; if asked to, bound the likelihood of ``examples`` (by
    default the held-out ones).

    How samples are compared depends on the data, see :mod:`vadd.evaluation.judges`; with the file of an ``inception``
    network it is by FID, with a ``language`` model by generative perplexity. ``grown`` is shown the report whenever
    numbers have joined it.
    """
    if min(steps, default=1) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {min(steps)}")
    if samples is None:
        samples = DEFAULT_SAMPLES if run.tokenizer is None else TEXT_SAMPLES
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    report = report_of(run)
    histograms, images, texts = {}, {}, {}
    if steps:
        judge = choose_judge(run, samples, seed, inception, progress, language)
        report |= {"samples": judge.samples, **judge.about}
        for count in steps:
            tell = named(progress, plural(count, "step"))
            drawn = run.sample(judge.samples, steps=count, seed=seed, progress=tell).numpy()
            report["results"].append({"steps": count, **judge(drawn, count)})
            grown(report)
            if run.data.positions == 2:
                histograms[count] = histogram(drawn, run.data.vocab_size)
            if len(run.data.shape) == 3:
                images[count] = drawn[:SHOWN_IMAGES]
            if run.tokenizer is not None:
                texts[count] = run.texts(torch.from_numpy(drawn[:SHOWN_TEXTS]))
    if run.data.distribution is not None:
        report["entropy"] = entropy(run.data.distribution())
    held_out = run.data.test if examples is None else examples
    if bounds is not None:
        report |= measure_bounds(run, held_out, bounds, progress)
    report["latent"] = health_report(run, held_out)
    grown(report)
    return Evaluation(report, histograms, images, texts)


def report_of(run: Run) -> Report:
    """What every report begins with: which run it is about, and no results yet."""
    report: Report = {"run": str(run.directory.path), "recipe": run.recipe.name, "model": run.recipe.model}
    report["values"] = run.data.vocab_size
    report["training_steps"] = run.recipe.training.steps
    report["training_seconds"] = training_seconds(run.directory.metrics())
    if has_latent(run):
        report["latent_policy"] = run.recipe.sampling.latent_policy
    report["sampler"] = run.recipe.sampling.sampler
    report["results"] = []
    return report


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
