"""Masked diffusion: with a latent it is VADD; without, the same code is MDLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.core.adaptive_samplers import EntropyBounded, Ordered, Remask
from vadd.core.base import Model
from vadd.core.bounds import masked_elbo, masked_step_bound
from vadd.core.latents import Evidence, Particles
from vadd.core.masking import ExactCount, MaskDraw, MaskedBatch
from vadd.core.precision import at_least_single, summed_by_row
from vadd.core.samplers import Ancestral, FirstHitting, Parallel, Sampler
from vadd.core.sampling import Drawing


class MaskedDiffusion(Model):
    """A denoiser, a mask schedule and, for VADD, a latent; without one it is MDLM.

    >>> from vadd.core import LinearSchedule, MaskedBatch
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(2, 5, MlpSettings(width=16)), LinearSchedule())
    >>> batch = MaskedBatch.all_masked(torch.tensor([[3, 1], [0, 4]]), model.mask_value)
    >>> model(batch, 1.0, torch.Generator()).bound.shape
    torch.Size([2])
    """

    samplers: Mapping[str, Sampler] = {
        "ancestral": Ancestral(),
        "parallel": Parallel(),
        "first-hitting": FirstHitting(),
        "confidence": Ordered("confidence"),
        "margin": Ordered("margin"),
        "entropy": Ordered("entropy"),
        "entropy-bounded": EntropyBounded(),
        "remask": Remask("capped"),
        "remask-rescaled": Remask("rescaled"),
    }
    held_out_draw: ClassVar[MaskDraw] = ExactCount()

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """Of the masked values that are scored.

        Where none is, the mask weighs nothing: else the KL would make the integral over t diverge near t = 0.
        """
        where = batch.masking.masked
        if self.pad is not None or self.unknowns:
            where = where & self.scored(batch.x0)

        def score(z: Tensor | None) -> Tensor:
            return self.log_likelihood(batch, z, where)

        # At t = 0, where nothing is masked, w(t) is infinite: a product would be no number.
        weight = torch.where(where.any(dim=1).to(batch.t.device), batch.masking.weight, 0.0)
        return self.latent.evidence(score, batch, weight, kl_weight, generator)

    def log_likelihood(self, batch: MaskedBatch, z: Tensor | None, where: Tensor) -> Tensor:
        r"""sum_{i in where} log mu_i(x_t, z, t)[x0_i], for K latents at once: z (K, B, d) or None (K = 1) gives
        (K, B).
        """
        particles = 1 if z is None else z.shape[0]
        size = len(batch.x0)
        xt, t, x0, flat_z = batch.xt, batch.t, batch.x0, None if z is None else z[0]
        if z is not None and particles > 1:
            # Copy after copy of the batch, in the order of z flattened: the k-th copy has the k-th draw.
            xt, x0, where = (tensor.repeat(particles, 1) for tensor in (xt, x0, where))
            t, flat_z = t.repeat(particles), z.flatten(0, 1)
        logits = at_least_single(self.predict(xt, flat_z, t, where))
        log_mu = -F.cross_entropy(logits, x0[where], reduction="none")
        return summed_by_row(log_mu, where).view(particles, size)

    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        return masked_step_bound(self, x0, steps, particles, generator, how)

    def elbo(self, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        return masked_elbo(self, x0, draws, generator)


@dataclass(frozen=True)
class Objective:
    """What a step minimises, and the parts that are logged."""

    loss: Tensor
    """What the optimiser minimises: the negative objective in nats *per position*, so that clipping means the
    same at any N. All N positions count, pads too: so no example weighs more for being short.
    """
    reconstruction: Tensor
    """-w(t) E_r log p(x_S | x_t, z), nats per example."""
    kl: Tensor
    """The KL as it counts, nats per example, without the warm-up's lambda."""

    @classmethod
    def mean(cls, parts: Sequence["Objective"]) -> "Objective":
        """Of parts of equal size, without gradients."""
        names = ("loss", "reconstruction", "kl")
        return cls(*(torch.stack([getattr(part, name).detach() for part in parts]).mean() for name in names))


def objective(evidence: Evidence, positions: int) -> Objective:
    """The means of what the examples of a batch add, each of N ``positions``.

    >>> import torch
    >>> bound, kl = torch.tensor([-3.0, -2.0]), torch.tensor([0.5, 0.0])
    >>> objective(Evidence(bound, bound + kl, kl), positions=2)
    Objective(loss=tensor(1.2500), reconstruction=tensor(2.2500), kl=tensor(0.2500))
    """
    return Objective(
        loss=-evidence.bound.mean() / positions,
        reconstruction=-evidence.reconstruction.detach().mean(),
        kl=evidence.kl.detach().mean(),
    )
