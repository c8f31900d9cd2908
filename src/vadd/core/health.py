"""Posterior collapse or not: what the recognition model puts into z, dimension by dimension."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vadd.core.base import Model
from vadd.core.gaussian import DiagonalGaussian
from vadd.core.masking import ExactCount, MaskedBatch

ACTIVE_VARIANCE = 0.01
"""A dimension is active when its posterior mean varies more than this across the data."""

RESTARTED_WEIGHTS = (0.3, 0.1)
"""Limits of the KL weight after posterior collapse, the first time and the second."""
REMEDIES = "latent.kind=shared latent.prior=autoregressive training.kl_warmup=0.5 training.kl_weight=0.3"


@dataclass(frozen=True)
class LatentHealth:
    """How much the latent says, and in how many of its dimensions."""

    kl_all_masked: float
    """KL(r || N(0, I)) in nats when everything is masked (t = 1), averaged over examples; also where the model has a
    fitted prior, so that the numbers of all models compare.
    """
    kl_average: float
    """The same averaged over numbers of masked positions."""
    kl_per_dimension: tuple[float, ...]
    """At t = 1; sums to ``kl_all_masked``."""
    active_units: int

    @property
    def dimensions(self) -> int:
        return len(self.kl_per_dimension)

    @property
    def collapsed(self) -> bool:
        return self.active_units == 0

    @property
    def verdict(self) -> str:
        if self.collapsed:
            return f"collapsed: none of {self.dimensions} dimensions varies with the data"
        return f"{self.active_units} of {self.dimensions} dimensions active"


@torch.no_grad()
def latent_health(
    model: Model, x0: Tensor, generator: torch.Generator, rows_at_once: int | None = None, labels: Tensor | None = None
) -> LatentHealth | None:
    """For examples x0 (B, N), all at once by default, given their ``labels`` (B,) if any; None for a model without a
    recognition model.
    """
    some_masked = ExactCount()(len(x0), x0.shape[1], model.schedule, generator).to(x0.device)
    parts = []
    for rows in torch.split(torch.arange(len(x0), device=x0.device), rows_at_once or len(x0)):
        batch = MaskedBatch.of(x0[rows], some_masked[rows], model.mask_value)
        batch = replace(batch, labels=None if labels is None else labels.to(x0.device)[rows])
        if (both := posteriors(model, batch)) is not None:
            parts.append(both)
    return health_of(*map(DiagonalGaussian.joined, zip(*parts, strict=True))) if parts else None


def posteriors(model: Model, batch: MaskedBatch) -> tuple[DiagonalGaussian, DiagonalGaussian] | None:
    """r(z | x0, xt) when everything is masked (t = 1), and under the masks of the batch."""
    at_one, anywhere = model.encode(batch.x0, batch.labels), model.posterior(replace(batch, part=None))
    return None if at_one is None or anywhere is None else (at_one, anywhere)


def health_of(at_one: DiagonalGaussian, anywhere: DiagonalGaussian) -> LatentHealth:
    """From the posteriors of the same examples, see :func:`posteriors`."""
    per_dimension = at_one.kl_to_standard_normal().mean(0)
    return LatentHealth(
        kl_all_masked=float(per_dimension.sum()),
        kl_average=float(anywhere.kl_to_standard_normal().sum(-1).mean()),
        kl_per_dimension=tuple(per_dimension.tolist()),
        active_units=int((at_one.mean.var(0, unbiased=False) > ACTIVE_VARIANCE).sum()),
    )
