r"""Autoregression: the masked model whose positions are revealed one by one, from the first to the last.

.. math:: \log p(x) = \sum_i \log \mu_i(x_1, \dots, x_{i-1})[x_i]

Where the order is fixed, the network need not be shown a mask: one that reads from left to right sees exactly what is
known at each step, and all steps are trained, and judged, in one pass. The likelihood is exact.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.core.latents import Evidence
from vadd.core.masking import MaskedBatch
from vadd.core.model import MaskedDiffusion, Predict
from vadd.core.precision import at_least_single, precise
from vadd.core.samplers import LeftToRight, Sampler
from vadd.errors import UserError


class Reader(Protocol):
    """Reads sequences from left to right and never twice."""

    def logits(self, x: Tensor, position: int) -> Tensor:
        """(n, V) at one position of the sequences x (n, N), to the right of all that were asked for before."""
        ...


class CausalNetwork(Protocol):
    """A denoiser whose logits at a position depend on what is to its left only."""

    cache_bytes: int
    """What a reader keeps of one sequence."""

    def reader(self) -> Reader: ...


class Autoregressive(MaskedDiffusion):
    """A network that reads from left to right, trained and judged by its exact likelihood.

    The masks of a batch mean nothing to it. ``cached`` says whether sampling keeps what was read; without it every step
    reads everything again, and draws the same.
    """

    samplers: ClassVar[Mapping[str, Sampler]] = {"ancestral": LeftToRight()}
    cached: bool = True

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        everywhere = torch.ones_like(batch.masked)
        found = self._log_likelihood(batch.x0, everywhere if self.pad is None else self.scored(batch.x0))
        return Evidence(found, found, torch.zeros_like(found))

    def log_likelihood_in_one_pass(self, x0: Tensor) -> Tensor:
        """Of the positions that are scored."""
        return self._log_likelihood(x0, self.scored(x0))

    def _log_likelihood(self, x0: Tensor, where: Tensor) -> Tensor:
        """sum_{i in where} log mu_i(x_<i)[x_i], (B,)."""
        logits = at_least_single(self.predict(x0, None, torch.zeros(len(x0), device=x0.device), where))
        each = -F.cross_entropy(logits, x0[where], reduction="none")
        each = each if each.requires_grad else precise(each)
        return each.new_zeros(len(x0)).index_add(0, where.nonzero()[:, 0], each)

    def check_start(self, hidden: Tensor) -> None:
        """What is known must come first: nothing that is to its right can be taken into account."""
        broken = (hidden[:, :-1] & ~hidden[:, 1:]).any(dim=1)
        if broken.any():
            raise UserError(
                "an autoregressive model goes on from a beginning: it cannot fill positions to the left of known ones; "
                "a masked model can"
            )

    def predictions(self) -> Predict:
        if not self.cached:
            return super().predictions()
        reader = cast(CausalNetwork, self.denoiser).reader()

        def predict(x: Tensor, z: Tensor | None, t: Tensor, where: Tensor, rows: Tensor) -> Tensor:
            # Rows that know more at the start are read along: all of them are at the same place.
            position = int(where.any(dim=0).nonzero()[0])
            if position not in kept:
                kept.clear()
                kept[position] = reader.logits(x, position)
            return kept[position][rows]

        kept: dict[int, Tensor] = {}
        return predict

    @property
    def remembered_bytes(self) -> int:
        return cast(CausalNetwork, self.denoiser).cache_bytes
