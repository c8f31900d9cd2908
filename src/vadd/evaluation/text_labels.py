"""Whether texts obey the label that they were drawn of: a small classifier reads them.

It is a logistic regression on the frequencies of short pieces of words, fitted on training documents as the model sees
them. How often it is right about held-out documents stands beside what it says of samples: no text can be expected to
obey its label more plainly than real ones do.
"""

import warnings

import numpy as np
import torch

from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent
from vadd.run.run import Run

LEARNT, ASKED = 20_000, 5_000
"""Documents at most: training ones that it learns from, and held-out ones that it is asked about."""
LONGEST_PIECE = 4
"""Characters."""
MOST_PIECES, MOST_WEIGHTS = 50_000, 5_000_000
ITERATIONS = 300
STRENGTH = 10.0
"""The inverse of the penalty, in scikit-learn's terms."""


class LabelReader:
    """Finds the labels of texts; fitted once for all numbers of steps."""

    def __init__(self, run: Run, seed: int = 0, progress: Progress = silent) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        data = run.data
        assert data.train_labels is not None
        assert data.test_labels is not None
        assert data.label_names is not None
        pieces = min(MOST_PIECES, MOST_WEIGHTS // len(data.label_names))
        # Texts, not tokens: what a label shows in must not depend on how a run spells.
        self.pieces = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(1, LONGEST_PIECE), max_features=pieces, sublinear_tf=True
        )
        self.classifier = LogisticRegression(C=STRENGTH, max_iter=ITERATIONS)
        progress("fitting a classifier of labels")
        learnt = some_of(len(data.train), LEARNT, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: what it knows is measured below
            found = self.pieces.fit_transform(run.texts(data.train[learnt].long()))
            self.classifier.fit(found, data.train_labels[learnt].numpy())
        asked = some_of(len(data.test), ASKED, seed)
        self.documents = len(asked)
        truth = data.test_labels[asked].numpy()
        self.accuracy = float((self.labels(run.texts(data.test[asked].long())) == truth).mean())
        """On held-out documents."""

    def labels(self, texts: list[str]) -> Array:
        """What it takes them for, the number of a label each."""
        return np.asarray(self.classifier.predict(self.pieces.transform(texts)))


def some_of(total: int, most: int, seed: int) -> torch.Tensor:
    """All numbers below ``total``, or ``most`` of them, in order."""
    if total <= most:
        return torch.arange(total)
    chosen = np.random.default_rng([seed, 5]).choice(total, most, replace=False)
    return torch.from_numpy(np.sort(chosen))
