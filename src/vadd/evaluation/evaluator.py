"""What every comparison of samples with the data has."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.labels import shares_of_labels
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import JudgeReport, Metrics, RealText
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent
from vadd.run.run import Run


@dataclass(frozen=True)
class Reference:
    """What samples are to be compared with, and how."""

    data: DiscreteDataset
    samples: int
    seed: int = 0
    run: Run | None = None
    """Of which the exact distribution of samples is computed, where there is a formula."""
    inception: Path | None = None
    """The file of an Inception network: images are compared by FID."""
    language: LanguageJudge | None = None
    """A judge model: texts are also compared by generative perplexity."""
    progress: Progress = silent


class Evaluator(ABC):
    """Compares samples with the data; built once for all numbers of steps."""

    samples: int
    """How many samples it needs."""
    of_labels: tuple[int, ...] = ()
    """How many samples of each label, one label after the other, where it evaluates labels."""
    limit: str = "this comparison takes"
    """Why these are fewer than were asked for."""
    judge: JudgeReport | None = None
    """The judge model, if there is one."""
    real_text: RealText | None = None
    """The metrics of real text, if the samples are text."""

    @abstractmethod
    def __call__(self, drawn: Array, steps: int) -> Metrics:
        """The metrics of samples (n, N) that were drawn in ``steps`` steps."""

    def for_run(self, run: Run) -> "Evaluator":
        """The same for another model of the same data."""
        return self

    def _divide_labels(self, data: DiscreteDataset, least: int = 1) -> None:
        self.of_labels = shares_of_labels(data, self.samples, least)
        self.samples = sum(self.of_labels)
