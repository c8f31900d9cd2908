"""Arrays from disk: what becomes of a good file, and what a user is told about a bad one."""

import gc
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from vadd.data import ArrayData, examples_from
from vadd.data import array as arrays_on_disk
from vadd.data.array import read_array
from vadd.data.dataset import random_split
from vadd.errors import UserError
from vadd.kinds import arrays
from vadd.recipe.dependence import dependence


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def random_array(*shape: int, values: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, values, shape)


def sorted_rows(rows: np.ndarray) -> list[list[int]]:
    return sorted(rows.tolist())


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16, np.uint32])
def test_a_saved_array_comes_back_flattened_with_its_shape(tmp_path: Path, shape: tuple[int, ...], dtype: type) -> None:
    array: np.ndarray = random_array(20, *shape).astype(dtype)
    data = ArrayData(path=str(saved(tmp_path / "mine.npy", array))).load()
    assert (data.name, data.vocab_size, data.shape) == ("mine", int(array.max()) + 1, shape)
    assert data.positions == np.prod(shape)
    assert data.train.dtype == data.test.dtype == torch.int64
    assert sorted_rows(torch.cat([data.train, data.test]).numpy()) == sorted_rows(array.reshape(20, -1))
    assert data.distribution is None


@given(count=st.integers(2, 60), fraction=st.floats(0.001, 0.9), seed=st.integers(0, 1000))
@properties
def test_the_split_holds_out_the_fraction_but_at_least_one(
    tmp_path_factory: pytest.TempPathFactory, count: int, fraction: float, seed: int
) -> None:
    array = np.arange(2 * count).reshape(count, 2)
    path = saved(tmp_path_factory.getbasetemp() / "rows.npy", array)
    data = ArrayData(path=str(path), test_fraction=fraction).load(seed=seed)
    assert len(data.test) == max(1, int(fraction * count))
    assert sorted_rows(torch.cat([data.train, data.test]).numpy()) == array.tolist()


def test_all_examples_of_a_file_come_flattened_in_order(tmp_path: Path) -> None:
    array = random_array(5, 2, 3).astype(np.uint8)
    examples = examples_from(saved(tmp_path / "a.npy", array))
    assert examples.dtype == torch.int64
    assert examples.tolist() == array.reshape(5, 6).tolist()


def test_the_seed_decides_the_split(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.arange(100).reshape(50, 2))
    first, again, other = (ArrayData(path=str(path), test_fraction=0.3).load(seed=seed) for seed in (1, 1, 2))
    assert first.train.equal(again.train)
    assert first.test.equal(again.test)
    assert not first.test.equal(other.test)


@pytest.mark.parametrize(
    ("array", "values", "expected"),
    [
        (np.array([[0, 4], [1, 2]]), None, 5),
        (np.array([[0, 4], [1, 2]]), 5, 5),
        (np.array([[0, 4], [1, 2]]), 256, 256),
        (np.array([[True, False], [False, True]]), None, 2),
        (np.zeros((3, 2), dtype=np.uint8), None, 2),
        (np.full((3, 2), 255, dtype=np.uint8), None, 256),
    ],
    ids=[
        "inferred",
        "given and tight",
        "given and loose",
        "booleans",
        "constant zero is still binary",
        "no overflow in uint8",
    ],
)
def test_the_number_of_values_is_given_or_one_more_than_the_largest(
    tmp_path: Path, array: np.ndarray, values: int | None, expected: int
) -> None:
    back, known = read_array(saved(tmp_path / "a.npy", array), values)
    assert known == expected
    assert np.array_equal(back, array)


@pytest.mark.parametrize(
    ("array", "values", "told"),
    [
        (np.array([[0.5, 1.0], [1.0, 2.0]]), None, "float64 values; integers are needed"),
        (np.array([["a", "b"], ["c", "d"]]), None, "integers are needed"),
        (np.array([1, 2, 3]), None, "shape (3,); needed is (examples, positions)"),
        (np.array(3), None, "shape (); needed is"),
        (np.zeros((0, 4), dtype=int), None, "shape (0, 4)"),
        (np.zeros((4, 0), dtype=int), None, "shape (4, 0)"),
        (np.array([[0, -2], [1, 1]]), None, "the value -2, outside 0..1"),
        (np.array([[0, 9], [1, 1]]), 4, "the value 9, outside 0..3"),
        (np.array([[0, 1]]), None, "holds 1 example; at least 2"),
    ],
    ids=[
        "floats",
        "text",
        "one axis",
        "no axis",
        "no examples",
        "no positions",
        "negative",
        "too large",
        "one example",
    ],
)
def test_an_array_that_cannot_be_learnt_from_is_refused_with_the_reason(
    tmp_path: Path, array: np.ndarray, values: int | None, told: str
) -> None:
    path = saved(tmp_path / "bad.npy", array)
    with pytest.raises(UserError, match=re.escape(told)) as caught:
        ArrayData(path=str(path), vocab_size=values).load()
    assert str(path) in str(caught.value)


def write_pickle(path: Path) -> None:
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


def write_half(path: Path) -> None:
    np.save(path, random_array(10, 10))
    path.write_bytes(path.read_bytes()[:300])


def write_several(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, a=random_array(3, 2), b=random_array(3, 2))


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        ArrayData(path=str(path)).load()
    return str(caught.value)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.write_text("1,2\n3,4\n"), "not a readable .npy file"),
        (lambda path: path.write_bytes(b""), "not a readable .npy file"),
        (lambda path: path.write_bytes(b"PK\x03\x04 half an archive"), "not a readable .npy file"),
        (lambda path: path.mkdir(), "not a readable .npy file"),
        (write_half, "not a readable .npy file"),
        (write_pickle, "not a readable .npy file"),
        (write_several, "holds several arrays"),
    ],
    ids=["missing", "text", "empty", "broken archive", "directory", "cut short", "pickled objects", "npz"],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, write: Callable[[Path], object], told: str
) -> None:
    path = tmp_path / "file.npy"
    write(path)
    message = refusal(path)
    assert told in message
    assert str(path) in message
    assert "\n" not in message
    gc.collect()  # a file left open would otherwise be noticed during some later test


class PeakHeap(threading.Thread):
    """Samples how much memory of this process is not pages of mapped files; Linux counts those in RSS as well."""

    def __enter__(self) -> "PeakHeap":
        self.done, self.peak, self.before = threading.Event(), 0, self.now()
        self.start()
        return self

    def run(self) -> None:
        while not self.done.wait(0.002):
            self.peak = max(self.peak, self.now())

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.join()

    @staticmethod
    def now(kind: str = "RssAnon") -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split(f"{kind}:")[1].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_large_array_is_mapped_and_not_read(tmp_path: Path) -> None:
    path, rows = tmp_path / "large.npy", 150_000
    sparse = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, 1000))
    sparse[7] = 3
    del sparse
    with PeakHeap() as heap:
        data = ArrayData(path=str(path)).load(seed=1)
        fingerprint = data.fingerprint()
        batches = [data.train[torch.randint(len(data.train), (64,))].to(torch.int64) for _ in range(20)]
        test = data.test[:100].long()
    assert (data.vocab_size, data.train.shape, data.test.shape) == (4, (135_000, 1000), (15_000, 1000))
    assert batches[0].shape == (64, 1000)
    assert test.shape == (100, 1000)
    assert len(fingerprint) == 64
    # The hash reads 33 million of the values, some at a time; all of them would be 150 MB, and 1.2 GB as int64.
    assert heap.peak - heap.before < 90e6


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_the_order_of_many_examples_takes_four_bytes_for_each() -> None:
    count = 10_000_000
    with PeakHeap() as heap:
        train, test = random_split(count, 0.1, 0, "codes.npy")
    assert heap.peak - heap.before < 70e6
    assert np.array_equal(np.concatenate([train, test])[:5], np.random.default_rng(0).permutation(count)[:5])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_rows_that_were_read_do_not_stay_in_memory(tmp_path: Path) -> None:
    path = saved(tmp_path / "large.npy", np.zeros((150_000, 1000), np.uint8))
    array, before = arrays.read_integers(path), PeakHeap.now("RssFile")
    dependence(array)
    train = ArrayData(path=str(path)).load(seed=1).train
    for first in range(0, 1000, 50):
        train[torch.arange(first, first + 50)]
    # 5,000 rows in random places: with the pages around them most of the file's 150 MB.
    assert PeakHeap.now("RssFile") - before < 50e6


def test_a_mapped_array_is_what_an_array_in_memory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = random_array(200, 6).astype(">i4")
    path = saved(tmp_path / "a.npy", array)
    usual = ArrayData(path=str(path)).load(seed=3)
    monkeypatch.setattr(arrays, "LARGE", 100)
    monkeypatch.setattr(arrays_on_disk, "LARGE", 100)
    mapped = ArrayData(path=str(path)).load(seed=3)
    assert type(mapped.train) is not torch.Tensor
    assert mapped.fingerprint() == usual.fingerprint()
    some = torch.tensor([5, 3, 150])
    assert mapped.train[some].long().equal(usual.train[some])
    assert mapped.train[20:40].long().equal(usual.train[20:40])
    assert mapped.train[usual.train[:, 0] == 1].long().equal(usual.train[usual.train[:, 0] == 1])
    assert np.array_equal(mapped.test.numpy(), usual.test.numpy())
    assert torch.cat([mapped.test, mapped.test]).long().equal(torch.cat([usual.test, usual.test]))
    assert mapped.kind == usual.kind


def test_a_scan_that_takes_seconds_reports_and_can_be_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("vadd.kinds.arrays.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(arrays, "SCANNED", 800)
    array = np.arange(1000).reshape(100, 10)
    assert arrays.extremes(array, "a.npy") == (0, 999)
    assert "reading a.npy: 10%" in capsys.readouterr().err
