"""The numbers about a run, and the JSON that ``vadd eval --json`` makes of them.

The keys of the JSON are an interface. A key is left out where nothing was measured; null is a number that was looked
for and does not exist.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import torch
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from torch import Tensor

from vadd.core.health import LatentHealth
from vadd.errors import UserError

Json = dict[str, Any]
Rows = tuple[tuple[float, ...], ...]

LARGEST_EXPONENT = 700.0
"""exp of more is beyond a float."""
NOT_A_BOUND = "not a likelihood bound"
PADS_NOT_SCORED = "pads not scored"
UNKNOWN_LEFT_OUT = "unknown cells left out"
"""Of the known cells, for a sampler that leaves the others masked; the model's own sampler draws them too."""
OF_THE_PROPOSAL = "of the proposal, whose samples are re-weighed"
PERIODIC, TRIGRAM, REAL = "control: periodic list", "control: 3-gram model", "real: of the source"
CONTROLS = (PERIODIC, TRIGRAM)
"""Beside files of texts."""

MaybeInfinite = Annotated[
    float,
    BeforeValidator(lambda value: math.inf if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None),
]
"""null in the JSON where it is infinite, which JSON cannot say."""


class Report(BaseModel):
    """Fields without a default are always written, the others where they differ from it."""

    model_config = ConfigDict(frozen=True)
    flat: ClassVar[tuple[str, str]] = ("", "")
    """A field whose keys stand in the JSON among the report's own, and one of them that tells that it is there."""

    def also_written(self) -> Collection[str]:
        """Fields that are written even where they hold their default."""
        return ()

    def changed(self, **changes: Any) -> Self:
        return self.model_copy(update=changes)

    def to_json(self) -> Json:
        return self.model_dump(mode="json")

    @model_validator(mode="before")
    @classmethod
    def _nested(cls, given: Any) -> Any:
        field, sign = cls.flat
        if isinstance(given, dict) and field and field not in given and sign in given:
            return {**given, field: given}
        return given

    @model_serializer(mode="wrap")
    def _flattened(self, handler: SerializerFunctionWrapHandler) -> Json:
        kept = self.also_written()
        json: Json = {}
        for name, value in handler(self).items():
            field = type(self).model_fields[name]
            if field.is_required() or name in kept or getattr(self, name) != field.default:
                json |= value if name == self.flat[0] else {name: value}
        return json


class Distance(Report):
    """How far samples are from the data. The floor is what data score against data."""

    name: ClassVar[str]
    """The field with the distance that figures show; its floor is in the field ``<name>_floor``."""

    @property
    def value(self) -> float:
        return float(getattr(self, self.name))

    @property
    def floor(self) -> float:
        return float(getattr(self, f"{self.name}_floor"))


class DistributionDistance(Distance):
    """The distance from a distribution that is known."""

    name = "paper_js"
    jsd: float
    paper_js: float
    jsd_floor: float
    paper_js_floor: float
    jsd_exact: float | None
    """``jsd`` without sampling noise; None where there is no formula for it."""


class ImageDistance(Distance):
    """Also the shares of samples that lie among training images and of training images that lie among samples, both by
    nearest neighbours in the features; None where the images are too few. The floors are those of test images.
    """

    precision: float | None = None
    recall: float | None = None
    precision_floor: float | None = None
    recall_floor: float | None = None


class FrechetDistance(ImageDistance):
    """The distance from the training images, in the features of a small classifier."""

    name = "frechet"
    frechet: float
    frechet_floor: float
    frechet_count: int | None = None
    """How many images are compared at once, the same for samples and floor; the numbers are means over such parts."""
    classifier_accuracy: float
    labels_obeyed: float | None = None
    """The share of samples drawn for a label in which the classifier finds it."""
    frechet_by_label: tuple[float | None, ...] | None = None
    """The distance of each label's samples from its training images; None for a label with a single image."""


class InceptionDistance(ImageDistance):
    """FID: the distance from the training images, in the features of the Inception network."""

    name = "fid"
    fid: float
    fid_floor: float
    fid_at_floor: float | None = None
    """Of as many samples as there are test images, where these are fewer: what the floor compares with."""
    fid_reference: int
    """How many training images the samples were compared with."""


class PairDistance(Distance):
    """The distance from held-out examples, averaged over pairs of positions."""

    name = "pair_jsd"
    pair_jsd: float
    pair_jsd_floor: float
    classifier_accuracy: float | None = None
    """Of data with labels: how often a classifier finds the label of a held-out example."""
    labels_obeyed: float | None = None
    """The share of samples drawn for a label in which it finds that label."""
    obeyed_by_label: tuple[float, ...] | None = None


class WorstColumns(Report):
    """A column, or a pair of columns, of a table."""

    columns: tuple[str, ...]
    tv: float
    floor: float


class TableDistance(Distance):
    """Rows compared with a half of the training rows; the floors are what the other half scores."""

    name = "pair_tv"
    column_tv: float
    """Total variation, the mean over columns."""
    column_tv_floor: float
    pair_tv: float
    """The same over pairs of columns."""
    pair_tv_floor: float
    trained_on_samples: float | None
    """Accuracy on held-out rows of classifiers trained on samples; None where no column can be predicted."""
    trained_on_rows: float | None
    """The same of classifiers trained on as many training rows."""
    row_distance: float
    """Cells in which a row differs from the nearest training row, the mean."""
    row_distance_floor: float
    """The same of held-out rows."""
    worst_columns: tuple[WorstColumns, ...] = ()
    """Those that are farthest above their floors."""
    worst_pairs: tuple[WorstColumns, ...] = ()


class TextMetrics(Report):
    """How varied texts are and, if a judge model read them, how probable it finds them."""

    name: ClassVar[str] = "judge_bits"
    """The number to compare texts by."""
    gen_ppl: float | None = None
    gen_ppl_stderr: float | None = None
    judge_bits: float | None = None
    """The judge model's bits per character."""
    judged_tokens: int | None = None
    """None without a judge model."""
    empty_texts: int = 0
    """Texts without a token to score."""
    cut_texts: int = 0
    """Texts longer than what the judge model reads."""
    covariance: Rows | None = None
    """(3, 3): over texts, of the estimates of the entropy, ln(gen_ppl) and judge_bits; 0 where there is no number."""
    sample_entropy: float
    distinct_1: float | None
    distinct_2: float | None
    distinct_3: float | None
    classifier_accuracy: float | None = None
    """Of data with labels: how often a classifier finds the label of a held-out example."""
    labels_obeyed: float | None = None
    """The share of samples drawn for a label in which it finds that label."""
    obeyed_by_label: tuple[float, ...] | None = None

    @property
    def value(self) -> float | None:
        return self.judge_bits

    @property
    def judged(self) -> tuple[float | None, float | None]:
        """ln(gen_ppl) and judge_bits."""
        return None if self.gen_ppl is None else math.log(self.gen_ppl), self.judge_bits

    @property
    def judge_bits_stderr(self) -> float | None:
        return None if self.covariance is None or self.judge_bits is None else math.sqrt(self.covariance[2][2])

    def also_written(self) -> Collection[str]:
        judged = ("gen_ppl", "gen_ppl_stderr", "judge_bits", "judged_tokens", "empty_texts", "cut_texts")
        return () if self.judged_tokens is None else judged


Metrics = DistributionDistance | FrechetDistance | InceptionDistance | PairDistance | TableDistance | TextMetrics
M = TypeVar("M", bound=Distance | TextMetrics)


class StepResult(Report):
    """The metrics of samples that were drawn in ``steps`` steps."""

    flat = ("metrics", "steps")
    steps: int
    metrics: Metrics


class RealText(Report):
    """The metrics of held-out texts, to compare the samples with."""

    flat = ("metrics", "texts")
    texts: int
    metrics: TextMetrics


class JudgeReport(Report):
    """What a reader must know of a judge model to compare its numbers."""

    name: str
    convention: str
    first_token: str
    max_length: int


class AgainstSource(Report):
    """Texts beside the text that a model learned from, as a distribution."""

    features: str
    """What both are compared by."""
    compared: int
    """Texts on each side."""
    repeated: float | None
    """The share of 4-grams of words that stood earlier in the same text."""
    copied: float | None
    """The share of 8-grams of words that stand in the source."""
    energy: float
    """The energy distance of the features from those of source texts."""
    energy_p: float
    """How often as many texts of one distribution are at least as far apart."""
    mauve: float


class FileOfTexts(Report):
    """The metrics of the texts of a file, for ``vadd judge``."""

    flat = ("metrics", "texts")
    file: str
    texts: int
    judge: JudgeReport | None = None
    against: AgainstSource | None = None
    metrics: TextMetrics


class AtTemperature(Report):
    """A point of the curve over temperature."""

    flat = ("metrics", "temperature")
    temperature: float
    steps: int
    metrics: TextMetrics


class AtEntropy(Report):
    """What the curve over temperature gives between its points; None beyond its ends."""

    steps: int
    entropy: float
    gen_ppl: float | None
    gen_ppl_stderr: float | None = None
    judge_bits: float | None
    judge_bits_stderr: float | None = None


class NearestSamples(Report):
    steps: int
    median: float
    copies: float | None = None
    """The share that is a training example."""
    closer: float | None = None
    """The share that is closer to a training example than all but 5% of the held-out ones."""


class NearestReport(Report):
    """Numbers of positions in which an example differs from the nearest training example."""

    samples: tuple[NearestSamples, ...]
    held_out: float
    """The median of held-out examples."""
    held_out_copies: float | None = None
    held_out_closer: float | None = None
    """At most 0.05: ties at the quantile do not count."""
    compared: int
    """How many of each there were, at most."""


class ImputationReport(Report):
    """Shares of the masked cells that were filled with their true value."""

    model: float
    mode: float
    nearest_neighbours: float
    iterative: float
    cells: int


class NegativeLogLikelihood(Report):
    """A step bound, the ELBO or the paper's DELBO of some examples, in every unit that people use."""

    steps: int | None = None
    """The number of steps of the sampler that a step bound is for."""
    one_latent: bool | None = None
    """Whether that sampler keeps one z for all its steps; None where it draws a new one at each, or has no latent."""
    given_label: bool | None = None
    """Whether it is the likelihood of each example given its label; None where it is that of the example alone."""
    nats: MaybeInfinite
    """Per example; infinite if an example has probability 0."""
    stderr: float | None
    """The error of ``nats`` over examples; the randomness of the estimate is part of it. None for a single example."""
    bpd: MaybeInfinite
    """Bits per scored position: of all examples, over the scored positions of all examples."""
    perplexity: float | None
    """exp(nats per scored position); None where that is beyond a float."""
    perplexity_stderr: float | None = None
    examples: int
    scored: int | None = None
    """How many positions count, in all examples together: all but the pads."""
    valid: bool
    """Whether it bounds the negative log-likelihood of the examples from above."""
    kind: Literal["exact", "bound"] | None = None
    """Whether a step bound is the likelihood itself."""
    sampler: str | None = None
    """That it is the likelihood of; None for the model's own, ancestral."""
    impossible: int = 0
    """Examples that have probability 0, or that no drawn path led to."""
    nats_of_possible: float | None = None
    """Per example, without those."""
    bits_per_character: float | None = None
    """Bits per character of the text that the scored tokens stand for, where a token is not a character."""
    excess: float | None = None
    """Nats above the true distribution's score on the same examples, where that is known."""
    excess_stderr: float | None = None
    convention: str | None = None
    """What was not scored, if anything."""
    particles: int | None = None
    proposals: tuple[str, ...] | None = None
    """Where the particles came from."""
    draws: int | None = None
    """Masks for each example, in the ELBO and the DELBO."""
    warning: str | None = None

    def also_written(self) -> Collection[str]:
        return "perplexity_stderr", "scored", "bits_per_character", "excess", "excess_stderr"

    @property
    def problem(self) -> str | None:
        """Why it does not bound the likelihood; None if it does."""
        return None if self.valid else self.warning or self.convention or NOT_A_BOUND


def negative_log_likelihood(
    log_likelihood: Tensor,
    positions: int | Tensor,
    *,
    log_truth: Tensor | None = None,
    characters: int | None = None,
    **facts: Any,
) -> NegativeLogLikelihood:
    """Summarise the log-likelihoods (n,) of n examples. ``positions`` is how many positions are scored: the same number
    in every example, or one number for each (n,); ``facts`` are the other fields.
    """
    counts = torch.as_tensor(positions).expand(len(log_likelihood)).double()
    possible = log_likelihood.isfinite()
    if impossible := int((~possible).sum()):
        facts |= {"impossible": impossible, "nats_of_possible": float(-log_likelihood[possible].mean())}
        log_truth = None
    nats, stderr = mean_and_error(-log_likelihood)
    each = float(counts.mean())
    if each == 0:
        raise UserError("the examples hold nothing but pads, which are not scored")
    per_position = nats / each
    perplexity, perplexity_stderr = perplexity_of(-log_likelihood, counts)
    excess, excess_stderr = (None, None) if log_truth is None else mean_and_error(log_truth - log_likelihood)
    return NegativeLogLikelihood(
        nats=nats,
        stderr=stderr,
        bpd=per_position / math.log(2),
        perplexity=perplexity,
        perplexity_stderr=perplexity_stderr,
        examples=len(log_likelihood),
        scored=int(counts.sum()),
        bits_per_character=nats * len(log_likelihood) / math.log(2) / characters if characters else None,
        excess=excess,
        excess_stderr=excess_stderr,
        **facts,
    )


def perplexity_of(nats: Tensor, counts: Tensor) -> tuple[float | None, float | None]:
    """exp(sum of nats / sum of counts) and its standard error; None where it is beyond a float."""
    mean = float(nats.mean()) / float(counts.mean())
    if mean >= LARGEST_EXPONENT:
        return None, None
    _, error = mean_and_error(beyond_share(nats, counts))
    return math.exp(mean), None if error is None else math.exp(mean) * error


def beyond_share(above: Tensor, below: Tensor) -> Tensor:
    """What each of n examples adds, to first order, to the error of sum(above) / sum(below), a ratio of two means."""
    return (above - above.mean() / below.mean() * below) / below.mean()


def mean_and_error(values: Tensor) -> tuple[float, float | None]:
    """The mean and its standard error; the error is None for a single value."""
    mean = float(values.mean())
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 and math.isfinite(mean) else None
    return mean, error


class NamedLikelihood(Report):
    name: str
    number: NegativeLogLikelihood


class Bracket(Report):
    """Both sides of the negative log-likelihood of some examples, per example: its expectation lies between the
    expectations of ``low`` and ``high``.
    """

    steps: int
    one_latent: bool | None = None
    given_label: bool | None = None
    low: MaybeInfinite
    low_stderr: float | None
    high: MaybeInfinite
    high_stderr: float | None
    """The errors are over examples, which both sides share."""
    scored: int
    """How many positions count, in all examples together."""
    examples: int
    valid: bool
    kind: Literal["exact", "bound"] | None = None
    sampler: str | None = None
    convention: str | None = None
    particles: int | None = None
    paths: int
    """Draws of the bound for each example."""


def kind_of_sampler(bound: NegativeLogLikelihood | Bracket) -> str:
    return (f", {bound.sampler}" if bound.sampler else "") + ", one z" * bool(bound.one_latent)


class LikelihoodReport(Report):
    """Everything that was measured about the likelihood of the same examples."""

    bounds: tuple[NegativeLogLikelihood, ...]
    """Step bounds, by number of steps."""
    unit: str | None = None
    """What a position of text holds: character, byte or token."""
    delbo: NegativeLogLikelihood | None = None
    """The paper's DELBO with most particles."""
    delbo_by_particles: tuple[NegativeLogLikelihood, ...] = ()
    elbo: NegativeLogLikelihood | None = None
    """The ELBO of a model without a latent."""
    brackets: tuple[Bracket, ...] = ()
    """Intervals, by number of steps."""
    conventions: tuple[NamedLikelihood, ...] = ()
    """What else the field calls a likelihood, valid or not."""

    @property
    def delbos(self) -> tuple[NegativeLogLikelihood, ...]:
        return self.delbo_by_particles or (() if self.delbo is None else (self.delbo,))

    @property
    def named(self) -> list[tuple[str, NegativeLogLikelihood]]:
        """Every number under its name."""
        numbers = [(f"step bound, T = {bound.steps}{kind_of_sampler(bound)}", bound) for bound in self.bounds]
        numbers += [] if self.elbo is None else [("ELBO", self.elbo)]
        numbers += [(f"the paper's DELBO, K = {delbo.particles}", delbo) for delbo in self.delbos]
        return [(name + ", given the label" * bool(number.given_label), number) for name, number in numbers]

    @property
    def scores_pads(self) -> bool:
        return all(number.convention != PADS_NOT_SCORED for _, number in self.named)


class ScoredCorpus(Report):
    """A corpus that the run was not trained on."""

    flat = ("likelihood", "bounds")
    corpus: str
    """The name of its file."""
    read_as: str
    sequences: int
    """How many sequences it has, not only those that were scored."""
    spelled_like: str | None = None
    """The corpus whose few letters its text was put into."""
    likelihood: LikelihoodReport


class SkippedCorpus(Report):
    """A corpus that the run cannot read."""

    corpus: str
    read_as: str
    skipped: str
    """The reason."""


CorpusReport = ScoredCorpus | SkippedCorpus


def _between(points: Sequence[TextMetrics], target: TextMetrics, at: int) -> tuple[float | None, float | None]:
    """ln(gen_ppl) (``at`` 1) or judge_bits (2) at the entropy of the target, and its standard error by the delta
    method: the texts of the points and of the target were drawn independently.
    """
    known = [(each.sample_entropy, y, each.covariance) for each in points if (y := each.judged[at - 1]) is not None]
    place = target.sample_entropy
    for (x0, y0, first), (x1, y1, second) in pairwise(sorted(known, key=lambda point: point[0])):
        if not x0 <= place <= x1 or x0 == x1:
            continue
        share, slope = (place - x0) / (x1 - x0), (y1 - y0) / (x1 - x0)
        value = y0 + slope * (place - x0)
        if first is None or second is None or target.covariance is None:
            return value, None
        # A point that moves along the line changes nothing: what counts is how far its texts are off it.
        off = [each[at][at] - 2 * slope * each[0][at] + slope**2 * each[0][0] for each in (first, second)]
        variance = (1 - share) ** 2 * off[0] + share**2 * off[1] + slope**2 * target.covariance[0][0]
        return value, math.sqrt(max(0.0, variance))
    return None, None


def _with_verdict(health: LatentHealth | None) -> Json | None:
    return None if health is None else {**asdict(health), "verdict": health.verdict}


class RunReport(Report):
    """All numbers about a run."""

    flat = ("likelihood", "bounds")
    run: str = ""
    """The directory of the run."""
    recipe: str
    """The recipe's name."""
    model: str
    data: str | None = None
    """What it was trained on."""
    values: int | None = None
    """How many values a position can have, V."""
    parameters: int | None = None
    """Of the denoiser, all that sampling uses."""
    training_steps: int | None = None
    training_seconds: float | None = None
    published_recipe: str | None = None
    """The paper's recipe for the same data, if it has one."""
    unlike_it: tuple[str, ...] = ()
    """Settings in which the training differs from that recipe."""
    seed: int = 0
    """Of the training."""
    chosen: str | None = None
    """What a study chose for it on a part of the training set, where it did."""
    how_computed: tuple[str, ...] = ()
    """Precision, accumulation and the like, where they are not the default."""
    latent_policy: str | None = None
    """None for a model without a latent."""
    prior: str | None = None
    """``flow`` or ``conditional`` where the prior was learned; None for N(0, I) and models without a latent."""
    prior_seconds: float | None = None
    """How long it was fitted."""
    sampler: str | None = None
    labels: tuple[str, ...] | None = None
    """The names of the labels that it was trained with, in the order of the numbers by label."""
    draws: str | None = None
    """Temperature, top-k, top-p and precision of the draws where they are not 1, all and float64: as predicted."""
    results: tuple[StepResult, ...]
    samples: int | None = None
    """How many were drawn for each number of steps."""
    nearest: NearestReport | None = None
    judge: JudgeReport | None = None
    real_text: RealText | None = None
    texts: tuple[FileOfTexts, ...] = ()
    """Samples by number of steps and two controls, beside training texts; the entropy is of the run's own tokens."""
    temperatures: tuple[AtTemperature, ...] = ()
    at_real_entropy: tuple[AtEntropy, ...] = ()
    """By number of steps, at the entropy of real text."""
    entropy: float | None = None
    """The entropy of the data's own distribution in nats, where that is known."""
    likelihood: LikelihoodReport | None = None
    latent: Annotated[LatentHealth | None, PlainSerializer(_with_verdict)] = None
    """None for a model without a latent, and until it was measured."""
    zero_shot: tuple[CorpusReport, ...] | None = None
    imputation: ImputationReport | None = None
    """Of a table: how often masked cells are filled with their true value."""
    step: int | None = None
    """The training step that the weights are from."""

    def also_written(self) -> Collection[str]:
        return {"run", "training_seconds", *({"latent"} & self.model_fields_set)}

    @property
    def one_latent(self) -> bool:
        """Whether one latent was kept for all steps."""
        return self.latent_policy == "fixed"

    def at_entropy(self, steps: int, target: TextMetrics) -> AtEntropy:
        """Linear in the logarithm of the perplexity and in bits, between neighbouring entropies."""
        points = [point.metrics for point in self.temperatures if point.steps == steps]
        (nats, error), (bits, bits_error) = (_between(points, target, at) for at in (1, 2))
        gen_ppl = None if nats is None else math.exp(nats)
        return AtEntropy(
            steps=steps,
            entropy=target.sample_entropy,
            gen_ppl=gen_ppl,
            gen_ppl_stderr=None if gen_ppl is None or error is None else gen_ppl * error,
            judge_bits=bits,
            judge_bits_stderr=bits_error,
        )

    def by_steps(self, kind: type[M]) -> dict[int, M]:
        """The metrics of this kind by number of steps."""
        return {result.steps: result.metrics for result in self.results if isinstance(result.metrics, kind)}
