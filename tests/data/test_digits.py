"""scikit-learn's digits, and how pixels are cut into levels."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.datasets import load_digits as sklearn_digits

from tests.helpers.exact import properties
from vadd.data import DigitsData
from vadd.errors import UserError
from vadd.kinds.arrays import quantize


def test_the_split_has_all_images_once_with_their_labels() -> None:
    data = DigitsData(levels=17).load(seed=3)
    assert (data.name, data.vocab_size, data.shape, data.positions) == ("digits", 17, (8, 8, 1), 64)
    assert (len(data.train), len(data.test)) == (1500, 297)
    assert data.train.dtype == data.test.dtype == torch.uint8
    assert data.train_labels is not None
    assert data.test_labels is not None
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    images = torch.cat([data.train, data.test]).tolist()
    labels = torch.cat([data.train_labels, data.test_labels]).tolist()
    original, classes = sklearn_digits(return_X_y=True)
    assert sorted(zip(images, labels, strict=True)) == sorted(
        zip(original.astype(int).tolist(), classes.tolist(), strict=True)
    )
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_two_levels_are_a_threshold_at_half() -> None:
    fine, coarse = DigitsData(levels=17).load(), DigitsData().load()
    assert coarse.vocab_size == 2
    assert coarse.train.equal((fine.train / 16 > 0.5).to(torch.uint8))
    assert int(coarse.train.sum()) + int(coarse.test.sum()) == 33_687


def test_the_seed_decides_the_split() -> None:
    first, again, other = (DigitsData().load(seed=seed) for seed in (1, 1, 2))
    assert first.train.equal(again.train)
    assert first.test.equal(again.test)
    assert not first.train.equal(other.train)


@pytest.mark.parametrize("levels", [-1, 0, 1, 18, 256])
def test_levels_that_17_values_cannot_give_are_refused(levels: int) -> None:
    with pytest.raises(ValidationError, match="levels"):
        DigitsData(levels=levels)


@given(of=st.integers(2, 256), data=st.data())
@properties
def test_quantisation_is_even_monotone_and_within_bounds(of: int, data: st.DataObject) -> None:
    levels = data.draw(st.integers(2, of))
    back = quantize(np.arange(of), levels, of=of)
    assert back.dtype == np.uint8
    assert (back[0], back[-1]) == (0, levels - 1)
    assert set(np.diff(back.astype(int))) <= {0, 1}
    sizes = np.bincount(back, minlength=levels)
    assert len(sizes) == levels
    assert sizes.max() - sizes.min() <= 1


@given(of=st.integers(2, 256))
@properties
def test_as_many_levels_as_values_change_nothing(of: int) -> None:
    assert quantize(np.arange(of), of, of=of).tolist() == list(range(of))


@given(levels=st.integers(-300, 300).filter(lambda levels: not 2 <= levels <= 256))
@properties
def test_levels_out_of_range_are_refused(levels: int) -> None:
    with pytest.raises(UserError, match=re.escape(f"levels must be in 2..256, not {levels}")):
        quantize(np.zeros(3, np.uint8), levels)
