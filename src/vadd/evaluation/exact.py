r"""The distribution of the sampler's output without sampling noise, for examples of two positions.

With N = 2 the T-step sampler either reveals both positions in one step, or one and then the other. Writing J_i for
the joint :math:`E_z[\mu_1 \mu_2]` at the i-th time, m_i for its marginals and c_j for the conditional
:math:`E_z[\mu]` once a position is known,

.. math:: p_T = \sum_i \Delta_i^2 J_i + \sum_{j < i} \Delta_i \Delta_j (m^1_i c^2_j + m^2_i c^1_j),

where Delta_i is the probability that a position is revealed at step i. Expectations over z are sums over quantile
midpoints of the prior.
"""

import torch
from torch import Tensor

from vadd.core import MaskedDiffusion, Model
from vadd.core.samplers import Grid, step_grid
from vadd.models import Autoregressive

CHUNK = 16384


@torch.no_grad()
def mean_prediction(model: Model, xt: Tensor, t: float, nodes: int) -> tuple[Tensor, Tensor]:
    r"""For states xt (B, 2): the marginals E_z mu (B, 2, V) and the joints E_z mu_1 mu_2 summed over the batch
    (V, V), in float64.
    """
    device, vocab_size = model.device, model.vocab_size
    marginals = torch.zeros(len(xt), 2, vocab_size, dtype=torch.float64, device=device)
    joint = torch.zeros(vocab_size, vocab_size, dtype=torch.float64, device=device)
    for row, state in enumerate(xt.to(device)):
        z_nodes, weights = model.latent.prior_nodes(nodes, state)
        for first in range(0, len(weights), CHUNK):
            chunk = slice(first, first + CHUNK)
            weight = weights[chunk]
            x = state.expand(len(weight), 2)
            z = None if z_nodes is None else z_nodes[chunk]
            logits = model.predict(x, z, torch.full((len(x),), t, device=device), torch.ones_like(x, dtype=torch.bool))
            mu = logits.double().softmax(-1).view(len(weight), 2, vocab_size)
            first_mu, second_mu = mu[:, 0], mu[:, 1]
            weighted = weight[:, None] * first_mu
            marginals[row, 0] += weighted.sum(0)
            marginals[row, 1] += weight @ second_mu
            # Given z the two positions are independent: their joint is a mean of outer products.
            joint += weighted.T @ second_mu
    return marginals, joint


class ExactDistributions:
    """The sampler's exact output distribution (V, V) for any number of steps, up to the quadrature over z.

    Holds for a fresh latent at each step. Predictions are kept, so that many step counts cost little more than one.
    Conditionals are smooth in z and there are 2 V of them, so they get 1/64 of the nodes of the joint.
    """

    def __init__(self, model: Model, nodes: int = 2**16) -> None:
        if model.positions != 2:
            raise ValueError(f"exact distributions are for two positions, not {model.positions}")
        self.model = model
        self.nodes = nodes
        self._joints: dict[float, tuple[Tensor, Tensor]] = {}
        self._conditionals: dict[float, tuple[Tensor, Tensor]] = {}

    @staticmethod
    def known_for(model: Model) -> bool:
        """Whether the model's own sampler reveals masked positions, or its likelihood is exact. A label that is drawn
        once and kept is more than a state tells.
        """
        if model.label_shares is not None:
            return False
        return model.positions == 2 and type(model) in (MaskedDiffusion, Autoregressive)

    def after(self, steps: int, grid: Grid = "uniform") -> Tensor:
        values = torch.arange(self.model.vocab_size, device=self.model.device)
        if isinstance(self.model, Autoregressive):
            with torch.no_grad():
                return self.model.log_likelihood(torch.cartesian_prod(values, values)).exp().view(len(values), -1)
        times = step_grid(steps, grid)
        # A position is revealed at step i if it was masked between the times i - 1 and i.
        reveal = -self.model.schedule.alpha(times).diff()
        result = torch.zeros(
            self.model.vocab_size, self.model.vocab_size, dtype=torch.float64, device=self.model.device
        )
        for i in range(steps, 0, -1):
            (first, second), together = self._joint(float(times[i]))
            result += reveal[i - 1] ** 2 * together
            for j in range(i - 1, 0, -1):
                then_second, then_first = self._conditional(float(times[j]))
                in_order = first[:, None] * then_second + (second[:, None] * then_first).T
                result += reveal[i - 1] * reveal[j - 1] * in_order
        return result

    def _joint(self, t: float) -> tuple[Tensor, Tensor]:
        """The marginals (2, V) and the joint (V, V) when nothing is known."""
        # Without time input the prediction is the same at every time: one is enough.
        key = t if self.model.denoiser.uses_time else 1.0
        if key not in self._joints:
            nothing_known = torch.full((1, 2), self.model.mask_value)
            marginals, together = mean_prediction(self.model, nothing_known, key, self.nodes)
            self._joints[key] = marginals[0], together
        return self._joints[key]

    def _conditional(self, t: float) -> tuple[Tensor, Tensor]:
        """p(second | first) and p(first | second), the known value down: (V, V) each."""
        key = t if self.model.denoiser.uses_time else 1.0
        if key not in self._conditionals:
            known, hidden = (
                torch.arange(self.model.vocab_size),
                torch.full((self.model.vocab_size,), self.model.mask_value),
            )
            nodes = max(1, self.nodes // 64)
            given_first, _ = mean_prediction(self.model, torch.stack([known, hidden], dim=1), key, nodes)
            given_second, _ = mean_prediction(self.model, torch.stack([hidden, known], dim=1), key, nodes)
            self._conditionals[key] = given_first[:, 1], given_second[:, 0]
        return self._conditionals[key]
