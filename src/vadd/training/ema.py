"""The exponential moving average of the weights: what sampling and evaluation use."""

import copy
from functools import cached_property
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from vadd.training.sharding import local

Model = TypeVar("Model", bound=nn.Module)


class Ema(Generic[Model]):
    """``averaged`` follows the model: averaged = decay * averaged + (1 - decay) * model.

    Early on the decay is capped at (1 + n) / (10 + n), so that the random initial weights are forgotten at once.
    """

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model = model
        self.averaged: Model = copy.deepcopy(model).requires_grad_(False).eval()

    @cached_property
    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """What lives here of the averaged and of the trained weights; both may be sharded after the copy is made."""
        return [local(p) for p in self.averaged.parameters()], [local(p.detach()) for p in self.model.parameters()]

    @torch.no_grad()
    def update(self, step: int, applied: Tensor | float = 1.0) -> None:
        """After optimisation step number ``step``, counted from 0; with ``applied`` 0 nothing changes."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averaged, trained = self._pairs
        weight = torch.as_tensor(applied, device=averaged[0].device).to(averaged[0].dtype) * (1 - decay)
        # A weight of 0 leaves the average as it is, so a skipped step needs no decision on the host.
        torch._foreach_lerp_(averaged, trained, [weight] * len(averaged))
