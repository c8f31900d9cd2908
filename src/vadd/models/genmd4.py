r"""GenMD4: a mask schedule of its own for every value, learned with the denoiser.

A schedule :math:`\alpha(t)` masks a position with probability :math:`m(t) = 1 - \alpha(t)`; here the value v is masked
with probability :math:`m(t)^{r_v}`, with rates :math:`r_v > 0`. From the polynomial schedule :math:`1 - t^w` that is
:math:`1 - t^{w_v}` with :math:`w_v = w r_v`; with all rates 1 it is the schedule itself. Values of a high rate are
masked late and revealed early.

Going back from t to s a masked position that was v is revealed with probability :math:`\rho_v = 1 - (m(s)/m(t))^{r_v}`,
so the sampler, which knows :math:`\mu` and not v, reveals v with probability :math:`\mu_v \rho_v` and leaves the mask
with :math:`\sum_v \mu_v (1 - \rho_v)`. Its bound is

.. math:: \log p_T(x_0) \ge E \sum_{t \to s} \sum_{i \in S} \rho_{x} \log \mu_{x} + (1 - \rho_{x})
          \log \frac{\sum_v \mu_v (1 - \rho_v)}{1 - \rho_{x}}, \qquad x = x_{0,i},

and, the limit of many steps, :math:`E \int w(t) \sum_{i \in S} [r_x (\log \mu_x + 1) - \sum_v \mu_v r_v]\, dt`. That is
what training maximises. The masks depend on the rates too: with two masks for each example, drawn independently at
the same t, and F their values, the leave-one-out estimate :math:`\frac12 (F_1 - F_2) \nabla [\log q(x_t^1) - \log
q(x_t^2)]` has that part of the gradient as its mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from vadd.core.host import at_least_single, precise
from vadd.core.latents import Evidence
from vadd.core.masking import MaskDraw, MaskedBatch, Schedule, StratifiedTimes
from vadd.core.sampling import Sampler
from vadd.models.transitions import Chance, TransitionModel, TransitionSampler


@dataclass(frozen=True, eq=False)
class ValueSteps(TransitionSampler):
    """The steps of a process in which values are revealed at different rates (V,)."""

    rates: Tensor

    def step_rates(self, schedule: Schedule, t: Tensor, s: Tensor) -> Tensor:
        return schedule.reveal_probability(t, s)

    def transition(self, logits: Tensor, rate: Tensor, *, last: bool) -> Tensor:
        log_mu = precise(logits).log_softmax(dim=-1)
        log_stay = self.rates.to(log_mu) * (1 - rate).to(log_mu).log()[:, None]
        revealed = log_mu + (-torch.expm1(log_stay)).log()
        return torch.cat([revealed, (log_mu + log_stay).logsumexp(dim=-1, keepdim=True)], dim=-1)


class ValueRates(TransitionModel):
    """A masked model, without a latent, whose values have mask schedules of their own."""

    held_out_draw: ClassVar[MaskDraw] = StratifiedTimes()

    def __init__(self, denoiser: nn.Module, schedule: Schedule, pad: int | None = None) -> None:
        super().__init__(denoiser, schedule, pad=pad)
        self.log_rates = nn.Parameter(torch.zeros(self.vocab_size))

    @property
    def rates(self) -> Tensor:
        """r (V,)."""
        return self.log_rates.exp()

    @property
    def samplers(self) -> Mapping[str, Sampler]:  # type: ignore[override]  # they follow the rates
        return {"ancestral": ValueSteps(precise(self.rates.detach()))}

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The same examples at the same times, with masks by their values."""
        masked = batch.uniform(generator) < self.noise_chance(batch.x0, batch.t)
        masking = replace(batch.masking, masked=masked)
        return replace(batch, xt=batch.x0.masked_fill(masked, self.mask_value), masking=masking)

    def noise_chances(self, device: torch.device) -> Chance:
        plain, rates = super().noise_chances(device), precise(self.rates.detach()).to(device)
        return lambda x0, t: (rates[x0] * plain(x0, t).log()).exp()

    def asked(self, x0: Tensor, masked: Tensor) -> Tensor:
        return self.scored(x0)

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        return [batch.uniform(generator) for _ in range(2 if torch.is_grad_enabled() else 1)]

    def log_mask_probability(self, batch: MaskedBatch) -> Tensor:
        """log q(x_t | x_0), (B,)."""
        log_chance = self.rates[batch.x0] * super().noise_chances(batch.x0.device)(batch.x0, batch.t).log()
        # At t = 1 nothing is left unmasked; what is not chosen must have a gradient all the same.
        kept = torch.where(batch.masked, -1.0, log_chance)
        each = torch.where(batch.masked, log_chance, (-torch.expm1(kept)).log())
        return each.sum(dim=1)

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """The masks of the batch are drawn anew, by its values; where gradients are wanted twice."""
        if not torch.is_grad_enabled():
            bound = self.integrand(self.noised(batch, generator))
        else:
            bound = self.leave_one_out(*(self.noised(batch, generator) for _ in range(2)))
        return Evidence.without_latent(bound)

    def leave_one_out(self, first: MaskedBatch, second: MaskedBatch) -> Tensor:
        """The mean of the two integrands (B,), with a gradient whose mean is that of their expectation."""
        one, other = self.integrand(first), self.integrand(second)
        chances = self.log_mask_probability(first) - self.log_mask_probability(second)
        by_masks = 0.5 * (one - other).detach() * chances.to(one.dtype)
        return 0.5 * (one + other) + by_masks - by_masks.detach()

    def integrand(self, batch: MaskedBatch) -> Tensor:
        """w(t) sum over masked i of r_x (log mu_x + 1) - sum_v mu_v r_v, (B,)."""
        where = batch.masked & self.scored(batch.x0)
        # Masks that follow the rates are drawn on the device. A GPU would make the host wait for how many there are:
        # there the network is asked everywhere that something may be masked, and what is not counts nothing.
        places = self.places(batch.where(where))
        log_mu = at_least_single(self.predict(batch.xt, None, batch.t, places)).log_softmax(dim=-1)
        x0, rates = places.values(batch.x0), self.rates.to(log_mu)
        truth = log_mu.gather(1, x0[:, None])[:, 0]
        each = rates[x0] * (truth + 1) - log_mu.exp() @ rates
        if batch.places is not None:
            each = each * places.values(where)
        return batch.masking.weight * each.new_zeros(len(where)).index_add(0, places.rows, each)

    def log_stay(self, rho: Tensor, x0: Tensor) -> Tensor:
        return precise(self.rates)[x0] * super().log_stay(rho, x0)
