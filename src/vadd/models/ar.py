r"""Autoregression: the masked model whose positions are revealed one by one, from the first to the last.

.. math:: \log p(x) = \sum_i \log \mu_i(x_1, \dots, x_{i-1})[x_i]

Where the order is fixed, the network needs no mask: one that reads from left to right sees exactly what is known at
each step, and all steps are trained and evaluated in one pass. The likelihood is exact.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.core.base import Model
from vadd.core.gaussian import Particles
from vadd.core.host import Places, at_least_single, summed_by_row
from vadd.core.latents import Evidence
from vadd.core.masking import MaskedBatch
from vadd.core.sampling import Drawing, Grid, LikelihoodKind, Sampler, TokenSampler, Walk
from vadd.errors import UserError


class CausalNetwork(Protocol):
    """A denoiser whose logits at a position depend on what is to its left only."""

    cache_bytes: int
    """What a reader keeps of one sequence."""

    def reader(self) -> Callable[[Tensor, int], Tensor]:
        """Reads sequences from left to right and never twice: gives the logits (n, V) at one position of the sequences
        x (n, N), to the right of all that were asked for before.
        """


class LeftToRight(Sampler):
    """One position after the other, from the first to the last."""

    exact: ClassVar[bool] = True
    uses_grid: ClassVar[bool] = False
    about: ClassVar[str] = "an autoregressive model takes a step for each position, from left to right"

    def default_steps(self, positions: int, wanted: int) -> int:
        return positions

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        """The n-th position at the n-th step, also where others before it are known: all rows are at one place."""
        hidden = walk.hidden_at_start
        # What is known must come first: nothing to its right can be taken into account.
        if (hidden[:, :-1] & ~hidden[:, 1:]).any():
            raise UserError(
                "an autoregressive model goes on from a beginning: it cannot fill positions to the left of known ones; "
                "a masked model can"
            )
        model = cast(Autoregressive, walk.model)
        reader = cast(CausalNetwork, model.denoiser).reader() if model.cached else None
        times = model.schedule.time_at(torch.arange(steps + 1, dtype=torch.float64) / steps)
        for step in walk.steps(times.expand(len(hidden), -1)):
            position = steps - step
            where = torch.zeros_like(hidden)
            where[:, position] = hidden[:, position]
            read = reader(walk.x, position) if reader is not None and where.any() else None
            walk.reveal(where, read)


class Autoregressive(Model):
    """A network that reads from left to right, trained and evaluated by its exact likelihood.

    The masks of a batch mean nothing to it. ``cached`` says whether sampling keeps what was read; without it every step
    reads everything again, and draws the same.
    """

    samplers: Mapping[str, Sampler] = {"ancestral": LeftToRight()}
    cached: bool = True

    @property
    def cache_bytes(self) -> int:
        """What sampling keeps of each row."""
        return cast(CausalNetwork, self.denoiser).cache_bytes

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        return Evidence.without_latent(self.log_likelihood(batch.x0, batch.places))

    def asked(self, x0: Tensor, masked: Tensor) -> Tensor:
        return self.scored(x0)

    def log_likelihood(self, x0: Tensor, places: Places | None = None, law: TokenSampler | None = None) -> Tensor:
        """sum_i log mu_i(x_<i)[x_i] over the positions that are scored, (B,), of values that are drawn by ``law``.
        ``places`` are these positions, where they are known.
        """
        if places is None:
            everything = self.pad is None and not self.unknowns
            places = Places.everywhere(x0) if everything else self.places(self.scored(x0))
        logits = at_least_single(self.predict(x0, None, torch.zeros(len(x0), device=x0.device), places))
        if law is not None and not law.exact:
            logits = law.log_probabilities(logits)
        return summed_by_row(-F.cross_entropy(logits, places.values(x0), reduction="none"), places)

    def likelihood_kind(self, steps: int, how: Drawing | None = None) -> LikelihoodKind:
        if how is not None and how.token_sampler.precision == "float32":
            return super().likelihood_kind(steps, how)
        return LikelihoodKind("exact", "the order is always the same")

    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        """The likelihood itself."""
        return self._likelihood(x0, how.token_sampler)

    @torch.no_grad()
    def elbo(self, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        return self._likelihood(x0)

    def _likelihood(self, x0: Tensor, law: TokenSampler | None = None) -> Tensor:
        everything = MaskedBatch.all_masked(x0.cpu(), self.mask_value).masking
        batch = self.batch(x0.cpu(), everything)
        return self.log_likelihood(batch.x0, batch.places, law).cpu().double()
