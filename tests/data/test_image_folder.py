"""A folder of images as a data set."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.helpers.exact import properties
from tests.helpers.pictures import photographs
from vadd.data import FolderData
from vadd.data.image_folder import SUFFIXES, image_files, read_image
from vadd.errors import UserError

Image = pytest.importorskip("PIL.Image", reason="Pillow, the extra `images`, is not installed")


def saved(path: Path, pixels: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def random_pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def folder_of(path: Path, count: int, *shape: int) -> np.ndarray:
    """``count`` .png files 00.png, 01.png, ... and their pixels."""
    pixels = random_pixels(count, *shape)
    for number, image in enumerate(pixels):
        saved(path / f"{number:02}.png", image)
    return pixels


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        FolderData(path=str(folder), **options).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("channels", "shape"), [(3, (8, 8, 3)), (1, (8, 8))], ids=["colour", "grey"])
def test_images_of_the_right_size_come_back_exactly(tmp_path: Path, channels: int, shape: tuple[int, ...]) -> None:
    pixels = folder_of(tmp_path / "mine", 20, *shape)
    data = FolderData(path=str(tmp_path / "mine"), size=8, channels=channels).load()
    assert (data.name, data.vocab_size, data.shape) == ("mine", 256, (8, 8, channels))
    assert (len(data.train), len(data.test)) == (18, 2)
    assert data.train.dtype == data.test.dtype == torch.uint8
    assert sorted(torch.cat([data.train, data.test]).tolist()) == sorted(pixels.reshape(20, -1).tolist())
    assert data.train_labels is None


def test_photographs_make_the_round_trip_through_png(tmp_path: Path) -> None:
    images = photographs(12)
    for number, image in enumerate(images):
        saved(tmp_path / f"{number}.png", image)
    data = FolderData(path=str(tmp_path)).load()
    assert data.shape == (32, 32, 3)
    assert sorted(torch.cat([data.train, data.test]).tolist()) == sorted(images.reshape(12, -1).tolist())


def test_the_seed_decides_the_split(tmp_path: Path) -> None:
    folder_of(tmp_path, 20, 4, 4)
    first, again, other = (FolderData(path=str(tmp_path), size=4, channels=1).load(seed=seed) for seed in (1, 1, 2))
    assert first.train.equal(again.train)
    assert first.test.equal(again.test)
    assert not first.test.equal(other.test)


@given(count=st.integers(2, 12), fraction=st.floats(0.001, 0.9), levels=st.integers(2, 256))
@properties
def test_the_split_and_the_levels_keep_their_bounds(
    tmp_path_factory: pytest.TempPathFactory, count: int, fraction: float, levels: int
) -> None:
    folder = tmp_path_factory.mktemp("images")
    pixels = folder_of(folder, count, 3, 3)
    data = FolderData(path=str(folder), size=3, channels=1, levels=levels, test_fraction=fraction).load()
    assert data.vocab_size == levels
    assert len(data.test) == max(1, int(fraction * count))
    images = torch.cat([data.train, data.test])
    assert int(images.max()) < levels
    expected = pixels.reshape(count, -1).astype(int) * levels // 256
    assert sorted(images.tolist()) == sorted(expected.tolist())


def test_subfolders_count_and_other_and_hidden_files_do_not(tmp_path: Path) -> None:
    seen = [saved(tmp_path / name, random_pixels(4, 4, 3)) for name in ("a.png", "b/c.JPG", "b/d/e.bmp", "f.webp")]
    for name in (".hidden.png", "._a.png", ".cache/x.png"):
        saved(tmp_path / name, random_pixels(4, 4, 3))
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "folder.png").mkdir()
    assert image_files(tmp_path) == seen


@pytest.mark.parametrize("suffix", sorted(SUFFIXES - {".pgm"}))
def test_every_suffix_is_readable(tmp_path: Path, suffix: str) -> None:
    image = read_image(saved(tmp_path / f"a{suffix}", np.full((5, 5, 3), 200, np.uint8)), 4, 3)
    assert image.shape == (4, 4, 3)
    assert np.abs(image.astype(int) - 200).max() <= 3


def test_another_shape_is_cut_to_its_middle_and_resized(tmp_path: Path) -> None:
    wide: np.ndarray = np.zeros((10, 30, 3), np.uint8)
    wide[:, :10], wide[:, 10:20], wide[:, 20:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    assert np.array_equal(
        read_image(saved(tmp_path / "wide.png", wide), 10, 3), np.broadcast_to([0, 255, 0], (10, 10, 3))
    )
    tall = wide.transpose(1, 0, 2)
    assert np.array_equal(read_image(saved(tmp_path / "tall.png", tall), 10, 3), wide[:, 10:20])
    flat = np.full((64, 64), 90, np.uint8)
    assert np.array_equal(read_image(saved(tmp_path / "big.png", flat), 8, 1), np.full((8, 8, 1), 90))


def test_grey_and_colour_turn_into_each_other(tmp_path: Path) -> None:
    grey = random_pixels(6, 6)
    assert np.array_equal(read_image(saved(tmp_path / "grey.png", grey), 6, 3), np.repeat(grey[..., None], 3, axis=2))
    colour = random_pixels(6, 6, 3)
    weights = np.array([0.299, 0.587, 0.114])  # ITU-R 601
    expected = colour @ weights
    assert np.abs(read_image(saved(tmp_path / "colour.png", colour), 6, 1)[..., 0] - expected).max() <= 1


def test_what_is_transparent_shows_white(tmp_path: Path) -> None:
    pixels: np.ndarray = np.zeros((4, 4, 4), np.uint8)
    pixels[0, 0] = (10, 20, 30, 255)
    expected: np.ndarray = np.full((4, 4, 3), 255)
    expected[0, 0] = (10, 20, 30)
    assert np.array_equal(read_image(saved(tmp_path / "a.png", pixels), 4, 3), expected)
    palette = Image.fromarray(pixels[..., :3]).quantize(4)
    palette.save(tmp_path / "p.png", transparency=bytes([0, 0, 0, 0]))
    assert np.array_equal(read_image(tmp_path / "p.png", 4, 3), np.full((4, 4, 3), 255))


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    deep = np.array([[0, 255], [32768, 65535]], np.uint16)
    assert read_image(saved(tmp_path / "deep.png", deep), 2, 1)[..., 0].tolist() == [[0, 0], [128, 255]]


def test_a_photograph_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    pixels = random_pixels(4, 4, 3)
    path = saved(tmp_path / "a.png", pixels, exif=exif)
    assert np.array_equal(read_image(path, 4, 3), np.rot90(pixels, -1))


def write_half(path: Path) -> None:
    saved(path, random_pixels(40, 40, 3))
    path.write_bytes(path.read_bytes()[:1000])


def write_float(path: Path) -> None:
    Image.fromarray(np.ones((4, 4), np.float32)).save(path, format="TIFF")


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda path: path.write_bytes(b""), "cannot identify image file"),
        (lambda path: path.write_text("a letter"), "cannot identify image file"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 30), ""),
        (write_half, "truncated"),
        (write_float, "floating-point pixels are not supported"),
    ],
    ids=["empty", "text", "broken header", "cut short", "floats"],
)
def test_a_file_that_is_no_image_is_named_with_the_reason(
    tmp_path: Path, write: Callable[[Path], object], told: str
) -> None:
    folder_of(tmp_path, 3, 4, 4)
    bad = tmp_path / "bad.png"
    write(bad)
    message = refusal(tmp_path)
    assert message.startswith(f"{bad} is not a readable image: ")
    assert told in message


def test_a_folder_without_enough_images_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == f"there is no directory {tmp_path / 'nowhere'}"
    assert f"there are no images in {tmp_path}: looked for .bmp, " in refusal(tmp_path)
    saved(tmp_path / "a.png", random_pixels(4, 4))
    assert "holds 1 image; at least 2 are needed" in refusal(tmp_path)
    assert "there is no directory" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("option", "value"), [("levels", 1), ("levels", 257), ("channels", 2), ("channels", 4), ("size", 0), ("size", 5000)]
)
def test_impossible_options_are_refused(option: str, value: int) -> None:
    with pytest.raises(ValidationError, match=option):
        FolderData.model_validate({"path": "images", option: value})


def test_without_pillow_the_user_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path, 3, 4, 4)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=re.escape("pip install 'vadd[images]'")):
        FolderData(path=str(tmp_path)).load()


def test_a_picture_of_too_many_pixels_is_refused_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (60, 50)).save(tmp_path / "large.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 2_000)
    with pytest.raises(UserError, match="60 x 50 are more than 2,000 pixels"):
        read_image(tmp_path / "large.png", 8, 1)
    assert not recwarn.list
