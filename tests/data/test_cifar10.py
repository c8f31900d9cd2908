"""CIFAR-10 from its binary files: the real ones where they are, small ones of our own, and damaged ones."""

import gzip
import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.helpers.exact import properties
from tests.helpers.files import write_all
from tests.helpers.fixtures import official_data
from tests.helpers.pictures import photographs
from tests.helpers.progress import Told
from tests.helpers.published import cifar10_batches, cifar10_records, in_folder, tar_of
from tests.helpers.server import serve
from vadd.data import Cifar10Data, cifar10
from vadd.data.cifar10 import (
    ARCHIVE,
    FOLDER,
    RECORD,
    TEST_BATCH,
    TRAIN_BATCHES,
    count_cifar10,
    fetch_cifar10,
    read_batch,
    unpack_batches,
)
from vadd.errors import UserError


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_all(tmp_path / "cifar10", cifar10_batches())


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four images make a complete batch."""
    monkeypatch.setattr(cifar10, "BATCH_IMAGES", 4)
    monkeypatch.setattr(cifar10, "MIRRORS", ["http://127.0.0.1:1/"])
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def refusal(directory: Path) -> str:
    with pytest.raises(UserError) as caught:
        Cifar10Data(directory=str(directory)).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_below(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*") if not file.is_dir())


def test_the_real_part_has_4000_and_1000_images_in_the_right_order() -> None:
    place = official_data("cifar10")
    data = Cifar10Data(directory=str(place)).load()
    assert (data.name, data.vocab_size, data.shape, data.positions) == ("cifar10", 256, (32, 32, 3), 3072)
    assert data.train.shape == (4000, 3072)
    assert data.test.shape == (1000, 3072)
    assert data.train.dtype == data.test.dtype == torch.uint8
    assert count_cifar10(place) == (4000, 1000)
    assert data.train_labels is not None
    assert data.test_labels is not None
    assert torch.bincount(data.train_labels).tolist() == [396, 366, 420, 384, 422, 393, 414, 385, 407, 413]
    assert torch.bincount(data.test_labels).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    # The first training image is the frog whose first pixel is 59, 62, 63; the first test image is a cat.
    assert (int(data.train_labels[0]), data.train[0, :3].tolist()) == (6, [59, 62, 63])
    assert (int(data.test_labels[0]), data.test[0, :3].tolist()) == (3, [158, 112, 49])
    raw = np.fromfile(place / "data_batch_1.bin", np.uint8).reshape(-1, RECORD)
    for channel in range(3):
        plane = raw[:, 1 + 1024 * channel : 1 + 1024 * (channel + 1)]
        assert np.array_equal(data.train[:, channel::3].numpy(), plane)
    means = data.train.view(-1, 3).double().mean(0)
    assert means.tolist() == pytest.approx([125.357155, 122.848616, 113.387459], abs=1e-5)


def test_photographs_in_the_binary_layout_come_back(tmp_path: Path) -> None:
    """Written plane after plane, as the official files are, and read pixel after pixel."""
    pictures = photographs(120)
    planes = pictures.transpose(0, 3, 1, 2).reshape(120, -1)
    made = np.concatenate([np.arange(120, dtype=np.uint8)[:, None] % 10, planes], axis=1)
    write_all(tmp_path, {TRAIN_BATCHES[0]: made[:100].tobytes(), TEST_BATCH: made[100:].tobytes()})
    data = Cifar10Data(directory=str(tmp_path)).load()
    assert np.array_equal(data.train.view(-1, 32, 32, 3), pictures[:100])
    assert np.array_equal(data.test.view(-1, 32, 32, 3), pictures[100:])


@given(count=st.integers(1, 5), seed=st.integers(0, 1000))
@properties
def test_images_go_back_to_the_binary_layout(tmp_path_factory: pytest.TempPathFactory, count: int, seed: int) -> None:
    made = cifar10_records(count, seed)
    path = tmp_path_factory.getbasetemp() / "batch.bin"
    path.write_bytes(made.tobytes())
    images, labels = read_batch(path)
    back = images.reshape(count, 32, 32, 3).transpose(0, 3, 1, 2).reshape(count, -1)
    assert np.array_equal(np.concatenate([labels[:, None], back], axis=1), made)
    row, column, channel = seed % 32, seed * 7 % 32, seed % 3
    assert images[0, (row * 32 + column) * 3 + channel] == made[0, 1 + channel * 1024 + row * 32 + column]


@pytest.mark.parametrize("levels", [2, 3, 8, 100, 256])
def test_levels_cut_every_channel_evenly(small: Path, levels: int) -> None:
    whole, cut = Cifar10Data(directory=str(small)).load(), Cifar10Data(directory=str(small), levels=levels).load()
    assert cut.vocab_size == levels
    assert cut.train.dtype == torch.uint8
    assert cut.train.equal((whole.train.int() * levels // 256).to(torch.uint8))


@pytest.mark.parametrize("levels", [-5, 0, 1, 257])
def test_impossible_levels_are_refused(levels: int) -> None:
    with pytest.raises(ValidationError, match="levels"):
        Cifar10Data(levels=levels)


def test_batches_come_in_order_from_the_directory_or_the_one_of_the_archive(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = Cifar10Data(directory=str(small)).load()
    write_all(tmp_path / "nested" / FOLDER, cifar10_batches())
    assert flat.train.equal(Cifar10Data(directory=str(tmp_path / "nested")).load().train)
    monkeypatch.setenv("VADD_DATA", str(small.parent))
    assert flat.train.equal(Cifar10Data().load().train)
    assert flat.train_labels is not None
    assert flat.train_labels.tolist() == [int(label) for seed in range(5) for label in cifar10_records(4, seed)[:, 0]]
    assert (len(flat.train), len(flat.test)) == (20, 4)


def test_what_is_there_is_used(tmp_path: Path) -> None:
    sizes = {TRAIN_BATCHES[3]: 2, TRAIN_BATCHES[1]: 3, TEST_BATCH: 1}
    place = write_all(tmp_path, {name: cifar10_records(size, size).tobytes() for name, size in sizes.items()})
    data = Cifar10Data(directory=str(place)).load()
    assert count_cifar10(place) == (len(data.train), len(data.test)) == (5, 1)
    assert data.train_labels is not None
    assert data.train_labels.tolist() == [*cifar10_records(3, 3)[:, 0], *cifar10_records(2, 2)[:, 0]]


def test_missing_files_are_named_with_the_way_to_get_them(small: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert count_cifar10(nowhere) == (0, 0)
    told = refusal(nowhere)
    assert f"CIFAR-10 is not in {nowhere}: data_batch_1.bin is missing" in told
    assert told.endswith(f"vadd data cifar10 --dir {nowhere}")
    (small / TEST_BATCH).unlink()
    assert "test_batch.bin is missing" in refusal(small)


def labelled(label: int) -> bytes:
    made = cifar10_records(3)
    made[1, 0] = label
    return made.tobytes()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "0 bytes are not records of 3073"),
        (cifar10_records(2).tobytes()[:-1], "6145 bytes are not records of 3073"),
        (cifar10_records(2)[:, 1:].tobytes(), "6144 bytes are not records of 3073"),
        (labelled(10), "holds the label 10, outside 0..9"),
    ],
    ids=["empty", "cut short", "no labels", "label 10"],
)
@pytest.mark.parametrize("name", [TRAIN_BATCHES[2], TEST_BATCH])
def test_a_damaged_file_is_named_with_the_reason(small: Path, name: str, content: bytes, told: str) -> None:
    (small / name).write_bytes(content)
    message = refusal(small)
    assert told in message
    assert str(small / name) in message


def fetched(place: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fetch from a server that has this archive; what was told."""
    told = Told()
    monkeypatch.setattr(cifar10, "MD5", hashlib.md5(archive).hexdigest())
    with serve({ARCHIVE: archive}) as url, monkeypatch.context() as reachable:
        reachable.setattr(cifar10, "MIRRORS", [url])
        assert fetch_cifar10(place, progress=told) == place
    return [what for what, _, _ in told]


@pytest.mark.usefixtures("few")
def test_the_archive_is_fetched_unpacked_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = cifar10_batches()
    extras = {"readme.html": b"hello", "batches.meta.txt": b"airplane"}
    assert set(fetched(tmp_path, tar_of(in_folder({**extras, **files})), monkeypatch)) == {ARCHIVE}
    assert files_below(tmp_path) == sorted(in_folder(files))
    assert all((tmp_path / name).read_bytes() == content for name, content in in_folder(files).items())
    assert len(Cifar10Data(directory=str(tmp_path)).load().train) == 20
    assert fetch_cifar10(tmp_path) == tmp_path


@pytest.mark.usefixtures("few")
def test_a_part_is_completed_and_the_complete_set_is_then_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(tmp_path, {TRAIN_BATCHES[0]: cifar10_records(2).tobytes(), TEST_BATCH: cifar10_records(1).tobytes()})
    fetched(tmp_path, tar_of(in_folder(cifar10_batches())), monkeypatch)
    assert count_cifar10(tmp_path) == (20, 4)
    assert (tmp_path / TEST_BATCH).read_bytes() == cifar10_records(1).tobytes()


@pytest.mark.usefixtures("few")
def test_an_archive_the_user_put_there_is_used_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar_of(in_folder(cifar10_batches()))
    (tmp_path / ARCHIVE).write_bytes(archive)
    monkeypatch.setattr(cifar10, "MD5", hashlib.md5(archive).hexdigest())
    fetch_cifar10(tmp_path)
    assert (tmp_path / ARCHIVE).read_bytes() == archive
    assert count_cifar10(tmp_path) == (20, 4)


@pytest.mark.usefixtures("few")
def test_another_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({ARCHIVE: tar_of(in_folder(cifar10_batches()))}) as url:
        monkeypatch.setattr(cifar10, "MIRRORS", [url])
        with pytest.raises(UserError, match=f"not {cifar10.MD5}"):
            fetch_cifar10(tmp_path)
    assert files_below(tmp_path) == []


@pytest.mark.usefixtures("few")
def test_nothing_is_written_outside_whatever_the_archive_holds(tmp_path: Path) -> None:
    evil = {
        "../evil": b"x",
        f"{FOLDER}/../../evil": b"x",
        str(tmp_path / "evil"): b"x",
        f"../{TEST_BATCH}": b"x",
        f"/{FOLDER}/{TEST_BATCH}": b"x",
    }
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tar_of({**evil, **in_folder(cifar10_batches())}))
    unpack_batches(archive, tmp_path / "deep" / "down")
    assert files_below(tmp_path) == sorted(["a.tar.gz", *(f"deep/down/{name}" for name in cifar10_batches())])
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.usefixtures("few")
def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(cifar10_records(4).tobytes())
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo(f"{FOLDER}/{TEST_BATCH}")
        member.type, member.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        tar.addfile(member)
    with pytest.raises(UserError, match=f"it has no {FOLDER}/data_batch_1.bin"):
        unpack_batches(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: b"<html>", "not a readable archive"),
        (lambda: tar_of(in_folder(cifar10_batches()))[:20_000], "not a readable archive"),
        (
            lambda: gzip.compress(gzip.decompress(tar_of(in_folder(cifar10_batches())))[:20_000]),
            "not a readable archive",
        ),
        (lambda: tar_of({"other/file": b"x"}), "it has no cifar-10-batches-bin/data_batch_1.bin"),
        (lambda: tar_of(in_folder(cifar10_batches(3))), "data_batch_1.bin has 9219 bytes"),
    ],
    ids=["no archive", "gzip cut", "tar cut", "another archive", "batches of another size"],
)
def test_an_archive_that_cannot_be_unpacked_is_named_with_the_reason(
    tmp_path: Path, make: Callable[[], bytes], told: str
) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(make())
    with pytest.raises(UserError) as caught:
        unpack_batches(archive, tmp_path / "out")
    assert str(caught.value).startswith(f"{archive} is not ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all((tmp_path / name).stat().st_size == 4 * RECORD for name in files_below(tmp_path) if "out/" in name)
