"""The 1,797 handwritten digits of scikit-learn, 8 x 8 pixels of 17 values: real images without a download."""

import numpy as np
import torch

from vadd.data.dataset import DiscreteDataset
from vadd.kinds.arrays import quantize

SIDE = 8
PIXEL_VALUES = 17
TRAIN_SIZE = 1_500


def load_digits(*, levels: int = 2, seed: int = 0) -> DiscreteDataset:
    """1,500 images to train on, chosen by ``seed``, and 297 to test; ``levels`` values per pixel, 2..17."""
    from sklearn.datasets import load_digits as sklearn_digits  # takes a second, and few need it

    pixels, labels = sklearn_digits(return_X_y=True)
    images = torch.from_numpy(quantize(pixels.astype(np.uint8), levels, of=PIXEL_VALUES))
    classes = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(images)))
    train, test = order[:TRAIN_SIZE], order[TRAIN_SIZE:]
    return DiscreteDataset(
        name="digits",
        vocab_size=levels,
        shape=(SIDE, SIDE, 1),
        train=images[train],
        test=images[test],
        train_labels=classes[train],
        test_labels=classes[test],
    )
