r"""The training objectives.

MDLM maximises :math:`E_t E_{x_t}\, w(t) \sum_{i \in S} \log \mu_i[x_{0,i}]`; VADD, with KL weight lambda, :math:`E_t
E_{x_t} E_{z \sim r}\, w(t) [\sum_{i \in S} \log \mu_i(x_t, z, t)[x_{0,i}] - \lambda\, KL(r(z \mid x_0, x_t) \|
p(z))]`. Both are the same weighted mean of an :class:`~vadd.core.latents.Evidence`, which is zero for an example of
which nothing is to be explained. For a model with a pad, S holds the masked positions that are scored, those of other
values.

Without pads the MDLM objective is a bound of the log-likelihood. The VADD objective is a sound thing to maximise but
**not** a bound.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vadd.core.latents import Evidence
from vadd.core.masking import Masking


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
    """w(t) KL, nats per example, without the warm-up's lambda."""


def objective(evidence: Evidence, masking: Masking) -> Objective:
    """The weighted means of a batch's evidence, under the masks it was given for.

    >>> masked = torch.tensor([[True, True], [False, True]])
    >>> masking = Masking(masked, t=torch.tensor([0.9, 0.5]), weight=torch.tensor([1.0, 2.0]))
    >>> bound, kl = torch.tensor([-3.0, -1.0]), torch.tensor([0.5, 0.0])
    >>> objective(Evidence(bound, bound + kl, kl), masking)
    Objective(loss=tensor(1.2500), reconstruction=tensor(2.2500), kl=tensor(0.2500))
    """

    # Of t = 0, where nothing is masked and w(t) is infinite, the product would be no number.
    weight = torch.where(masking.masked.any(dim=1), masking.weight, 0.0)

    def weighted_mean(nats: Tensor) -> Tensor:
        return (weight * nats).mean()

    positions = masking.masked.shape[1]
    return Objective(
        loss=-weighted_mean(evidence.bound) / positions,
        reconstruction=-weighted_mean(evidence.reconstruction.detach()),
        kl=weighted_mean(evidence.kl.detach()),
    )
