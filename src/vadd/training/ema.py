"""The exponential moving average of the weights: what sampling and evaluation use."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


class Ema(Generic[Model]):
    """``averaged`` follows the model: averaged = decay * averaged + (1 - decay) * model.

    Early on the decay is capped at (1 + n) / (10 + n), so that the random initial weights are forgotten at once.
    """

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.averaged: Model = copy.deepcopy(model).requires_grad_(False).eval()
        self._followers: list[Tensor] = list(self.averaged.parameters())
        self._leaders: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After optimisation step number ``step``, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._followers, self._leaders, 1 - decay)
