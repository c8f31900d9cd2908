r"""The training objectives.

MDLM maximises :math:`E_t E_{x_t}\, w(t) \sum_{i \in S} \log \mu_i[x_{0,i}]`; VADD, with KL weight lambda, :math:`E_t
E_{x_t} E_{z \sim r}\, w(t) [\sum_{i \in S} \log \mu_i(x_t, z, t)[x_{0,i}] - \lambda\, KL(r(z \mid x_0, x_t) \|
p(z))]`. Both are means of an :class:`~vadd.core.latents.Evidence`, which is zero for an example of which nothing is
scored. For a model with a pad, S holds only the masked positions that are scored: those whose value is not the
pad.

Without pads the MDLM objective is a bound of the log-likelihood. The VADD objective is a sound thing to maximise but
**not** a bound; with a :class:`~vadd.core.latents.SharedLatent`, whose KL counts once, it is.
"""

from dataclasses import dataclass

from torch import Tensor

from vadd.core.latents import Evidence


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
