"""MNIST from its idx files: the official ones where they are, small ones of our own, and damaged ones."""

import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.files import write_all
from tests.helpers.fixtures import official_data
from tests.helpers.progress import Told
from tests.helpers.published import idx, mnist_files
from tests.helpers.server import serve
from vadd.data import MnistData, mnist
from vadd.data.mnist import (
    MD5,
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    binarize,
    fetch_mnist,
    read_idx,
)
from vadd.errors import UserError


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_all(tmp_path / "mnist", mnist_files())


def refusal(directory: Path) -> str:
    with pytest.raises(UserError) as caught:
        MnistData(directory=str(directory)).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_real_files_have_the_published_checksums() -> None:
    place = official_data("mnist")
    assert {name: hashlib.md5((place / name).read_bytes()).hexdigest() for name in MD5} == MD5


@pytest.mark.parametrize(
    ("images", "labels", "total", "ones", "counts"),
    [
        (
            TRAIN_IMAGES,
            TRAIN_LABELS,
            1_567_298_545,
            6_221_431,
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        ),
        (TEST_IMAGES, TEST_LABELS, 264_923_200, 1_052_359, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ],
    ids=["train", "test"],
)
def test_the_real_images_have_the_known_sums(
    images: str, labels: str, total: int, ones: int, counts: list[int]
) -> None:
    """Counted once with numpy from the raw bytes; the mean of the training set, 0.1307, is widely published."""
    place = official_data("mnist")
    pixels = read_idx(place / images, 3)
    raw = np.frombuffer(gzip.decompress((place / images).read_bytes()), np.uint8)[16:]
    assert pixels.shape == (sum(counts), 28, 28)
    assert np.array_equal(pixels.reshape(-1), raw)
    assert int(pixels.sum(dtype=np.int64)) == total
    if images == TRAIN_IMAGES:
        assert total / raw.size / 255 == pytest.approx(0.1307, abs=5e-5)
    assert int((raw > 127).sum()) == ones
    assert np.bincount(read_idx(place / labels, 1)).tolist() == counts


def test_the_real_data_set_is_binary_framed_and_labelled() -> None:
    data = MnistData(directory=str(official_data("mnist"))).load()
    assert (data.name, data.vocab_size, data.shape, data.positions) == ("mnist", 2, (32, 32, 1), 1024)
    assert data.train.shape == (60_000, 1024)
    assert data.test.shape == (10_000, 1024)
    assert data.train.dtype == data.test.dtype == torch.uint8
    assert (int(data.train.sum()), int(data.test.sum())) == (6_221_431, 1_052_359)
    assert int(data.train.max()) == int(data.test.max()) == 1
    assert data.test.double().mean().item() == pytest.approx(0.134229 * (28 / 32) ** 2, abs=1e-6)
    inside = data.train.view(-1, 32, 32)[:, 2:-2, 2:-2]
    assert int(inside.sum()) == 6_221_431  # so that the frame is zero
    assert data.train_labels is not None
    assert data.test_labels is not None
    assert data.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    raw = np.frombuffer(gzip.decompress((official_data("mnist") / TEST_IMAGES).read_bytes())[16:], np.uint8)
    pixels = raw.reshape(10_000, 28, 28)
    for index, row, column in ((0, 7, 7), (0, 14, 14), (17, 20, 9), (9_999, 13, 13)):
        assert data.test.view(-1, 32, 32)[index, row + 2, column + 2] == (pixels[index, row, column] / 255 > 0.5)


def test_small_files_come_back_thresholded_in_their_place(small: Path) -> None:
    data = MnistData(directory=str(small)).load()
    pixels = np.frombuffer(gzip.decompress((small / TRAIN_IMAGES).read_bytes())[16:], np.uint8).reshape(-1, 28, 28)
    expected = np.zeros((5, 32, 32))
    expected[:, 2:30, 2:30] = pixels / 255 > 0.5
    assert np.array_equal(data.train.reshape(5, 32, 32), expected)
    assert data.train_labels is not None
    assert data.train_labels.tolist() == list(gzip.decompress((small / TRAIN_LABELS).read_bytes())[8:])
    assert len(data.test) == 3


def test_the_threshold_lies_between_127_and_128() -> None:
    image: np.ndarray = np.zeros((1, 28, 28), np.uint8)
    image[0, 0, :4] = 0, 127, 128, 255
    assert binarize(image).reshape(32, 32)[2, 2:6].tolist() == [0, 0, 1, 1]


def test_by_default_the_files_are_looked_for_in_the_data_directory(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADD_DATA", str(small.parent))
    assert len(MnistData().load().train) == 5


def test_a_missing_directory_or_file_is_named_with_the_way_to_get_it(small: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    told = refusal(nowhere)
    assert f"MNIST is not in {nowhere}" in told
    assert told.endswith(f"vadd data mnist --dir {nowhere}")
    (small / TEST_LABELS).unlink()
    assert f"{TEST_LABELS} is missing" in refusal(small)


def flipped(content: bytes) -> bytes:
    """One bit wrong in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def unzipped(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: gzip.compress(change(gzip.decompress(content)))


IMAGES_OF_27 = idx(np.zeros((5, 27, 28), np.uint8))
LABEL_10 = idx(np.array([0, 1, 10, 2, 3], np.uint8))


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        (TRAIN_IMAGES, lambda _: b"<html>not found</html>", "not a readable gzip file"),
        (TRAIN_IMAGES, flipped, "not a readable gzip file"),
        (TRAIN_IMAGES, lambda content: content[:-100], "not a readable gzip file"),
        (TRAIN_IMAGES, lambda content: content + b"more", "not a readable gzip file"),
        (TRAIN_IMAGES, lambda _: b"", "starts with the magic number 0"),
        (TRAIN_IMAGES, lambda _: gzip.compress(b"1234567"), "starts with the magic number"),
        (TRAIN_IMAGES, unzipped(lambda content: content[:-1]), "it holds 3919 bytes of data"),
        (TRAIN_IMAGES, unzipped(lambda content: content + b"x"), "it holds 3921 bytes of data"),
        (TRAIN_IMAGES, lambda _: idx(np.zeros((5, 28, 28), np.uint8), 2052), "the magic number 2052, not 2051"),
        (TRAIN_LABELS, lambda _: idx(np.zeros((5, 28, 28), np.uint8)), "the magic number 2051, not 2049"),
        (TRAIN_IMAGES, lambda _: IMAGES_OF_27, "holds images of the shape (5, 27, 28), not (n, 28, 28)"),
        (TEST_IMAGES, lambda _: idx(np.zeros((0, 28, 28), np.uint8)), "holds images of the shape (0, 28, 28)"),
        (TRAIN_LABELS, lambda _: LABEL_10, "holds the label 10, outside 0..9"),
        (TEST_LABELS, lambda _: idx(np.zeros(4, np.uint8)), "holds 3 images, but t10k-labels-idx1-ubyte.gz 4 labels"),
    ],
    ids=[
        "no gzip",
        "one bit",
        "gzip cut",
        "gzip too long",
        "empty",
        "no header",
        "data cut",
        "data too long",
        "wrong magic",
        "images for labels",
        "wrong size",
        "no images",
        "label 10",
        "counts differ",
    ],
)
def test_a_damaged_file_is_named_with_the_reason(
    small: Path, name: str, damage: Callable[[bytes], bytes], told: str
) -> None:
    (small / name).write_bytes(damage((small / name).read_bytes()))
    message = refusal(small)
    assert told in message
    assert str(small / name) in message or (name == TEST_LABELS and name in message)


def test_the_four_files_are_fetched_checked_and_not_fetched_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = mnist_files()
    monkeypatch.setattr(mnist, "MD5", {name: hashlib.md5(content).hexdigest() for name, content in files.items()})
    told = Told()
    with serve({f"mirror/{name}": content for name, content in files.items()}) as url:
        monkeypatch.setattr(mnist, "MIRRORS", [url + "dead/", url + "mirror/"])
        place = fetch_mnist(tmp_path / "new", progress=told)
    assert sorted(file.name for file in place.iterdir()) == sorted(files)
    assert list(dict.fromkeys(what for what, _, _ in told)) == list(files)
    assert len(MnistData(directory=str(place)).load().train) == 5
    monkeypatch.setattr(mnist, "MIRRORS", ["http://127.0.0.1:1/"])
    assert fetch_mnist(place) == place


def test_a_mirror_with_other_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve(mnist_files()) as url:
        monkeypatch.setattr(mnist, "MIRRORS", [url])
        with pytest.raises(UserError, match=re.escape(f"not {MD5[TRAIN_IMAGES]}")):
            fetch_mnist(tmp_path)
    assert list(tmp_path.iterdir()) == []
