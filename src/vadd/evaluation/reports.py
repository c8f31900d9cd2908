"""The report about a run, and the JSON that ``vadd eval --json`` makes of it.

The keys of the JSON are an interface: others read them. A key is missing where nothing was measured; null is a number
that was looked for and does not exist.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from vadd.core.health import LatentHealth
from vadd.evaluation.imputation import ImputationReport
from vadd.evaluation.metrics import Metrics, TextMetrics, metrics_from_json, read_fields
from vadd.evaluation.nearest import NearestReport

Json = dict[str, Any]
M = TypeVar("M", bound=Metrics)

NOT_A_BOUND = "not a likelihood bound"
PADS_NOT_SCORED = "pads not scored"
UNKNOWN_LEFT_OUT = "unknown cells left out"
"""A bound all the same: of the known cells, for the sampler that leaves the others hidden."""
OF_THE_PROPOSAL = "of the proposal, whose samples are re-weighed"


@dataclass(frozen=True)
class StepResult:
    """What a judge found in samples that were drawn in ``steps`` steps."""

    steps: int
    metrics: Metrics

    def to_json(self) -> Json:
        return {"steps": self.steps, **self.metrics.to_json()}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "StepResult":
        return cls(json["steps"], metrics_from_json(json))


@dataclass(frozen=True)
class RealText:
    """What the judge found in held-out texts, to compare the samples with."""

    texts: int
    metrics: TextMetrics

    def to_json(self) -> Json:
        return {"texts": self.texts, **self.metrics.to_json()}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "RealText":
        return cls(json["texts"], read_fields(TextMetrics, json))


@dataclass(frozen=True)
class JudgeReport:
    """What a reader must know of a language model to compare its numbers."""

    name: str
    convention: str
    first_token: str
    max_length: int


@dataclass(frozen=True, kw_only=True)
class NegativeLogLikelihood:
    """A step bound, the ELBO or the paper's DELBO of some examples, in every unit that people use."""

    steps: int | None = None
    """The number of steps of the sampler that a step bound is for."""
    one_latent: bool | None = None
    """Whether that sampler keeps one z for all its steps; None where it draws a new one at each, or has no latent."""
    given_label: bool | None = None
    """Whether it is the likelihood of each example given its label; None where it is that of the example alone."""
    nats: float
    """Per example."""
    stderr: float | None
    """The error of ``nats`` over examples; the randomness of the estimate is part of it. None for a single example."""
    bpd: float
    """Bits per scored position: of all examples, over the scored positions of all examples."""
    perplexity: float | None
    """exp(nats per scored position), likewise; None where that is beyond a float."""
    perplexity_stderr: float | None = None
    examples: int
    scored: int | None = None
    """How many positions count, in all examples together: all but the pads. Version 0.1.0 did not write it."""
    valid: bool
    """Whether it bounds the negative log-likelihood of the examples from above."""
    bits_per_character: float | None = None
    """Bits per character of the text that the scored tokens stand for, where a token is not a character."""
    excess: float | None = None
    """Nats above the true distribution's own score on the same examples, where that is known.

    In expectation at least 0 if valid.
    """
    excess_stderr: float | None = None
    convention: str | None = None
    """What was not scored, if anything."""
    particles: int | None = None
    proposals: tuple[str, ...] | None = None
    """Where the particles came from."""
    draws: int | None = None
    """Masks for each example, in the ELBO and the DELBO."""
    warning: str | None = None

    @property
    def problem(self) -> str | None:
        """Why it does not bound the likelihood; None if it does."""
        return None if self.valid else self.warning or self.convention or NOT_A_BOUND

    def to_json(self) -> Json:
        """The numbers are always there, the circumstances only where they were stated."""
        json = {key: value for key, value in asdict(self).items() if key not in CIRCUMSTANCES or value is not None}
        return json if self.proposals is None else {**json, "proposals": list(self.proposals)}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "NegativeLogLikelihood":
        proposals = json.get("proposals")
        return read_fields(cls, {**json, "proposals": None if proposals is None else tuple(proposals)})


CIRCUMSTANCES = ("steps", "one_latent", "given_label", "convention", "particles", "proposals", "draws", "warning")


@dataclass(frozen=True)
class LikelihoodReport:
    """Everything that was measured about the likelihood of the same examples."""

    bounds: tuple[NegativeLogLikelihood, ...]
    """Step bounds, by number of steps."""
    unit: str | None = None
    """What a position of text holds: character, byte or token."""
    delbos: tuple[NegativeLogLikelihood, ...] = ()
    """The paper's DELBO, by number of particles."""
    elbo: NegativeLogLikelihood | None = None
    """The ELBO of a model without a latent."""

    @property
    def delbo(self) -> NegativeLogLikelihood | None:
        """The DELBO with most particles."""
        return self.delbos[-1] if self.delbos else None

    @property
    def integral(self) -> NegativeLogLikelihood | None:
        """What the paper's formula gives, see :attr:`formula`."""
        return self.elbo if self.delbo is None else self.delbo

    @property
    def formula(self) -> str:
        """The paper's formula: the ELBO or, for a model with a latent, the DELBO."""
        return "ELBO" if self.delbo is None else "DELBO"

    @property
    def scores_pads(self) -> bool:
        numbers = [*self.bounds, *self.delbos, self.elbo]
        return all(found.convention != PADS_NOT_SCORED for found in numbers if found is not None)

    def to_json(self) -> Json:
        json: Json = {"bounds": [bound.to_json() for bound in self.bounds]}
        if self.unit is not None:
            json["unit"] = self.unit
        if self.delbo is not None:
            json |= {"delbo": self.delbo.to_json(), "delbo_by_particles": [found.to_json() for found in self.delbos]}
        if self.elbo is not None:
            json["elbo"] = self.elbo.to_json()
        return json

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "LikelihoodReport":
        read = NegativeLogLikelihood.from_json
        delbos = json.get("delbo_by_particles") or ([json["delbo"]] if "delbo" in json else [])
        return cls(
            tuple(map(read, json["bounds"])),
            json.get("unit"),
            tuple(map(read, delbos)),
            read(json["elbo"]) if "elbo" in json else None,
        )


@dataclass(frozen=True)
class JudgedCorpus:
    """A corpus that the run has not learnt from."""

    corpus: str
    """The name of its file."""
    read_as: str
    sequences: int
    """How many sequences it has, not only those that were judged."""
    likelihood: LikelihoodReport
    spelled_like: str | None = None
    """The corpus whose few letters its text was put into."""

    def to_json(self) -> Json:
        about: Json = {"corpus": self.corpus, "read_as": self.read_as, "sequences": self.sequences}
        about |= {} if self.spelled_like is None else {"spelled_like": self.spelled_like}
        return {**about, **self.likelihood.to_json()}


@dataclass(frozen=True)
class SkippedCorpus:
    """A corpus that the run cannot read."""

    corpus: str
    read_as: str
    skipped: str
    """The reason."""

    def to_json(self) -> Json:
        return asdict(self)


CorpusReport = JudgedCorpus | SkippedCorpus


def corpus_from_json(json: Mapping[str, Any]) -> CorpusReport:
    if "skipped" in json:
        return read_fields(SkippedCorpus, json)
    likelihood, spelled = LikelihoodReport.from_json(json), json.get("spelled_like")
    return JudgedCorpus(json["corpus"], json["read_as"], json["sequences"], likelihood, spelled)


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """All numbers about a run."""

    run: str
    """The directory of the run."""
    recipe: str
    """The recipe's name."""
    model: str
    data: str | None = None
    """What it learnt from; None for reports of version 0.1.0."""
    vocab_size: int | None = None
    parameters: int | None = None
    """Of the denoiser, all that sampling uses."""
    training_steps: int | None = None
    training_seconds: float | None = None
    published_recipe: str | None = None
    """The paper's recipe for the same data, if it has one."""
    unlike_it: tuple[str, ...] = ()
    """What was learnt otherwise than by that recipe."""
    how_computed: tuple[str, ...] = ()
    """Precision, accumulation and the like, where they are not the default."""
    latent_policy: str | None = None
    """None for a model without a latent."""
    prior: str | None = None
    """``flow`` or ``conditional`` where the prior was learned; None for N(0, I) and models without a latent."""
    prior_seconds: float | None = None
    """What its fit took."""
    sampler: str | None = None
    labels: tuple[str, ...] | None = None
    """What the labels are called that it learnt from, in the order of the numbers by label."""
    draws: str | None = None
    """The precision of the draws where it is not float64, which alone is exact."""
    results: tuple[StepResult, ...] = ()
    samples: int | None = None
    """How many were drawn for each number of steps."""
    nearest: NearestReport | None = None
    judge: JudgeReport | None = None
    real_text: RealText | None = None
    entropy: float | None = None
    """The entropy of the data's own distribution in nats, where that is known."""
    likelihood: LikelihoodReport | None = None
    latent_judged: bool = False
    latent: LatentHealth | None = None
    """None for a model without a latent, and until the latent was judged."""
    zero_shot: tuple[CorpusReport, ...] | None = None
    imputation: ImputationReport | None = None
    """Of a table: how often hidden cells are filled with what was there."""
    step: int | None = None
    """The training step that the weights are from."""

    @property
    def one_latent(self) -> bool:
        """Whether one latent was kept for all steps."""
        return self.latent_policy == "fixed"

    def by_steps(self, kind: type[M]) -> dict[int, M]:
        """The metrics of this kind by number of steps."""
        return {result.steps: result.metrics for result in self.results if isinstance(result.metrics, kind)}

    def to_json(self) -> Json:
        entries: Json = {
            "run": self.run,
            "recipe": self.recipe,
            "model": self.model,
            "data": self.data,
            "values": self.vocab_size,
            "parameters": self.parameters,
            "training_steps": self.training_steps,
            "training_seconds": self.training_seconds,
            "published_recipe": self.published_recipe,
            "unlike_it": list(self.unlike_it) or None,
            "how_computed": list(self.how_computed) or None,
            "latent_policy": self.latent_policy,
            "prior": self.prior,
            "prior_seconds": self.prior_seconds,
            "sampler": self.sampler,
            "labels": None if self.labels is None else list(self.labels),
            "draws": self.draws,
            "results": [result.to_json() for result in self.results],
            "samples": self.samples,
            "nearest": None if self.nearest is None else self.nearest.to_json(),
            "judge": None if self.judge is None else asdict(self.judge),
            "real_text": None if self.real_text is None else self.real_text.to_json(),
            "entropy": self.entropy,
            **({} if self.likelihood is None else self.likelihood.to_json()),
            "latent": None if self.latent is None else _health_to_json(self.latent),
            "zero_shot": None if self.zero_shot is None else [corpus.to_json() for corpus in self.zero_shot],
            "imputation": None if self.imputation is None else self.imputation.to_json(),
            "step": self.step,
        }
        may_be_null = {"training_seconds", *(["latent"] if self.latent_judged else [])}
        return {key: value for key, value in entries.items() if value is not None or key in may_be_null}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "RunReport":
        """Reports of version 0.1.0 do not have all keys."""
        judge, real_text, latent, corpora = (json.get(key) for key in ("judge", "real_text", "latent", "zero_shot"))
        return cls(
            run=json.get("run", ""),
            recipe=json["recipe"],
            model=json["model"],
            data=json.get("data"),
            vocab_size=json.get("values"),
            parameters=json.get("parameters"),
            training_steps=json.get("training_steps"),
            training_seconds=json.get("training_seconds"),
            published_recipe=json.get("published_recipe"),
            unlike_it=tuple(json.get("unlike_it", ())),
            how_computed=tuple(json.get("how_computed", ())),
            latent_policy=json.get("latent_policy"),
            prior=json.get("prior"),
            prior_seconds=json.get("prior_seconds"),
            sampler=json.get("sampler"),
            labels=tuple(json["labels"]) if "labels" in json else None,
            draws=json.get("draws"),
            results=tuple(map(StepResult.from_json, json["results"])),
            samples=json.get("samples"),
            nearest=NearestReport.from_json(json["nearest"]) if "nearest" in json else None,
            judge=None if judge is None else read_fields(JudgeReport, judge),
            real_text=None if real_text is None else RealText.from_json(real_text),
            entropy=json.get("entropy"),
            likelihood=LikelihoodReport.from_json(json) if "bounds" in json else None,
            latent_judged="latent" in json,
            latent=None if latent is None else _health_from_json(latent),
            zero_shot=None if corpora is None else tuple(map(corpus_from_json, corpora)),
            imputation=ImputationReport.from_json(json["imputation"]) if "imputation" in json else None,
            step=json.get("step"),
        )


def _health_to_json(health: LatentHealth) -> Json:
    return {**asdict(health), "kl_per_dimension": list(health.kl_per_dimension), "verdict": health.verdict}


def _health_from_json(json: Mapping[str, Any]) -> LatentHealth:
    return read_fields(LatentHealth, {**json, "kl_per_dimension": tuple(json["kl_per_dimension"])})
