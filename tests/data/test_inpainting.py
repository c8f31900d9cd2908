"""Images and masks from files: pixel by pixel, and nothing resized."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vadd.errors import UserError
from vadd.kinds.arrays import quantize
from vadd.kinds.gaps import half_mask, read_mask, read_pictures
from vadd.report.images import save_image, tokens_to_images


@pytest.mark.parametrize("shape", [(4, 6, 1), (4, 6, 3), (4, 6)])
@pytest.mark.parametrize("values", [2, 8, 17, 256])
def test_a_picture_of_a_models_image_is_read_back(shape: tuple[int, ...], values: int, tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, values, (1, int(np.prod(shape))))
    path = save_image(tokens_to_images(tokens, shape, values)[0], tmp_path / "image.png")
    read = read_pictures(path, shape, values)
    assert np.array_equal(read, tokens)
    assert read.dtype == np.int64


def test_a_photograph_is_quantised_as_for_training(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    assert np.array_equal(read_pictures(tmp_path / "photo.png", (4, 4, 3), 8)[0], quantize(pixels, 8).ravel())


@pytest.mark.parametrize("form", [(2, 3, 1), (2, 3), (5, 2, 3, 1), (5, 2, 3)])
def test_arrays_hold_one_image_or_several(form: tuple[int, ...], tmp_path: Path) -> None:
    images = np.random.default_rng(2).integers(0, 4, form)
    np.save(tmp_path / "images.npy", images)
    assert np.array_equal(read_pictures(tmp_path / "images.npy", (2, 3, 1), 4), images.reshape(-1, 6))


def test_what_is_white_is_filled_in_all_channels(tmp_path: Path) -> None:
    white = np.array([[0, 255, 127], [128, 0, 1]], np.uint8)
    Image.fromarray(white).save(tmp_path / "mask.png")
    np.save(tmp_path / "mask.npy", white >= 128)
    for name in ("mask.png", "mask.npy"):
        fill = read_mask(tmp_path / name, (2, 3, 3)).reshape(2, 3, 3)
        assert (fill == (white >= 128)[..., None]).all()
    assert read_mask(tmp_path / "mask.png", (2, 3)).tolist() == [False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("keep", "rows", "columns"),
    [
        ("top", [0, 0, 1], None),
        ("bottom", [1, 0, 0], None),
        ("left", None, [0, 0, 0, 1, 1]),
        ("right", None, [1, 1, 0, 0, 0]),
    ],
)
def test_one_half_is_kept_and_the_middle_of_odd_sizes_with_it(
    keep: str, rows: list[int] | None, columns: list[int] | None
) -> None:
    filled = np.array(rows or [1, 1, 1])[:, None, None] * np.array(columns or [1] * 5)[:, None]
    assert np.array_equal(half_mask(keep, (3, 5, 3)).reshape(3, 5, 3), np.broadcast_to(filled, (3, 5, 3)))


def test_other_sizes_other_values_and_empty_masks_are_told(tmp_path: Path) -> None:
    Image.new("L", (5, 4)).save(tmp_path / "wide.png")
    np.save(tmp_path / "large.npy", np.full((4, 4), 2))
    np.save(tmp_path / "short.npy", np.zeros(15, int))
    (tmp_path / "text.png").write_text("no image")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: read_pictures(tmp_path / "wide.png", (4, 4, 1), 2), "is 5 x 4 pixels; the model's images are 4 x 4"),
        (lambda: read_mask(tmp_path / "wide.png", (4, 4, 1)), "is 5 x 4 pixels; the model's images are 4 x 4"),
        (lambda: read_mask(tmp_path / "wide.png", (4, 5, 1)), "black everywhere: there is nothing to fill"),
        (lambda: read_pictures(tmp_path / "large.npy", (4, 4, 1), 2), r"holds the value 2, outside 0\.\.1"),
        (lambda: read_pictures(tmp_path / "short.npy", (4, 4, 1), 2), r"shape \(15,\); the model's examples need"),
        (lambda: read_pictures(tmp_path / "text.png", (4, 4, 1), 2), "is not a readable image"),
        (lambda: read_pictures(tmp_path / "none.npy", (4, 4, 1), 2), "there is no file"),
        (lambda: half_mask("top", (16,)), r"are not images: they have the shape \(16,\)"),
    ]
    for call, told in cases:
        with pytest.raises(UserError, match=told):
            call()
