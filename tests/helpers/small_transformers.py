"""Diffusion transformers small enough to be checked number by number, and what they read."""

from typing import Any

import torch
from torch import Tensor

from tests.helpers.exact import seeded
from tests.helpers.networks import flat_settings
from vadd.networks.transformer import TransformerDenoiser, TransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize

SIZE, POSITIONS, VALUES, DIM = 3, 7, 5, 3
"""Of a batch, of an example, of the vocabulary and of the latent."""
SMALL: dict[str, Any] = {"width": 16, "blocks": 2, "heads": 2, "dropout": 0.0}
CONDITION = 6
NO_TIME = torch.ones(SIZE)


def small_denoiser(positions: int = POSITIONS, *, latent_dim: int | None = DIM, **options: Any) -> TransformerDenoiser:
    size = TransformerSize(**SMALL | options)
    return TransformerDenoiser(
        positions, VALUES, flat_settings("transformer", size, condition=CONDITION), latent_dim=latent_dim
    )


def small_recognizer(**options: Any) -> TransformerRecognizer:
    size = TransformerSize(**SMALL | options)
    return TransformerRecognizer(
        POSITIONS, VALUES, flat_settings("transformer", size, condition=CONDITION), latent_dim=DIM
    )


def tokens(seed: int = 0, values: int = VALUES + 1) -> Tensor:
    return torch.randint(values, (SIZE, POSITIONS), generator=seeded(seed))


def latents(seed: int = 0) -> Tensor:
    return torch.randn(SIZE, DIM, generator=seeded(seed))


def everywhere() -> Tensor:
    return torch.ones(SIZE, POSITIONS, dtype=torch.bool)
