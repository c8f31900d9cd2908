"""What a judge finds in samples that were drawn in some number of steps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


D = TypeVar("D", bound=_Dataclass)


def read_fields(kind: type[D], json: Mapping[str, Any]) -> D:
    """Make a dataclass of the keys that are named like its fields; other keys are ignored. Lists become tuples."""
    found = {field.name: json[field.name] for field in fields(kind) if field.name in json}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


@dataclass(frozen=True)
class Distance:
    """How far samples are from the data. The floor is what data score against data."""

    name: ClassVar[str]
    """The field with the distance that figures show; its floor is in the field ``<name>_floor``."""

    @property
    def value(self) -> float:
        return float(getattr(self, self.name))

    @property
    def floor(self) -> float:
        return float(getattr(self, f"{self.name}_floor"))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DistributionDistance(Distance):
    """The distance from a distribution that is known."""

    name = "paper_js"
    jsd: float
    paper_js: float
    jsd_floor: float
    paper_js_floor: float
    jsd_exact: float | None
    """``jsd`` without sampling noise; None where there is no formula for it."""


@dataclass(frozen=True)
class FrechetDistance(Distance):
    """The distance from the training images, in the features of a small classifier."""

    name = "frechet"
    frechet: float
    frechet_floor: float
    classifier_accuracy: float
    labels_obeyed: float | None = None
    """For samples that were drawn of given labels: in how many the classifier finds the label."""
    frechet_by_label: tuple[float | None, ...] | None = None
    """Likewise: the distance of the samples of each label from the training images of that label; None of a label with
    a single one.
    """

    def to_json(self) -> dict[str, Any]:
        """What is about labels is missing where none were given."""
        about_labels = {"labels_obeyed", "frechet_by_label"} if self.labels_obeyed is None else set()
        return {key: value for key, value in asdict(self).items() if key not in about_labels}


@dataclass(frozen=True)
class InceptionDistance(Distance):
    """FID: the distance from the training images, in the features of the Inception network."""

    name = "fid"
    fid: float
    fid_floor: float
    fid_reference: int
    """How many training images the samples were compared with."""


@dataclass(frozen=True)
class PairDistance(Distance):
    """The distance from held-out examples, averaged over pairs of positions."""

    name = "pair_jsd"
    pair_jsd: float
    pair_jsd_floor: float
    classifier_accuracy: float | None = None
    """Of a run with labels: how often a classifier finds the label of a held-out example."""
    labels_obeyed: float | None = None
    """For samples that were drawn of given labels: in how many it finds the label."""
    obeyed_by_label: tuple[float, ...] | None = None
    """The same of the samples of each label."""

    def to_json(self) -> dict[str, Any]:
        """What is about labels is missing where none were given."""
        return {key: value for key, value in asdict(self).items() if key not in OF_LABELS or value is not None}


@dataclass(frozen=True, kw_only=True)
class TableDistance(Distance):
    """Rows beside those of a half of the training rows; the floors are what the other half scores."""

    name = "pair_tv"
    column_tv: float
    """Total variation, the mean over columns."""
    column_tv_floor: float
    pair_tv: float
    """Likewise over pairs of columns."""
    pair_tv_floor: float
    trained_on_samples: float | None
    """Accuracy on held-out rows of classifiers that learnt from samples; None where no column can be predicted."""
    trained_on_rows: float | None
    """The same of those that learnt from as many training rows."""
    row_distance: float
    """Cells in which a row differs from the training row nearest to it, the mean."""
    row_distance_floor: float
    """The same of held-out rows."""


@dataclass(frozen=True, kw_only=True)
class TextMetrics:
    """How varied texts are and, if a language model read them, what it found."""

    gen_ppl: float | None = None
    gen_ppl_stderr: float | None = None
    judge_bits: float | None = None
    """Bits that the judge needs for a character."""
    judged_tokens: int | None = None
    """None if no judge read the texts."""
    empty_texts: int = 0
    """How many texts had no token to score."""
    cut_texts: int = 0
    """How many texts were longer than what the judge reads."""
    sample_entropy: float
    distinct_1: float | None
    distinct_2: float | None
    distinct_3: float | None
    classifier_accuracy: float | None = None
    """Of a run with labels: how often a classifier of texts finds the label of a held-out document."""
    labels_obeyed: float | None = None
    """For samples that were drawn of given labels: in how many it finds the label."""
    obeyed_by_label: tuple[float, ...] | None = None
    """The same of the samples of each label."""

    def to_json(self) -> dict[str, Any]:
        """The judge's entries are missing where there was no judge, those about labels where there were none."""
        left_out = {
            *(JUDGED if self.judged_tokens is None else ()),
            *(n for n in OF_LABELS if getattr(self, n) is None),
        }
        return {key: value for key, value in asdict(self).items() if key not in left_out}


OF_LABELS = ("classifier_accuracy", "labels_obeyed", "obeyed_by_label")
JUDGED = ("gen_ppl", "gen_ppl_stderr", "judge_bits", "judged_tokens", "empty_texts", "cut_texts")

Metrics = Distance | TextMetrics

DISTANCES: tuple[type[Distance], ...] = (
    DistributionDistance,
    FrechetDistance,
    InceptionDistance,
    PairDistance,
    TableDistance,
)


def metrics_from_json(json: Mapping[str, Any]) -> Metrics:
    for kind in DISTANCES:
        if kind.name in json:
            return read_fields(kind, json)
    return read_fields(TextMetrics, json)
