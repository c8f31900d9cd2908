"""A small convolutional classifier whose last hidden layer gives features of images too simple for Inception.

It is trained here, in a few epochs, and kept in a cache directory as two files of one name: ``.safetensors`` with the
weights and ``.json`` with the accuracy and the checksums. Numbers taken with two different classifiers cannot be
compared, so the name carries a fingerprint of everything that determined it.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from vadd.core.randomness import ShuffledBatches
from vadd.data.dataset import DiscreteDataset
from vadd.files import whole_file
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
    cached = cache / f"classifier-{'x'.join(map(str, data.shape))}-{fingerprint[:12]}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ConvolutionalClassifier(data.shape, data.vocab_size, classes)
    accuracy = read_cache(cached, network, fingerprint)
    if accuracy is None:
        train_classifier(network, data.train, labels, seed, progress)
        features = ClassifierFeatures(network, 0.0)
        accuracy = float((features.classes(data.test) == test_labels).sum()) / len(test_labels)
        facts = {**settings, "accuracy": accuracy, "test_examples": len(test_labels), "data_sha256": checksum}
        write_cache(cached, network, {**facts, "fingerprint": fingerprint})
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


def read_cache(path: Path, network: nn.Module, fingerprint: str) -> float | None:
    """Fill the network and return its accuracy; None if nothing is there, or something damaged or made otherwise."""
    try:
        facts = json.loads(path.with_suffix(".json").read_text())
        weights = path.with_suffix(".safetensors").read_bytes()
        if facts["fingerprint"] != fingerprint or facts["weights_sha256"] != hashlib.sha256(weights).hexdigest():
            return None
        accuracy = float(facts["accuracy"])
        network.load_state_dict(load(weights))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError):
        return None
    return accuracy


def write_cache(path: Path, network: nn.Module, facts: dict[str, Any]) -> None:
    """The file with the checksum of the other comes last."""
    weights = save({name: tensor.contiguous() for name, tensor in network.state_dict().items()})
    description = json.dumps({**facts, "weights_sha256": hashlib.sha256(weights).hexdigest()}, indent=2)
    for suffix, content in ((".safetensors", weights), (".json", description.encode())):
        with whole_file(path.with_suffix(suffix)) as file:
            file.write(content)


def data_checksum(*tensors: Tensor) -> str:
    """A checksum of the integers and their shapes, whatever type holds them."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        for part in torch.split(tensor.cpu(), READ_BATCH):
            digest.update(part.numpy().astype("<i4").tobytes())
    return digest.hexdigest()
