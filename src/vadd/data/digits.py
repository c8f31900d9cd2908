"""The 1,797 handwritten digits of scikit-learn, 8 x 8 pixels of 17 values: real images without a download."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from vadd.data.dataset import ClassifiedImages
from vadd.kinds.arrays import Array, quantize

PIXEL_VALUES = 17
TRAIN_SIZE = 1_500


class DigitsData(ClassifiedImages):
    """scikit-learn's handwritten digits, 8 x 8, part of that package."""

    shape = (8, 8, 1)
    kind: Literal["digits"] = "digits"
    levels: int = Field(2, ge=2, le=PIXEL_VALUES)

    def parts(self, seed: int) -> Sequence[tuple[Array, Array]]:
        """1,500 images to train on, chosen by ``seed``, and 297 to test."""
        from sklearn.datasets import load_digits  # takes a second, and few need it

        pixels, labels = load_digits(return_X_y=True)
        images = quantize(pixels.astype(np.uint8), self.levels, of=PIXEL_VALUES)
        order = np.random.default_rng(seed).permutation(len(images))
        return [(images[part], labels[part].astype(np.int64)) for part in (order[:TRAIN_SIZE], order[TRAIN_SIZE:])]
