r"""The training objectives.

MDLM maximises :math:`E_t E_{x_t}\, w(t) \sum_{i \in S} \log \mu_i[x_{0,i}]`; VADD, with KL weight lambda, :math:`E_t
E_{x_t} E_{z \sim r}\, w(t) [\sum_{i \in S} \log \mu_i(x_t, z, t)[x_{0,i}] - \lambda\, KL(r(z \mid x_0, x_t) \|
p(z))]`. Both are the same weighted mean of an :class:`~vadd.core.latent.Evidence`. Where nothing is masked there is
nothing to explain and the example counts zero, KL included: otherwise the integral diverges near t = 0. For a model
with a pad, S holds the masked positions that are scored, those of other values, and the same rule makes an example
count zero when all its masked positions are pads.

Without pads the MDLM objective is a bound of the log-likelihood. The VADD objective is a sound thing to maximise but
**not** a bound.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vadd.core.latent import Evidence
from vadd.core.masking import Masking


@dataclass(frozen=True)
class Objective:
    loss: Tensor
    """What the optimiser minimises: the negative objective in nats *per position*, so that clipping means the
    same at any N. All N positions count, pads too: so no example weighs more for being short.
    """
    reconstruction: Tensor
    """-w(t) E_r log p(x_S | x_t, z), nats per example."""
    kl: Tensor
    """w(t) KL, nats per example, without the warm-up's lambda."""


def objective(evidence: Evidence, masking: Masking) -> Objective:
    hidden = masking.masked.any(dim=1)

    weight = torch.where(hidden, masking.weight, 0.0)

    def weighted_mean(nats: Tensor) -> Tensor:
        return (weight * nats).mean()

    positions = masking.masked.shape[1]
    return Objective(
        loss=-weighted_mean(evidence.bound) / positions,
        reconstruction=-weighted_mean(evidence.reconstruction.detach()),
        kl=weighted_mean(evidence.kl.detach()),
    )
