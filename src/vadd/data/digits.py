"""The 1,797 handwritten digits of scikit-learn, 8 x 8 pixels of 17 values: real images without a download."""

from typing import Literal

import numpy as np
import torch
from pydantic import Field

from vadd.data.dataset import LABELS, DataSettings, DiscreteDataset
from vadd.kinds import Kind, kind_of
from vadd.kinds.arrays import quantize

SIDE = 8
PIXEL_VALUES = 17
TRAIN_SIZE = 1_500
CLASSES = tuple(map(str, range(10)))


class DigitsData(DataSettings):
    """scikit-learn's handwritten digits, 8 x 8, part of that package."""

    kind: Literal["digits"] = "digits"
    labels: bool = Field(False, description=LABELS)
    levels: int = Field(2, ge=2, le=PIXEL_VALUES)

    def read(self, seed: int) -> DiscreteDataset:
        """1,500 images to train on, chosen by ``seed``, and 297 to test."""
        from sklearn.datasets import load_digits  # takes a second, and few need it

        pixels, labels = load_digits(return_X_y=True)
        images = torch.from_numpy(quantize(pixels.astype(np.uint8), self.levels, of=PIXEL_VALUES))
        classes = torch.from_numpy(labels.astype(np.int64))
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(images)))
        train, test = order[:TRAIN_SIZE], order[TRAIN_SIZE:]
        return DiscreteDataset(
            name="digits",
            vocab_size=self.levels,
            shape=(SIDE, SIDE, 1),
            train=images[train],
            test=images[test],
            train_labels=classes[train],
            test_labels=classes[test],
            label_names=CLASSES if self.labels else None,
        )

    def example_kind(self) -> Kind:
        return kind_of((SIDE, SIDE, 1), self.levels, labels=CLASSES if self.labels else None)
