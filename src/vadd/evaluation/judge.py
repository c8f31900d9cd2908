"""What every judge of samples has."""

from abc import ABC, abstractmethod

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.metrics import Metrics
from vadd.evaluation.reports import JudgeReport, RealText
from vadd.kinds.arrays import Array
from vadd.run.run import Run


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


def shares_of_labels(data: DiscreteDataset, samples: int, least: int) -> tuple[int, ...]:
    """How many of ``samples`` samples to draw of each label: as frequent as in the training set, so that together they
    are what the model draws without a label, but ``least`` of each, if that makes them more.
    """
    assert data.train_labels is not None
    assert data.label_names is not None
    wanted = torch.bincount(data.train_labels, minlength=len(data.label_names)) * (samples / len(data.train_labels))
    numbers = wanted.floor()
    # What rounding down leaves goes to those that it took most from.
    numbers[(wanted - numbers).argsort(descending=True, stable=True)[: samples - int(numbers.sum())]] += 1
    return tuple(max(least, int(number)) for number in numbers.tolist())


def labels_in_order(of_labels: tuple[int, ...]) -> torch.Tensor:
    """Of samples that come one label after the other, so many of each: the number of each one's label."""
    return torch.arange(len(of_labels)).repeat_interleave(torch.tensor(of_labels))


def obedience(found: Array, of_labels: tuple[int, ...]) -> tuple[float, tuple[float, ...]]:
    """In which share of such samples their label was ``found``, and in which of each label's."""
    obeyed = found == labels_in_order(of_labels).numpy()
    by_label = [float(part.mean()) for part in np.split(obeyed, np.cumsum(of_labels)[:-1])]
    return float(obeyed.mean()), tuple(by_label)
