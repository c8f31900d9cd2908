"""The numbers about a run: how far its samples are from the data, by number of steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from vadd.errors import UserError
from vadd.evaluation.divergence import COMPARED, entropy, histogram, nearest_report
from vadd.evaluation.diversity import FEWEST, beside_source
from vadd.evaluation.evaluators import (
    DistributionEvaluator,
    Evaluator,
    FrechetEvaluator,
    InceptionEvaluator,
    PairEvaluator,
    Reference,
    TextEvaluator,
)
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import (
    BoundSettings,
    basic_report,
    measure_bounds,
    measure_latent,
    some_of,
    true_distribution,
)
from vadd.evaluation.reports import AtTemperature, FileOfTexts, RunReport, StepResult, TextMetrics
from vadd.evaluation.tables import RowComparison, measure_imputation
from vadd.evaluation.text_features import WORDS, TextFeatures
from vadd.kinds.arrays import Array
from vadd.parallel import Processes, process_count
from vadd.progress import Progress, named, silent, warn
from vadd.recipe.loading import how_computed, published_recipe, unlike
from vadd.run.run import EVALUATED_STEPS, Run
from vadd.run.status import training_seconds
from vadd.settings import Count, checked
from vadd.words import plural

DEFAULT_SAMPLES, MOST_SAMPLES = 100_000, 1_000_000_000
TEXT_SAMPLES = 256
"""For text: as many as the field uses; a judge model takes long to read them."""
COMPARED_TEXTS, SOURCE_TEXTS = 2_000, 50_000
"""Samples of each number of steps that are compared with training texts, and how many of these, at most."""
CURVE_STREAMS = 10_000_000
"""Seeds that are apart so much: labels take a thousand each."""
SHOWN_IMAGES = 64
SHOWN_LABELS = 16
SHOWN_TEXTS = 4


def choose_evaluator(reference: Reference) -> Evaluator:
    """By FID where an Inception network is given, else by the kind of the examples. A new way to compare is a class in
    :mod:`vadd.evaluation.evaluators`, its numbers in :mod:`vadd.evaluation.reports`, and a line here.
    """
    data, kind = reference.data, reference.data.kind
    reference.progress("the sampling floor")
    if reference.inception is not None and kind.name != "image":
        raise UserError(f"the FID is for images; the examples of this run have the shape {kind.shape}")
    if reference.language is not None and kind.name != "text":
        raise UserError(f"generative perplexity is for runs on text; the examples of this run are {kind.noun}")
    known = data.distribution is not None
    chosen: dict[type[Evaluator], bool] = {
        InceptionEvaluator: reference.inception is not None,
        RowComparison: kind.name == "table",
        TextEvaluator: kind.name == "text",
        FrechetEvaluator: kind.name == "image" and data.train_labels is not None and not known,
        DistributionEvaluator: known and reference.run is not None,
        PairEvaluator: True,
    }
    return next(evaluator for evaluator, fits in chosen.items() if fits)(reference)


@dataclass(frozen=True)
class Evaluation:
    report: RunReport
    shown: dict[int, Any] = field(default_factory=dict)
    """What can be shown of the samples, by number of steps: of points their distribution (V, V), of images a few
    (n, N), of text a few texts, of a table all rows (n, N); of arrays nothing.
    """


@dataclass(frozen=True)
class EvaluationOptions:
    """What else an evaluation compares with."""

    examples: Tensor | None = None
    """Whose likelihood is bounded; the held-out ones by default."""
    inception: Path | None = None
    """The file of an Inception network: images are compared by FID."""
    language: LanguageJudge | None = None
    """A judge model: texts are also compared by generative perplexity."""
    nearest: bool = False
    """Also how close samples come to training examples, see :mod:`vadd.evaluation.divergence`."""
    features: TextFeatures | None = None
    """Texts and controls are compared with training texts by these; by default by words, where there is a judge."""
    temperatures: Sequence[float] = ()
    """Texts are also judged at these, beside the temperature of the run."""


@checked
def evaluate(
    run: Run,
    steps: Sequence[Count] = EVALUATED_STEPS,
    samples: Annotated[int, Field(ge=2, le=MOST_SAMPLES)] | None = None,
    seed: int = 0,
    bounds: BoundSettings | None = None,
    options: EvaluationOptions = EvaluationOptions(),  # noqa: B008  # frozen
    grown: Callable[[RunReport], None] = lambda report: None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample at each number of steps and compare with the data, in the way of its kind (see
    :mod:`vadd.evaluation.evaluators`); with ``bounds`` also bound the likelihood. ``grown`` is called with the report
    whenever numbers were added.
    """
    report = report_of(run)
    shown: dict[int, Any] = {}
    compared: dict[int, Tensor] = {}
    texts: dict[str, list[str]] = {}
    if steps:
        wanted = samples or (TEXT_SAMPLES if run.kind.name == "text" else DEFAULT_SAMPLES)
        reference = Reference(run.data, wanted, seed, run, options.inception, options.language, progress)
        evaluator = choose_evaluator(reference)
        if samples is not None and evaluator.samples < samples:
            warn(f"of {samples:,} samples {evaluator.samples:,} are drawn, as many as {evaluator.limit} at most")
        report = report.changed(samples=evaluator.samples, judge=evaluator.judge, real_text=evaluator.real_text)
        for count in steps:
            drawn = drawn_samples(run, evaluator, count, seed, named(progress, plural(count, "step"))).numpy()
            # Those of a run with labels come one label after the other.
            mixed = np.random.default_rng(0).permutation(drawn) if evaluator.of_labels else drawn
            compared[count] = torch.from_numpy(mixed[:COMPARED])
            if run.kind.name == "text":
                texts[plural(count, "step")] = run.kind.texts(mixed[:COMPARED_TEXTS])
            result = StepResult(steps=count, metrics=evaluator(drawn, count))
            report = report.changed(results=(*report.results, result))
            grown(report)
            if (picture := shown_samples(run, drawn, mixed, evaluator.of_labels)) is not None:
                shown[count] = picture
        if texts and (options.features or options.language):
            report = report.changed(texts=texts_beside_source(run, texts, options, seed, progress))
            grown(report)
        if options.temperatures:
            report = temperature_curve(run, evaluator, options.temperatures, seed, report, progress)
            grown(report)
        if run.kind.name == "table":
            report = report.changed(imputation=measure_imputation(run, seed, progress))
            grown(report)
    if options.nearest:
        nearest = nearest_report(compared, run.data.test, run.data.train, run.kind.vocab_size, progress)
        report = report.changed(nearest=nearest)
        grown(report)
    if (truth := true_distribution(run)) is not None:
        report = report.changed(entropy=entropy(truth))
    examples = run.data.test if options.examples is None else options.examples
    if bounds is not None:
        report = report.changed(likelihood=measure_bounds(run, examples, bounds, progress))
    report = report.changed(latent=measure_latent(run, examples))
    grown(report)
    return Evaluation(report, shown)


def texts_beside_source(
    run: Run, texts: dict[str, list[str]], options: EvaluationOptions, seed: int, progress: Progress
) -> tuple[FileOfTexts, ...]:
    """Samples as a distribution; nothing where they are too few for that."""
    tokenizer = run.tokenizer
    assert tokenizer is not None
    if min(len(run.data.train) // 2, *map(len, texts.values())) < FEWEST:
        return ()
    source = source_texts(run, seed)
    # What a control is made of may be no word of the vocabulary.
    tokens = getattr(tokenizer, "words", lambda text: tokenizer.encode([text])[0])
    return tuple(beside_source(texts, source, options.language, options.features or WORDS, progress, tokens))


def source_texts(run: Run, seed: int) -> list[str]:
    """Training texts, at most :data:`SOURCE_TEXTS`."""
    train = run.data.train
    return run.kind.texts(train[some_of(len(train), SOURCE_TEXTS, seed)].numpy())


def temperature_curve(
    run: Run, evaluator: Evaluator, wanted: Sequence[float], seed: int, report: RunReport, progress: Progress
) -> RunReport:
    """The report with the metrics of texts at every temperature, the run's own too, and at the entropy of real text."""
    for steps, own in report.by_steps(TextMetrics).items():
        for temperature in sorted({*wanted, run.sampling.temperature}):
            metrics: Any = own
            if temperature != run.sampling.temperature:
                named_so = named(progress, f"{plural(steps, 'step')}, temperature {temperature:g}")
                sampled = run.with_sampling(temperature=temperature)
                # A stream of its own: what stands between two temperatures has the error of independent texts.
                own_seed = seed + CURVE_STREAMS * (round(1000 * temperature) % 100_000 or 100_000)
                metrics = evaluator(drawn_samples(sampled, evaluator, steps, own_seed, named_so).numpy(), steps)
            point = AtTemperature(temperature=temperature, steps=steps, metrics=metrics)
            report = report.changed(temperatures=(*report.temperatures, point))
        if report.real_text is not None:
            matched = report.at_entropy(steps, report.real_text.metrics)
            report = report.changed(at_real_entropy=(*report.at_real_entropy, matched))
    return report


def drawn_samples(run: Run, evaluator: Evaluator, steps: int, seed: int, progress: Progress) -> Tensor:
    """As many as the evaluator needs; where it evaluates labels, so many of each, one label after the other."""
    counts, names = (
        (evaluator.of_labels, run.kind.labels or ()) if evaluator.of_labels else ([evaluator.samples], [None])
    )
    # Another seed for each label: else the samples of two labels would share their noise.
    parts = [
        divided_samples(run, count, progress, steps=steps, seed=seed + 1000 * number, label=name)
        for number, (name, count) in enumerate(zip(names, counts, strict=True))
    ]
    return torch.cat(parts)


def divided_samples(run: Run, n: int, progress: Progress, **options: Any) -> Tensor:
    """Samples (n, N) in every process; several divide the work, and draw what one draws."""
    if process_count() == 1:
        return run.sample(n, progress=progress, **options)
    processes = Processes()
    parts = [part.tokens for part in run.stream(n, processes=processes, progress=progress, **options)]
    return processes.from_main(torch.cat(parts) if processes.is_main else None, (n, run.model.positions))


def shown_samples(run: Run, drawn: Array, mixed: Array, of_labels: tuple[int, ...]) -> Any:
    """See :attr:`Evaluation.shown`; of images with labels as many of each as there are labels, so that a square has a
    row for each.
    """
    if run.kind.name == "points":
        return histogram(drawn, run.kind.vocab_size)
    if run.kind.name == "text":
        return run.kind.texts(mixed[:SHOWN_TEXTS])
    if run.kind.name == "image" and of_labels:
        side = min(len(of_labels), SHOWN_LABELS)
        parts = np.split(drawn, np.cumsum(of_labels)[:-1])
        return np.concatenate([part[:side] for part in parts[:side]])
    return {"image": drawn[:SHOWN_IMAGES], "table": drawn}.get(run.kind.name)


def report_of(run: Run) -> RunReport:
    """What every evaluation begins with: which run it is about, how it was trained, and no results yet."""
    published = published_recipe(run.recipe)
    return basic_report(run).changed(
        training_seconds=training_seconds(run.directory.metrics()),
        published_recipe=published,
        unlike_it=() if published is None else unlike(run.recipe, published),
        how_computed=how_computed(run.recipe),
    )
