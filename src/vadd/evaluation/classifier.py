"""Two classifiers: one whose features images are compared by, and one that says which label samples show.

The first is a small convolutional network; its last hidden layer gives features of images too simple for Inception. It
is trained here, in a few epochs, and kept in a cache directory. Numbers taken with two different networks cannot be
compared, so the name of the file carries a fingerprint of everything that determined it.

The second is fitted on training examples. How often it is right about held-out examples stands beside what it says of
samples: no sample can be expected to show its label more plainly than real examples do.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.host import ShuffledBatches
from vadd.data.dataset import DiscreteDataset
from vadd.evaluation.cache import data_checksum, kept_tensors
from vadd.evaluation.likelihood import some_of
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent

FORMAT = 1
"""Part of the fingerprint; to be raised when the network or its training changes."""

WIDTHS = (16, 32, 64)
FEATURES = 64
SMALLEST_MAP = 4

BATCH = 128
EXAMPLES_SEEN = 120_000
MAX_EPOCHS = 50
PEAK_LEARNING_RATE = 1e-2
WEIGHT_DECAY = 1e-2
READ_BATCH = 500

FITTED, TESTED = 20_000, 5_000
"""Examples at most: training ones that it is fitted on, and held-out ones that it is tested on."""
LONGEST_PIECE = 4
"""Characters."""
MOST_PIECES, MOST_WEIGHTS = 50_000, 5_000_000
ITERATIONS = 300
STRENGTH = 10.0
"""The inverse of the penalty, in scikit-learn's terms."""
TREES = 100


class ConvolutionalClassifier(nn.Module):
    """Three convolutions, halving the map while it is larger than 4x4, a hidden layer, and the classes.

    At 32x32x1 a forward pass is 0.8 million multiplications.
    """

    def __init__(self, shape: Sequence[int], vocab_size: int, classes: int) -> None:
        super().__init__()
        height, width, channels = self.shape = tuple(shape)
        self.vocab_size = vocab_size
        layers: list[nn.Module] = []
        for number, out in enumerate(WIDTHS):
            kernel = 5 if number == 0 else 3
            stride = 2 if max(height, width) > SMALLEST_MAP else 1
            layers += [
                nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
            height, width, channels = math.ceil(height / stride), math.ceil(width / stride), out
        layers += [nn.Flatten(), nn.Linear(height * width * channels, FEATURES, bias=False)]
        self.trunk = nn.Sequential(*layers, nn.BatchNorm1d(FEATURES), nn.ReLU())
        self.head = nn.Linear(FEATURES, classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs

    def features(self, tokens: Tensor) -> Tensor:
        """(n, H*W*C) values in 0..V-1 -> (n, 64)."""
        # To -1..1, whatever the number of levels.
        scaled = tokens.float() * (2 / (self.vocab_size - 1)) - 1
        features: Tensor = self.trunk(scaled.view(len(tokens), *self.shape).permute(0, 3, 1, 2))
        return features

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, H*W*C) -> logits (n, classes)."""
        logits: Tensor = self.head(self.features(tokens))
        return logits


class ClassifierFeatures:
    """A feature extractor for tokens (n, N) in 0..V-1: the trained classifier's last hidden layer, 64 numbers."""

    def __init__(self, network: ConvolutionalClassifier, accuracy: float) -> None:
        self.network = network.eval().requires_grad_(False)
        self.accuracy = accuracy
        """The accuracy on the test set."""

    @torch.no_grad()
    def __call__(self, examples: Tensor, /) -> Tensor:
        return torch.cat([self.network.features(part) for part in torch.split(examples.cpu(), READ_BATCH)])

    @torch.no_grad()
    def classes(self, examples: Tensor) -> Tensor:
        """The predicted classes (n,)."""
        predicted: Tensor = self.network.head(self(examples)).argmax(dim=1)
        return predicted


def classifier_features(
    data: DiscreteDataset, cache: Path, *, seed: int = 0, progress: Progress = silent
) -> ClassifierFeatures:
    """For images of shape (H, W, C) with labels: from the cache where it holds a whole and fitting one, else trained.

    The result is a function of the arguments, up to rounding that depends on the machine and its number of threads.
    """
    labels, test_labels = data.train_labels, data.test_labels
    assert labels is not None
    assert test_labels is not None
    classes = int(max(labels.max(), test_labels.max())) + 1
    settings = {"format": FORMAT, "shape": data.shape, "values": data.vocab_size, "classes": classes, "seed": seed}
    checksum = data_checksum(data.train, labels, data.test, test_labels)
    fingerprint = hashlib.sha256(json.dumps([settings, checksum]).encode()).hexdigest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ConvolutionalClassifier(data.shape, data.vocab_size, classes)

    def trained() -> dict[str, Tensor]:
        train_classifier(network, data.train, labels, seed, progress)
        right = ClassifierFeatures(network, 0.0).classes(data.test) == test_labels
        return {**network.state_dict(), "accuracy": right.double().mean()}

    kept = kept_tensors(cache / f"classifier-{'x'.join(map(str, data.shape))}-{fingerprint[:12]}.cache", trained)
    accuracy = float(kept.pop("accuracy"))
    network.load_state_dict(kept)
    return ClassifierFeatures(network, accuracy)


def train_classifier(
    network: ConvolutionalClassifier, tokens: Tensor, labels: Tensor, seed: int, progress: Progress = silent
) -> None:
    """About two epochs of MNIST, fifty of a small set, the learning rate once up and down."""
    batch = min(BATCH, len(tokens))
    steps = max(1, min(EXAMPLES_SEEN, MAX_EPOCHS * len(tokens)) // batch)
    batches = ShuffledBatches(len(tokens), batch, seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, total_steps=steps)
    network.train()
    for step in range(steps):
        progress("training the classifier", step, steps)
        chosen = batches[step]
        loss = F.cross_entropy(network(tokens[chosen]), labels[chosen].long())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    progress("training the classifier", steps, steps)


class LabelClassifier:
    """Of texts a logistic regression on the frequencies of short pieces of words, of other examples a random forest;
    fitted once for all numbers of steps.
    """

    def __init__(self, data: DiscreteDataset, seed: int = 0, progress: Progress = silent) -> None:
        assert data.train_labels is not None
        assert data.test_labels is not None
        self.data = data
        self.classifier = label_classifier(data)
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


def label_classifier(data: DiscreteDataset) -> Any:
    """Of texts a logistic regression on the frequencies of short pieces of words, of other examples a forest."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if data.kind.name != "text":
        return RandomForestClassifier(TREES, random_state=0, n_jobs=1)
    pieces = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=(1, LONGEST_PIECE),
        max_features=min(MOST_PIECES, MOST_WEIGHTS // len(data.label_names or ())),
        sublinear_tf=True,
    )
    return make_pipeline(pieces, LogisticRegression(C=STRENGTH, max_iter=ITERATIONS))


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


def labels_in_order(of_labels: tuple[int, ...]) -> Tensor:
    """Of samples that come one label after the other, so many of each: the number of each one's label."""
    return torch.arange(len(of_labels)).repeat_interleave(torch.tensor(of_labels))
