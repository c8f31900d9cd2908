"""The small classifier: good enough to judge by, the same every time, and a cache that is believed only when whole."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.fixtures import official_data
from vadd.data import DiscreteDataset
from vadd.evaluation import classifier, evaluators
from vadd.evaluation.cache import data_checksum
from vadd.evaluation.classifier import ClassifierFeatures, ConvolutionalClassifier, classifier_features
from vadd.evaluation.evaluators import Reference
from vadd.evaluation.frechet import FeatureStatistics, coverage, feature_statistics, frechet_distance

SHAPE, VALUES = (4, 4, 1), 3
Split = tuple[Tensor, Tensor, Tensor, Tensor]


def stripes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """4x4 images of three values with one bright row or column, 8 classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 8, count)
    images = rng.integers(0, 2, (count, 4, 4))
    for image, label in zip(images, labels, strict=True):
        (image if label < 4 else image.T)[label % 4] = 2
    return torch.from_numpy(images.reshape(count, 16)), torch.from_numpy(labels)


@pytest.fixture(autouse=True)
def _short_training(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the package's own budget where the data are real."""
    monkeypatch.setattr(classifier, "EXAMPLES_SEEN", 40_000 if "real" in request.node.name else 2000)


@pytest.fixture(scope="module")
def data() -> Split:
    return (*stripes(300, 0), *stripes(100, 1))


def dataset(data: Split, shape: tuple[int, ...] = SHAPE, values: int = VALUES) -> DiscreteDataset:
    train, labels, test, test_labels = data
    return DiscreteDataset("images", values, shape, train, test, train_labels=labels, test_labels=test_labels)


def trained(data: Split, cache: Path, seed: int = 0) -> ClassifierFeatures:
    return classifier_features(dataset(data), cache, seed=seed)


def refuse_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(classifier, "train_classifier", refuse)


def test_features_are_the_last_hidden_layer_and_lead_to_the_logits(data: Split, tmp_path: Path) -> None:
    found = trained(data, tmp_path)
    features = found(data[2])
    assert features.shape == (100, 64)
    assert not features.requires_grad
    assert (features >= 0).all()
    predicted = found.network.head(features).argmax(dim=1)
    assert found.accuracy == (predicted == data[3]).double().mean()
    assert found.accuracy > 0.8


def test_one_image_has_the_features_it_has_among_others(data: Split, tmp_path: Path) -> None:
    found = trained(data, tmp_path)
    assert_close(found(data[2][:1]), found(data[2])[:1])


def test_training_is_a_function_of_the_seed(data: Split, tmp_path: Path) -> None:
    state = torch.get_rng_state()
    first, second, other = (
        trained(data, tmp_path / name, seed)(data[2]) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first.equal(second)
    assert not first.equal(other)
    assert torch.get_rng_state().equal(state)


def test_the_cache_spares_the_training(data: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained(data, tmp_path / "deep" / "cache")
    refuse_training(monkeypatch)
    second = trained(data, tmp_path / "deep" / "cache")
    assert second.accuracy == first.accuracy
    assert second(data[2]).equal(first(data[2]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_the_checksum_is_of_the_numbers_not_of_their_type(data: Split, dtype: torch.dtype) -> None:
    assert data_checksum(*data) == data_checksum(*(part.to(dtype) for part in data))
    assert data_checksum(*data) != data_checksum(data[0].flip(0), *data[1:])
    assert data_checksum(data[0]) != data_checksum(data[0].view(-1, 8))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-10],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[:40],
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: b"",
        None,
    ],
)
def test_a_damaged_cache_is_made_again(data: Split, tmp_path: Path, damage: Callable[[bytes], bytes] | None) -> None:
    before = trained(data, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.unlink() if damage is None else file.write_bytes(damage(whole))
    again = trained(data, tmp_path)
    assert again(data[2]).equal(before(data[2]))
    assert again.accuracy == before.accuracy
    assert file.read_bytes() == whole


def test_other_data_get_another_classifier(data: Split, tmp_path: Path) -> None:
    trained(data, tmp_path)
    train, labels, test, test_labels = data
    changed = train.clone()
    changed[0, 0] = 2 - changed[0, 0]
    trained((changed, labels, test, test_labels), tmp_path)
    trained((train, labels, test[:50], test_labels[:50]), tmp_path)
    trained(data, tmp_path, seed=1)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_cache_that_cannot_be_written_is_told_and_nothing_is_lost(
    data: Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert trained(data, tmp_path / "file" / "cache").accuracy == trained(data, tmp_path / "cache").accuracy
    assert capsys.readouterr().err.count("cannot write") == 1


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 1), (32, 32, 3), (5, 9, 3)])
def test_any_image_shape_fits(shape: tuple[int, ...]) -> None:
    network = ConvolutionalClassifier(shape, 256, 10).eval()
    tokens = torch.randint(0, 256, (2, int(np.prod(shape))))
    assert network(tokens).shape == (2, 10)


def test_the_layout_is_channel_last() -> None:
    """Pixels of a channel-last image: the network sees the channel it was told."""
    network = ConvolutionalClassifier((4, 4, 3), 2, 10).eval()
    convolution = network.trunk[0]
    assert isinstance(convolution, torch.nn.Conv2d)
    with torch.no_grad():
        convolution.weight[:, 1:] = 0
    tokens = torch.zeros(1, 4, 4, 3, dtype=torch.int64)
    others, first = tokens.clone(), tokens.clone()
    others[..., 1:] = 1
    first[..., 0] = 1
    reference, ignored, seen = (network.features(x.view(1, -1)) for x in (tokens, others, first))
    assert ignored.equal(reference)
    assert not seen.equal(reference)


def test_real_digits_are_told_apart_and_noise_raises_the_distance(tmp_path: Path) -> None:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    tokens = torch.from_numpy(digits.data[order].astype(np.int64))
    labels = torch.from_numpy(digits.target[order])
    split = tokens[:-360], labels[:-360], tokens[-360:], labels[-360:]
    found = classifier_features(dataset(split, (8, 8, 1), 17), tmp_path)
    assert found.accuracy >= 0.95
    train, test = feature_statistics(found, tokens[:-360]), feature_statistics(found, tokens[-360:])
    distances = [frechet_distance(train, test)]
    hidden = torch.rand(360, 64, generator=torch.Generator().manual_seed(0))
    values = torch.randint(0, 17, (360, 64), generator=torch.Generator().manual_seed(1))
    for share in (0.1, 0.3, 1.0):
        noisy = torch.where(hidden < share, values, tokens[-360:])
        distances.append(frechet_distance(train, feature_statistics(found, noisy)))
    print("digits: accuracy", found.accuracy, "Frechet distances, floor and noise 0.1 0.3 1", distances)
    assert distances == sorted(distances)
    assert distances[1] > 1.5 * distances[0]


def test_real_mnist_is_told_apart(tmp_path: Path) -> None:
    place = official_data("mnist")

    def read(name: str, offset: int) -> Tensor:
        content = gzip.decompress((place / f"{name}-ubyte.gz").read_bytes())
        return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=offset)

    def tokens(name: str) -> Tensor:
        images = read(f"{name}-images-idx3", 16).view(-1, 28, 28)
        return torch.nn.functional.pad((images > 127).to(torch.uint8), (2, 2, 2, 2)).flatten(1)

    train, test = tokens("train"), tokens("t10k")
    labels, test_labels = (read(f"{name}-labels-idx1", 8) for name in ("train", "t10k"))
    found = classifier_features(dataset((train, labels, test, test_labels), (32, 32, 1), 2), tmp_path)
    floor = frechet_distance(feature_statistics(found, train[:10_000]), feature_statistics(found, test))
    print("MNIST: accuracy", found.accuracy, "Frechet distance of 10,000 training images and the test set", floor)
    assert found.accuracy >= 0.98


class PixelFeatures:
    """Of a few binary pixels the pixels themselves."""

    accuracy = 1.0

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.float()


def test_samples_and_floor_have_equal_numbers_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of the data's own distribution score the floor, though there are 20 times as many of them as test
    images: 30 of them at once, as many as there are, and not all at once, which scores less.
    """
    monkeypatch.setattr(evaluators, "classifier_features", lambda *_, **__: PixelFeatures())
    rng = np.random.default_rng(1)

    def images(count: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(0, 2, (count, 16)))

    data = DiscreteDataset(
        name="pixels",
        train=images(3000),
        test=images(30),
        vocab_size=2,
        shape=(4, 4, 1),
        train_labels=torch.zeros(3000, dtype=torch.int64),
        test_labels=torch.zeros(30, dtype=torch.int64),
    )
    evaluator = evaluators.FrechetEvaluator(Reference(data, 600))
    drawn = images(600)
    found = evaluator(drawn.numpy(), 1)
    together = frechet_distance(evaluator.truth, FeatureStatistics.of(drawn.float()))
    assert found.frechet_count == 30
    shares = coverage(evaluator.truth, FeatureStatistics.of(data.test.float()))
    assert (found.precision_floor, found.recall_floor) == (shares["precision"], shares["recall"])
    assert found.precision is not None
    assert found.recall is not None
    assert min(found.precision, found.recall) > 0
    assert abs(found.frechet / found.frechet_floor - 1) < 0.25
    assert together < 0.2 * found.frechet_floor
    few = evaluators.FrechetEvaluator(Reference(data, 10))
    assert few(drawn[:10].numpy(), 1).frechet_count == 10
    assert few.floor > 1.5 * evaluator.floor
