"""Whether examples that are neither images nor text obey the label that they were drawn of: a random forest says it.

It learns from training examples; how often it is right about held-out ones stands beside what it says of samples.
"""

import numpy as np

from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.text_labels import ASKED, LEARNT, some_of
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent

TREES = 100


class ArrayLabels:
    """Finds the labels of examples (n, N); fitted once for all numbers of steps."""

    def __init__(self, data: DiscreteDataset, seed: int = 0, progress: Progress = silent) -> None:
        from sklearn.ensemble import RandomForestClassifier

        assert data.train_labels is not None
        assert data.test_labels is not None
        progress("fitting a classifier of labels")
        learnt, asked = some_of(len(data.train), LEARNT, seed), some_of(len(data.test), ASKED, seed)
        self.forest = RandomForestClassifier(TREES, random_state=0, n_jobs=1)
        self.forest.fit(data.train[learnt].numpy(), data.train_labels[learnt].numpy())
        self.accuracy = float((self.labels(data.test[asked].numpy()) == data.test_labels[asked].numpy()).mean())
        """On held-out examples."""

    def labels(self, examples: Array) -> Array:
        """What it takes them for, the number of a label each."""
        return np.asarray(self.forest.predict(examples))
