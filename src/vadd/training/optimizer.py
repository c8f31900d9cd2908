"""The optimiser and its learning rate."""

import math

import torch
from torch import nn

from vadd.recipe import Training


def build_optimizer(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
    return kind(
        model.parameters(),
        lr=training.learning_rate,
        betas=training.betas,
        weight_decay=training.weight_decay,
        fused=True,  # one kernel for all parameters: a third of a small model's step otherwise
    )


def learning_rate(step: int, training: Training) -> float:
    """At ``step`` (counted from 0): a linear warm-up, then constant or a cosine down to zero at the end of the run."""
    warmup = min(1.0, (step + 1) / training.warmup_steps) if training.warmup_steps else 1.0
    if training.learning_rate_schedule == "constant":
        return training.learning_rate * warmup
    return training.learning_rate * warmup * 0.5 * (1 + math.cos(math.pi * step / training.steps))
