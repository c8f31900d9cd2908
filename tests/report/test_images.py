"""Pictures of images: the pixels of grids, what is drawn in which panel, and animations frame by frame."""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.helpers.pictures import trajectory
from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.report.figures import save_figure
from vadd.report.images import (
    MASK_COLOUR,
    SEPARATOR,
    denoising_gif,
    denoising_strip,
    grids_by_steps,
    image_grid,
    save_image,
    tokens_to_images,
)


def random_images(*shape: int) -> Array:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def drawn(figure: Figure) -> list[Array]:
    return [np.asarray(axis.images[0].get_array()) for axis in figure.axes if axis.images]


def titles(figure: Figure) -> list[str]:
    return [axis.get_title() for axis in figure.axes]


def test_levels_are_spread_over_the_whole_range() -> None:
    assert tokens_to_images(np.array([[0, 1, 1, 0]]), (2, 2), 2)[0, :, :, 0].tolist() == [[0, 255], [255, 0]]
    ramp = tokens_to_images(np.arange(16)[None], (4, 4, 1), 17)
    assert ramp.ravel().tolist() == [round(level * 255 / 16) for level in range(16)]
    assert ramp.dtype == np.uint8
    every = np.arange(256)[None]
    assert (tokens_to_images(every, (16, 16), 256).ravel() == every).all()


def test_tokens_are_read_row_by_row_with_channels_last() -> None:
    images = random_images(5, 4, 6, 3)
    assert np.array_equal(tokens_to_images(images.reshape(5, -1), (4, 6, 3), 256), images)


def test_masked_pixels_have_a_colour_of_their_own() -> None:
    images = tokens_to_images(np.array([[0, 1, 2, 2]]), (2, 2), 2, masks=True)
    assert images.shape == (1, 2, 2, 3)
    assert images.dtype == np.uint8
    assert images[0].reshape(4, 3).tolist() == [[0] * 3, [255] * 3, list(MASK_COLOUR), list(MASK_COLOUR)]
    assert len(set(MASK_COLOUR)) > 1  # no grey-level image has it


def test_of_a_colour_pixel_each_channel_is_masked_by_itself() -> None:
    images = tokens_to_images(np.array([[10, 256, 30]]), (1, 1, 3), 256, masks=True)
    assert images.ravel().tolist() == [10, MASK_COLOUR[1], 30]


def test_values_no_image_can_hold_are_told() -> None:
    with pytest.raises(UserError, match=r"the value 2, outside 0\.\.1"):
        tokens_to_images(np.array([[0, 1, 2, 0]]), (2, 2), 2)
    with pytest.raises(UserError, match=r"the value -1, outside 0\.\.2"):
        tokens_to_images(np.array([[0, 1, -1, 0]]), (2, 2), 2, masks=True)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("separator", [0, 1, 3])
def test_a_grid_holds_every_image_between_separators(channels: int, separator: int) -> None:
    images = random_images(5, 4, 6, channels)
    grid = image_grid(images, 3, separator=separator)
    assert grid.shape == (2 * (4 + separator) + separator, 3 * (6 + separator) + separator, channels)
    rest = np.ones(grid.shape, bool)
    for number, image in enumerate(images):
        row, column = divmod(number, 3)
        place = np.s_[separator + row * (4 + separator) :, separator + column * (6 + separator) :]
        assert np.array_equal(grid[place][:4, :6], image)
        rest[place][:4, :6] = False
    assert (grid[rest] == SEPARATOR).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_saved_image_is_read_back_pixel_by_pixel(channels: int, tmp_path: Path) -> None:
    image = random_images(5, 7, channels)
    path = save_image(image, tmp_path / "new" / "grid.png", scale=3)
    back = np.asarray(Image.open(path))
    assert back.shape[:2] == (15, 21)
    assert np.array_equal(back[1::3, 1::3].reshape(image.shape), image)
    assert np.array_equal(back[::3, ::3], back[2::3, 2::3])


def test_a_name_without_a_picture_suffix_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"use \.png"):
        save_image(random_images(4, 4, 1), tmp_path / "grid.xyz")


def test_grids_by_steps_has_a_row_for_each_model_and_a_panel_for_each_number_of_steps(tmp_path: Path) -> None:
    few, many = random_images(9, 4, 4, 1), random_images(4, 4, 4, 3)
    figure = grids_by_steps({"MDLM": [("T = 1", few), ("T = 5", many)], "VADD": [("T = 1", few)]})
    assert titles(figure) == ["T = 1", "T = 5", "T = 1", ""]
    assert [axis.get_ylabel() for axis in figure.axes] == ["MDLM", "", "VADD", ""]
    first, second, third = drawn(figure)
    assert np.array_equal(first[..., :1], image_grid(few, 3))
    assert np.array_equal(second, image_grid(many, 2))
    assert np.array_equal(third, first)
    assert save_figure(figure, tmp_path / "grids.png").stat().st_size > 1000


def test_a_strip_runs_from_all_masked_to_the_sample(tmp_path: Path) -> None:
    states = trajectory(5)[:, 0]
    figure = denoising_strip(states, (4, 4), 2)
    assert titles(figure) == ["masked", "step 1", "step 2", "step 3", "step 4", "step 5"]
    shown = drawn(figure)
    assert (shown[0] == MASK_COLOUR).all()
    assert np.array_equal(shown[-1][..., :1], tokens_to_images(states[-1:], (4, 4), 2)[0])
    for image, state in zip(shown, states, strict=True):
        assert ((image == MASK_COLOUR).all(axis=-1).ravel() == (state == 2)).all()
    assert save_figure(figure, tmp_path / "strip.png").stat().st_size > 1000


def test_a_long_strip_is_thinned_and_several_images_are_rows() -> None:
    figure = denoising_strip(trajectory(100, count=2), (4, 4, 1), 2, most=5)
    assert titles(figure)[:5] == ["masked", "step 25", "step 50", "step 75", "step 100"]
    assert len(drawn(figure)) == 10


@pytest.mark.parametrize("shape", [(4, 4, 1), (2, 3, 3)])
def test_an_animation_has_a_frame_for_each_state(shape: tuple[int, int, int], tmp_path: Path) -> None:
    positions = int(np.prod(shape))
    states = trajectory(6, count=3, positions=positions, values=5)
    path = denoising_gif(tmp_path / "new" / "run.gif", states, shape, 5, milliseconds=100, hold=1000)
    with Image.open(path) as animation:
        assert animation.n_frames == 7  # type: ignore[attr-defined]
        assert animation.info["loop"] == 0
        assert max(animation.size) >= 200
        durations = []
        for number, state in enumerate(states):
            animation.seek(number)
            durations.append(animation.info["duration"])
            expected = image_grid(tokens_to_images(state, shape, 5, masks=True), 2)
            scale = animation.size[1] // len(expected)
            frame = np.asarray(animation.convert("RGB"))[scale // 2 :: scale, scale // 2 :: scale]
            assert np.array_equal(frame, expected)
    assert durations == [100] * 6 + [1000]


def test_an_animation_of_one_image(tmp_path: Path) -> None:
    with Image.open(denoising_gif(tmp_path / "one.gif", trajectory(3)[:, 0], (4, 4), 2)) as animation:
        assert animation.n_frames == 4  # type: ignore[attr-defined]


def test_a_missing_pillow_and_a_wrong_trajectory_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"shape \(steps \+ 1, N\)"):
        denoising_gif(tmp_path / "run.gif", np.zeros(16, int), (4, 4), 2)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="needs Pillow"):
        denoising_gif(tmp_path / "run.gif", trajectory(3), (4, 4), 2)
    with pytest.raises(UserError, match="needs Pillow"):
        save_image(random_images(4, 4, 1), tmp_path / "grid.png")
