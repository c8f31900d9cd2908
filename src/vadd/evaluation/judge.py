"""What every judge of samples has."""

from abc import ABC, abstractmethod

from vadd.data.dataset import Array
from vadd.evaluation.metrics import Metrics
from vadd.evaluation.reports import JudgeReport, RealText
from vadd.runs.run import Run


class Judge(ABC):
    """Compares samples with the data; built once for all numbers of steps."""

    samples: int
    """How many samples it wants to see."""
    of_labels: tuple[int, ...] = ()
    """How many samples of each label, one label after the other, if it wants to know their labels."""
    limit: str = "this comparison takes"
    """Why these are fewer than somebody asked for."""
    reader: JudgeReport | None = None
    """The language model that reads the samples, if there is one."""
    real_text: RealText | None = None
    """What it found in real text, if the samples are text."""

    @abstractmethod
    def __call__(self, drawn: Array, steps: int) -> Metrics:
        """Judge samples (n, N) that were drawn in ``steps`` steps."""

    def beside(self, run: Run) -> "Judge":
        """The same for another model of the same data."""
        return self
