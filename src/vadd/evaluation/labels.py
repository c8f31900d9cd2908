"""Whether samples that were drawn for a label show it: a small classifier predicts the labels of samples.

It is fitted on training examples. How often it is right about held-out examples stands beside what it says of samples:
no sample can be expected to show its label more plainly than real examples do.
"""

import warnings
from typing import Any

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.likelihood import some_of
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent

FITTED, TESTED = 20_000, 5_000
"""Examples at most: training ones that it is fitted on, and held-out ones that it is tested on."""
LONGEST_PIECE = 4
"""Characters."""
MOST_PIECES, MOST_WEIGHTS = 50_000, 5_000_000
ITERATIONS = 300
STRENGTH = 10.0
"""The inverse of the penalty, in scikit-learn's terms."""
TREES = 100


class LabelClassifier:
    """Of texts a logistic regression on the frequencies of short pieces of words, of other examples a random forest;
    fitted once for all numbers of steps.
    """

    def __init__(self, data: DiscreteDataset, seed: int = 0, progress: Progress = silent) -> None:
        assert data.train_labels is not None
        assert data.test_labels is not None
        self.data = data
        self.classifier = text_classifier(len(data.label_names or ())) if data.kind.name == "text" else forest()
        progress("fitting a classifier of labels")
        fitted, tested = some_of(len(data.train), FITTED, seed), some_of(len(data.test), TESTED, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: its accuracy is measured below
            self.classifier.fit(self._features(data.train[fitted]), data.train_labels[fitted].numpy())
        truth = data.test_labels[tested].numpy()
        self.accuracy = float((self.labels(data.test[tested].numpy()) == truth).mean())
        """On held-out examples."""
        self.tested = len(tested)

    def _features(self, tokens: Any) -> Any:
        values = np.asarray(tokens, dtype=np.int64)
        # Texts, not tokens: the classifier must not depend on a run's tokenizer.
        return self.data.kind.texts(values) if self.data.kind.name == "text" else values

    def labels(self, examples: Array) -> Array:
        """The number of the predicted label of each of (n, N)."""
        return np.asarray(self.classifier.predict(self._features(examples)))

    def metrics(self, drawn: Array, of_labels: tuple[int, ...]) -> dict[str, Any]:
        """The fields of metrics that are about labels, of samples that come one label after the other, so many of
        each.
        """
        obeyed = self.labels(drawn) == labels_in_order(of_labels).numpy()
        by_label = tuple(float(part.mean()) for part in np.split(obeyed, np.cumsum(of_labels)[:-1]))
        return {
            "classifier_accuracy": self.accuracy,
            "labels_obeyed": float(obeyed.mean()),
            "obeyed_by_label": by_label,
        }


def text_classifier(labels: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pieces = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=(1, LONGEST_PIECE),
        max_features=min(MOST_PIECES, MOST_WEIGHTS // labels),
        sublinear_tf=True,
    )
    return make_pipeline(pieces, LogisticRegression(C=STRENGTH, max_iter=ITERATIONS))


def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(TREES, random_state=0, n_jobs=1)


def shares_of_labels(data: DiscreteDataset, samples: int, least: int) -> tuple[int, ...]:
    """How many of ``samples`` samples to draw of each label: as frequent as in the training set, so that together they
    are what the model draws without a label, but ``least`` of each, if that makes them more.
    """
    assert data.train_labels is not None
    assert data.label_names is not None
    wanted = torch.bincount(data.train_labels, minlength=len(data.label_names)) * (samples / len(data.train_labels))
    numbers = wanted.floor()
    # What rounding down leaves is given to those that it took most from.
    numbers[(wanted - numbers).argsort(descending=True, stable=True)[: samples - int(numbers.sum())]] += 1
    return tuple(max(least, int(number)) for number in numbers.tolist())


def labels_in_order(of_labels: tuple[int, ...]) -> torch.Tensor:
    """Of samples that come one label after the other, so many of each: the number of each one's label."""
    return torch.arange(len(of_labels)).repeat_interleave(torch.tensor(of_labels))
