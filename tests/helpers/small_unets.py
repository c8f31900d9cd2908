"""UNets small enough to be checked number by number, and what they read."""

from typing import Any

import torch
from torch import Tensor

from tests.helpers.exact import seeded
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser, UnetSettings

SIDE, VALUES, DIM, SIZE = 4, 5, 3, 3
"""Of an image, of the vocabulary, of the latent and of a batch."""
SMALL: dict[str, Any] = {"embedding": 8, "blocks": 2, "groups": 2, "pixel_embedding": 4, "dropout": 0.0}


def small_denoiser(channels: int = 1, *, latent_dim: int | None = None, **options: Any) -> UnetDenoiser:
    return UnetDenoiser((SIDE, SIDE, channels), VALUES, UnetSettings(**SMALL | options), latent_dim=latent_dim)


def small_recognizer(channels: int = 1, **options: Any) -> SiameseUnetRecognizer:
    return SiameseUnetRecognizer((SIDE, SIDE, channels), VALUES, UnetSettings(**SMALL | options), latent_dim=DIM)


def tokens(channels: int = 1, seed: int = 0, side: int = SIDE) -> Tensor:
    return torch.randint(VALUES + 1, (SIZE, side * side * channels), generator=seeded(seed))


def latents(seed: int = 0) -> Tensor:
    return torch.randn(SIZE, DIM, generator=seeded(seed))


def times(seed: int = 0) -> Tensor:
    return torch.rand(SIZE, generator=seeded(seed))


def everywhere(channels: int = 1) -> Tensor:
    return torch.ones(SIZE, SIDE * SIDE * channels, dtype=torch.bool)
