"""Pictures of images: arrays in, arrays, figures and files out. Nothing here knows about models.

Images are uint8 arrays (n, H, W, C) with one channel or three; tokens are integers (n, N), flattened images, in which
V itself may stand for "still masked".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vadd.errors import UserError, check_range, optional
from vadd.kinds.arrays import Array
from vadd.report.figures import panel_rows, save_figure

MASK_COLOUR = (118, 128, 148)
"""A bluish grey, unlike the greys of an image."""
SEPARATOR = 160
MOST_STATES = 11
GIF_SIDE = 256
FRAME, TURN = 120, 700
"""Milliseconds of the frames of a walk, and of those at its ends."""
NAME_SIZE, NAME_MARGIN, LONGEST_NAME = 14, 12, 24
"""Of the names before rows, in pixels and characters."""


def tokens_to_images(tokens: Array, shape: Sequence[int], vocab_size: int, *, masks: bool = False) -> Array:
    """Tokens (n, N) in 0..V-1 as images (n, H, W, C), the levels spread over 0..255; ``shape`` is (H, W) or (H, W, C).

    With ``masks`` the value V is a masked pixel and the images have three channels: a masked one is grey, and of a
    pixel whose channels are masked separately the masked channels are.
    """
    tokens = np.asarray(tokens)
    if tokens.size:
        check_range(int(tokens.min()), int(tokens.max()), vocab_size + masks, "the images hold the value")
    levels = tokens.reshape(len(tokens), *(*shape, 1)[:3])
    images = np.rint(np.minimum(levels, vocab_size - 1) * (255 / (vocab_size - 1))).astype(np.uint8)
    return np.where(levels == vocab_size, np.array(MASK_COLOUR, np.uint8), images) if masks else images


def image_grid(images: Array, columns: int, *, separator: int = 1) -> Array:
    """Images (n, H, W, C) row by row in one (H', W', C), with grey lines of ``separator`` pixels between and around
    them.
    """
    count, height, width, channels = images.shape
    rows = math.ceil(count / columns)
    tall, wide = height + separator, width + separator
    grid = np.full((separator + rows * tall, separator + columns * wide, channels), SEPARATOR, np.uint8)
    for number, image in enumerate(images):
        top, left = separator + number // columns * tall, separator + number % columns * wide
        grid[top : top + height, left : left + width] = image
    return grid


def grid_with_names(images: Array, names: Sequence[str], *, scale: int = 1) -> Array:
    """A row of equally many images for each of the ``names``, which stand before their rows; every pixel a square of
    ``scale``.
    """
    columns = len(images) // len(names)
    picture = as_pillow(enlarged(image_grid(images, columns), scale))
    from PIL import Image, ImageDraw

    short = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..." for name in names]
    lines = [" ".join(name.split()) for name in short]
    writing = ImageDraw.Draw(picture)
    left = NAME_MARGIN + max(round(writing.textlength(line, font_size=NAME_SIZE)) for line in lines)
    grey = picture.mode == "L"
    background = SEPARATOR if grey else (SEPARATOR,) * 3
    whole = Image.new(picture.mode, (left + picture.width, picture.height), background)
    whole.paste(picture, (left, 0))
    writing, height = ImageDraw.Draw(whole), picture.height / len(names)
    for row, line in enumerate(lines):
        place = (left - NAME_MARGIN / 2, (row + 0.5) * height)
        writing.text(place, line, fill=0 if grey else (0, 0, 0), anchor="rm", font_size=NAME_SIZE)
    pixels = np.asarray(whole)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def square_grid(images: Array) -> Array:
    """A grid about as wide as it is tall."""
    return image_grid(images, math.ceil(math.sqrt(max(1, len(images)))))


def save_image(image: Array, path: Path, *, scale: int = 1) -> Path:
    """One image (H, W, C) as a file, every pixel a square of ``scale``; the suffix says which format, PNG is safe."""
    picture = as_pillow(enlarged(image, scale))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        picture.save(path)
    except ValueError:
        raise UserError(f"{path} is not the name of a picture; use .png") from None
    return path


def grids_by_steps(rows: Mapping[str, Sequence[tuple[str, Array]]]) -> Figure:
    """A row for each model, a panel for each number of steps: ``{"VADD": [("T = 5", images), ...], ...}``."""
    return panel_rows(list(rows.items()), lambda axis, images, _: draw(axis, square_grid(images)), 2.6)


def _images_in_rows(images: Iterable[Iterable[Array]], rows: Sequence[str], columns: Sequence[str]) -> Figure:
    """Images (H, W, C) with the names of the columns above the first row."""
    named = [
        (name, [(title if number == 0 else "", image) for title, image in zip(columns, line, strict=True)])
        for number, (name, line) in enumerate(zip(rows, images, strict=True))
    ]
    return panel_rows(named, lambda axis, image, _: draw(axis, image), 1.0)


def denoising_strip(
    trajectory: Array, shape: Sequence[int], vocab_size: int, *, names: Sequence[str] = (), most: int = MOST_STATES
) -> Figure:
    """From all masked to the sample, left to right: a trajectory (steps + 1, N), or (steps + 1, n, N) for n rows, which
    may have names.

    Of a long one, ``most`` states at even distances, the first and the last among them.
    """
    states = as_trajectory(trajectory)
    steps = len(states) - 1
    shown = np.unique(np.rint(np.linspace(0, steps, min(max(2, most), steps + 1))).astype(int))
    lines = [tokens_to_images(line, shape, vocab_size, masks=True) for line in states[shown].swapaxes(0, 1)]
    return _images_in_rows(lines, names or [""] * len(lines), [f"step {step}" if step else "masked" for step in shown])


def traversal_figure(
    levels: Array, shape: Sequence[int], vocab_size: int, rows: Sequence[str], columns: Sequence[str]
) -> Figure:
    """A row for each dimension of the latent, a column for each of its values: ``levels`` (rows, columns, N) in
    0..V-1, which may lie between the whole values.
    """
    brightness = np.rint(np.asarray(levels) * (255 / (vocab_size - 1))).astype(np.uint8)
    return _images_in_rows(brightness.reshape(*brightness.shape[:2], *(*shape, 1)[:3]), rows, columns)


def draw_walk(
    tokens: Array, shape: Sequence[int], vocab_size: int, rows: Sequence[str], columns: Sequence[str], out: Path
) -> None:
    """Images (rows, columns, N) as a picture, or as an animation that goes along the columns and back."""
    if out.suffix == ".png":
        save_figure(traversal_figure(tokens, shape, vocab_size, rows, columns), out)
        return
    grids = [image_grid(tokens_to_images(each, shape, vocab_size), len(rows)) for each in tokens.swapaxes(0, 1)]
    scale = max(1, GIF_SIDE // shape[0] // 2)
    there = [as_pillow(enlarged(grid, scale)) for grid in grids]
    back = there[-2:0:-1]
    save_animation(out, there + back, [TURN, *[FRAME] * (len(there) - 2), TURN, *[FRAME] * len(back)])


def denoising_gif(
    path: Path, trajectory: Array, shape: Sequence[int], vocab_size: int, *, milliseconds: int = 150, hold: int = 1500
) -> Path:
    """The trajectory (steps + 1, N), or (steps + 1, n, N) for a grid of n images, as an animation that runs for ever.

    Masked pixels are grey. Each state stands for ``milliseconds``, the last for ``hold``.
    """
    states = as_trajectory(trajectory)
    grids = [square_grid(tokens_to_images(state, shape, vocab_size, masks=True)) for state in states]
    scale = max(1, round(GIF_SIDE / max(grids[0].shape[:2])))
    return save_animation(
        path, [as_pillow(enlarged(grid, scale)) for grid in grids], [milliseconds] * (len(grids) - 1) + [hold]
    )


def save_animation(path: Path, frames: Sequence[Any], milliseconds: Sequence[int]) -> Path:
    """Pillow's images one after the other, each for its time, for ever."""
    first, *others = frames
    path.parent.mkdir(parents=True, exist_ok=True)
    first.save(path, format="GIF", save_all=True, append_images=others, duration=list(milliseconds), loop=0)
    return path


def draw(axis: Axes, image: Array) -> None:
    """One image (H, W, C), black to white over 0..255, without ticks."""
    # matplotlib wants three channels or none; nearest keeps pixels square.
    axis.imshow(np.broadcast_to(image, (*image.shape[:2], 3)), interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for edge in axis.spines.values():
        edge.set_linewidth(0.4)


def enlarged(image: Array, scale: int) -> Array:
    return image.repeat(scale, axis=0).repeat(scale, axis=1)


def as_pillow(image: Array) -> Any:
    optional("PIL", "writing pictures needs Pillow", "images")
    from PIL import Image

    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def as_trajectory(trajectory: Array) -> Array:
    """(states, n, N)"""
    states = np.asarray(trajectory)
    states = states[:, None] if states.ndim == 2 else states
    if states.ndim != 3 or len(states) < 2:
        raise UserError(f"a trajectory has the shape (steps + 1, N) or (steps + 1, n, N), not {states.shape}")
    return states
