"""Objectives as integrals over all masks."""

import torch
from torch import Tensor

from tests.helpers.exact import exact_count_weights, nonempty_masks, seeded
from vadd.core import MaskedBatch, MaskedDiffusion, Masking, Objective, objective


def every_mask_once(positions: int) -> Masking:
    """One row for each mask, weighted so that the mean over the rows is the integral over t of a function without t."""
    masks = nonempty_masks(positions)
    return Masking(masks, torch.full((len(masks),), 0.5), exact_count_weights(masks) * len(masks))


def evaluate(model: MaskedDiffusion, x0: Tensor, masking: Masking, kl_weight: float = 1.0, seed: int = 0) -> Objective:
    batch = MaskedBatch.of(x0.expand(len(masking.t), -1), masking, model.mask_value)
    return objective(model(batch, kl_weight, seeded(seed)), x0.shape[-1])
