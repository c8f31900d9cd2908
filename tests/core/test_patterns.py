"""Masks as people make them: every kind occurs, and pixels are hidden whole.

Frequencies are compared with their least values at 5 standard errors, one-sided 3e-7 by chance; there are fewer than
40 such comparisons, so a correct package fails one with probability about 1e-5 if the seeds are ever changed.
"""

import math

import pytest
import torch
from torch import Tensor

from tests.helpers.exact import LINEAR, SQUARE, seeded
from vadd.core import Masking
from vadd.core.patterns import InfillMasks

DRAWS = 8000
SHAPES = [(12,), (6, 6), (5, 7), (4, 5, 3)]
IMAGES = [shape for shape in SHAPES if len(shape) > 1]
for_each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
for_each_image = pytest.mark.parametrize("shape", IMAGES, ids=str)


def drawn(shape: tuple[int, ...], seed: int = 0) -> Masking:
    return InfillMasks(shape)(DRAWS, math.prod(shape), LINEAR.schedule, seeded(seed))


def assert_at_least(found: Tensor, share: float) -> None:
    """Whether so many of the (DRAWS,) are true, but for 5 standard errors."""
    assert float(found.double().mean()) >= share - 5 * math.sqrt(share * (1 - share) / DRAWS)


def channels_alike(masked: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(B, N) -> (B,): whether every pixel is hidden in all its channels or in none."""
    pixels = masked.view(len(masked), shape[0] * shape[1], -1)
    return (pixels.all(-1) == pixels.any(-1)).all(-1)


def planes(masked: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(B, N) -> (B, H, W): the hidden pixels, of masks whose channels are alike."""
    return masked.view(len(masked), *shape[:2], -1)[..., 0]


def is_stretch(masked: Tensor) -> Tensor:
    """Hidden positions that follow each other: at most one beginning."""
    before = torch.cat([torch.zeros_like(masked[:, :1]), masked[:, :-1]], dim=1)
    return (masked & ~before).sum(1) == 1


def is_box(pixels: Tensor) -> Tensor:
    """(B, H, W) -> (B,): whether the true pixels are those of some rows and some columns that follow each other, more
    than one of each and not all: neither a stretch of the sequence nor a line leaves that.
    """
    rows, columns = pixels.any(2), pixels.any(1)
    found = (pixels == rows[:, :, None] & columns[:, None]).all(-1).all(-1)
    for lines in (rows, columns):
        found &= is_stretch(lines) & (lines.sum(1) > 1) & ~lines.all(1)
    return found


def is_cut(pixels: Tensor) -> Tensor:
    """Whether a line parts the true pixels from the others, some of each, and runs along no axis."""
    height, width = pixels.shape[1:]
    places = torch.cartesian_prod(torch.arange(height).double(), torch.arange(width).double())
    flat = pixels.flatten(1)
    found = torch.zeros(len(flat), dtype=torch.bool)
    for angle in torch.linspace(0, 2 * math.pi, 361)[:-1].tolist():
        if min(abs(math.cos(angle)), abs(math.sin(angle))) > 1e-3:
            along = places @ torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
            lowest = along.expand_as(flat).masked_fill(~flat, math.inf).min(1).values
            highest = along.expand_as(flat).masked_fill(flat, -math.inf).max(1).values
            found |= (lowest > highest) & lowest.isfinite() & highest.isfinite()
    return found


@for_each_shape
def test_masks_have_their_shapes_the_weight_one_and_the_time_of_their_share(shape: tuple[int, ...]) -> None:
    positions = math.prod(shape)
    for known in (LINEAR, SQUARE):
        masking = InfillMasks(shape)(50, positions, known.schedule, seeded(1))
        assert masking.masked.shape == (50, positions)
        assert masking.masked.dtype == torch.bool
        assert torch.equal(masking.weight, torch.ones(50))
        share = masking.masked.double().mean(1)
        fractions = torch.tensor([1 - known.alpha(t) for t in masking.t.tolist()], dtype=torch.float64)
        torch.testing.assert_close(fractions, share, rtol=0, atol=1e-6)


@for_each_shape
def test_a_seed_means_the_same_masks_and_another_one_others(shape: tuple[int, ...]) -> None:
    assert torch.equal(drawn(shape).masked, drawn(shape).masked)
    assert not torch.equal(drawn(shape).masked, drawn(shape, seed=1).masked)


@for_each_shape
def test_everything_scattered_positions_beginnings_ends_and_gaps_occur(shape: tuple[int, ...]) -> None:
    """Kinds are equally likely, three or five; a third each of the stretches begins the sequence or ends it. Some come
    out empty or whole, so half of their share is asked for.
    """
    masked, kind = drawn(shape).masked, 1 / 3 if len(shape) == 1 else 1 / 5
    assert_at_least(masked.all(1), kind)
    stretch = is_stretch(masked) & ~masked.all(1)
    assert_at_least(stretch & masked[:, 0], kind / 6)
    assert_at_least(stretch & masked[:, -1], kind / 6)
    assert_at_least(stretch & ~masked[:, 0] & ~masked[:, -1], kind / 6)
    boundaries = (masked[:, 1:] != masked[:, :-1]).sum(1)
    assert_at_least(boundaries >= masked.shape[1] // 3, kind / 3)  # scattered


def test_sequences_have_no_kinds_of_images() -> None:
    """A third each: all but the scattered ones, and few of these, are one stretch, perhaps empty."""
    masked = drawn((30,)).masked
    whole = is_stretch(masked) | ~masked.any(1)
    assert_at_least(whole, 2 / 3)
    assert float(whole.double().mean()) < 0.72


@for_each_image
def test_lines_and_rectangles_hide_pixels_in_all_their_channels(shape: tuple[int, ...]) -> None:
    """Everything, lines and rectangles are three of five kinds; of the others few hide whole pixels by chance."""
    alike = channels_alike(drawn(shape).masked, shape)
    assert_at_least(alike, 3 / 5)
    if len(shape) == 3:
        assert float(alike.double().mean()) < 0.7


@for_each_image
def test_rectangles_and_all_but_rectangles_occur_and_reach_every_pixel(shape: tuple[int, ...]) -> None:
    """A fifth of all masks, half of them inverted; many are small or reach from side to side, so a tenth of that half
    is asked for.
    """
    masked = drawn(shape).masked
    pixels = planes(masked, shape)[channels_alike(masked, shape)]
    boxes, holes = pixels[is_box(pixels)], pixels[is_box(~pixels)]
    assert min(len(boxes), len(holes)) > 0.01 * DRAWS
    # Corners too: a rectangle may lie anywhere.
    assert bool(boxes.any(0).all())
    assert bool((~holes).any(0).all())


@for_each_image
def test_slanting_cuts_occur(shape: tuple[int, ...]) -> None:
    """A tenth of all masks; some miss the image or come out straight, so half of that is asked for."""
    masked = drawn(shape).masked
    some = masked[: DRAWS // 4]
    pixels = planes(some, shape)[channels_alike(some, shape)]
    assert float(is_cut(pixels).sum()) > 0.05 * len(some)


@for_each_image
def test_all_four_halves_occur(shape: tuple[int, ...]) -> None:
    """One of 80 masks each: a line (1/5), along an axis (1/2), through the middle (1/2), and one of its four sides. The
    middle row or column of an odd number stays.
    """
    height, width = shape[:2]
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    halves = {
        "upper": row < height // 2,
        "lower": row >= height - height // 2,
        "left": column < width // 2,
        "right": column >= width - width // 2,
    }
    masked = drawn(shape).masked
    alike, pixels = channels_alike(masked, shape), planes(masked, shape)
    for half in halves.values():
        assert_at_least(alike & (pixels == half).all(-1).all(-1), 1 / 80)
