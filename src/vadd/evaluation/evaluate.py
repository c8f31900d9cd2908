"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vadd.core import GaussianLatent, LabelledLatent, StandardNormal
from vadd.errors import UserError
from vadd.evaluation.divergence import entropy, histogram
from vadd.evaluation.imputation import judge_imputation
from vadd.evaluation.judge import Judge
from vadd.evaluation.judges import choose_judge
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import BoundSettings, has_latent, judge_latent, measure_bounds, true_distribution
from vadd.evaluation.nearest import COMPARED, nearest_report
from vadd.evaluation.reports import RunReport, StepResult
from vadd.kinds.arrays import Array
from vadd.parallel import Processes, process_count
from vadd.progress import Progress, named, silent, warn
from vadd.recipe import Recipe, how_computed, published_recipe, unlike
from vadd.run.metrics import training_seconds
from vadd.run.run import Run
from vadd.words import plural

DEFAULT_STEPS = (1, 2, 5, 20)
DEFAULT_SAMPLES, MOST_SAMPLES = 100_000, 1_000_000_000
TEXT_SAMPLES = 256
"""For text: as many as the field uses; judging them takes long."""
SHOWN_IMAGES = 64
SHOWN_LABELS = 16
SHOWN_TEXTS = 4


@dataclass(frozen=True)
class Evaluation:
    report: RunReport
    histograms: dict[int, Array] = field(default_factory=dict)
    """For examples of two positions: the distribution of the samples (V, V) by number of steps."""
    images: dict[int, Array] = field(default_factory=dict)
    """For images: a few samples (n, N) by number of steps."""
    texts: dict[int, list[str]] = field(default_factory=dict)
    """For text: a few samples by number of steps."""
    rows: dict[int, Array] = field(default_factory=dict)
    """For tables: the samples (n, N) by number of steps."""


def evaluate(
    run: Run,
    steps: Sequence[int] = DEFAULT_STEPS,
    samples: int | None = None,
    seed: int = 0,
    bounds: BoundSettings | None = None,
    examples: Tensor | None = None,
    inception: Path | None = None,
    language: LanguageJudge | None = None,
    nearest: bool = False,
    grown: Callable[[RunReport], None] = lambda report: None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample at each number of steps and compare with the data; if asked to, bound the likelihood of ``examples`` (by
    default the held-out ones).

    How samples are compared depends on the data, see :mod:`vadd.evaluation.judges`; with the file of an ``inception``
    network it is by FID, with a ``language`` model by generative perplexity. ``nearest`` also asks how close samples
    come to training examples (:mod:`vadd.evaluation.nearest`). ``grown`` is shown the report whenever numbers have
    joined it.
    """
    if min(steps, default=1) < 1:
        raise UserError(f"the numbers of steps must be at least 1, not {min(steps)}")
    asked = samples
    if samples is None:
        samples = DEFAULT_SAMPLES if run.tokenizer is None else TEXT_SAMPLES
    if samples < 2:
        raise UserError(f"a comparison needs at least 2 samples, not {samples}")
    if samples > MOST_SAMPLES:
        raise UserError(f"a comparison takes at most {MOST_SAMPLES:,} samples, not {samples:,}")
    report = report_of(run)
    histograms, images, texts, rows, first_samples = {}, {}, {}, {}, {}
    if steps:
        judge = choose_judge(run, samples, seed, inception, progress, language)
        if asked is not None and judge.samples < asked:
            warn(f"of {asked:,} samples {judge.samples:,} are drawn, as many as {judge.limit} at most")
        report = replace(report, samples=judge.samples, judge=judge.reader, real_text=judge.real_text)
        for count in steps:
            named_progress = named(progress, plural(count, "step"))
            drawn = drawn_samples(run, judge, count, seed, named_progress).numpy()
            first_samples[count] = torch.from_numpy(of_all_labels(drawn, judge)[:COMPARED])
            report = replace(report, results=(*report.results, StepResult(count, judge(drawn, count))))
            grown(report)
            if run.model.positions == 2:
                histograms[count] = histogram(drawn, run.kind.vocab_size)
            if len(run.shape) == 3:
                images[count] = shown_images(drawn, judge)
            if run.tokenizer is not None:
                texts[count] = run.texts(torch.from_numpy(of_all_labels(drawn, judge)[:SHOWN_TEXTS]))
            if run.table is not None:
                rows[count] = drawn
        if run.table is not None:
            report = replace(report, imputation=judge_imputation(run, seed, progress))
            grown(report)
    if nearest:
        found = nearest_report(first_samples, run.data.test, run.data.train, run.kind.vocab_size, progress)
        report = replace(report, nearest=found)
        grown(report)
    truth = true_distribution(run)
    if truth is not None:
        report = replace(report, entropy=entropy(truth))
    held_out = run.data.test if examples is None else examples
    if bounds is not None:
        report = replace(report, likelihood=measure_bounds(run, held_out, bounds, progress))
    report = replace(report, latent=judge_latent(run, held_out), latent_judged=True)
    grown(report)
    return Evaluation(report, histograms, images, texts, rows)


def drawn_samples(run: Run, judge: Judge, steps: int, seed: int, progress: Progress) -> Tensor:
    """As many as the judge wants; of a run with labels, where it looks at them, so many of each, one label after the
    other.
    """
    if not judge.of_labels:
        return divided_samples(run, judge.samples, progress, steps=steps, seed=seed)
    # Seeds of their own: else the samples of two labels would share their noise.
    parts = [
        divided_samples(run, count, progress, steps=steps, seed=seed + 1000 * number, label=name)
        for number, (name, count) in enumerate(zip(run.kind.labels or (), judge.of_labels, strict=True))
    ]
    return torch.cat(parts)


def of_all_labels(drawn: Array, judge: Judge) -> Array:
    """Samples that come one label after the other, mixed: the first of them are of all labels."""
    return np.random.default_rng(0).permutation(drawn) if judge.of_labels else drawn


def shown_images(drawn: Array, judge: Judge) -> Array:
    """A few samples (n, N); of labels as many of each as there are labels, so that a square has a row for each."""
    if not judge.of_labels:
        return drawn[:SHOWN_IMAGES]
    side = min(len(judge.of_labels), SHOWN_LABELS)
    parts = np.split(drawn, np.cumsum(judge.of_labels)[:-1])
    return np.concatenate([part[:side] for part in parts[:side]])


def divided_samples(run: Run, n: int, progress: Progress, **options: Any) -> Tensor:
    """Samples (n, N) in every process; several divide the work, and draw what one draws."""
    if process_count() == 1:
        return run.sample(n, progress=progress, **options)
    processes = Processes()
    parts = [part.tokens for part in run.stream(n, processes=processes, progress=progress, **options)]
    return processes.from_main(torch.cat(parts) if processes.is_main else None, (n, run.model.positions))


def prior_name(run: Run) -> str | None:
    """What the reports call a learned prior."""
    latent = run.model.latent
    latent = latent.inner if isinstance(latent, LabelledLatent) else latent
    if not isinstance(latent, GaussianLatent) or isinstance(latent.prior, StandardNormal):
        return None
    return "conditional" if latent.prior.conditional else "flow"


def _parameters(run: Run) -> int | None:
    denoiser = run.model.denoiser
    return sum(parameter.numel() for parameter in denoiser.parameters()) if isinstance(denoiser, nn.Module) else None


def _data_of(recipe: Recipe) -> str:
    """The kind of the data, and what they are called."""
    section = recipe.data
    called = [getattr(section, key, None) for key in ("name", "corpus", "path")]
    return " ".join([section.kind, *(Path(name).name for name in called if name)])


def report_of(run: Run) -> RunReport:
    """What every report begins with: which run it is about, and no results yet."""
    published = published_recipe(run.recipe)
    return RunReport(
        run=str(run.directory.path),
        recipe=run.recipe.name,
        model=run.recipe.model,
        data=_data_of(run.recipe),
        vocab_size=run.kind.vocab_size,
        parameters=_parameters(run),
        training_steps=run.recipe.training.steps,
        training_seconds=training_seconds(run.directory.metrics()),
        published_recipe=published,
        unlike_it=() if published is None else unlike(run.recipe, published),
        how_computed=how_computed(run.recipe),
        latent_policy=run.sampling.latent_policy if has_latent(run) else None,
        prior=prior_name(run),
        prior_seconds=run.prior_seconds,
        sampler=run.sampling.sampler,
        labels=run.kind.labels,
        draws=None if run.sampling.precision == "float64" else run.sampling.precision,
    )
