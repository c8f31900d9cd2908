r"""Bounds of the likelihood of given data under a masked model, and the paper's number, which is not one.

**Step bound**, valid for any latent and any sampler that plans ahead. Let :math:`U_i` be the positions that the sampler
reveals at its i-th step; for Algorithm 2 on the grid :math:`0 = t_0 < \dots < t_T = 1` those that the forward process
masks between :math:`t_{i-1}` and :math:`t_i`. The plan does not depend on the values, so

.. math:: \log p_T(x_0) \ge E \sum_{i=1}^T \log p(x_{0,U_i} \mid x_{t_i}), \qquad
          p(x_U \mid x_t) = E_{z \sim p} \prod_{j \in U} \mu_j(x_t, z, t)[x_{0,j}].

T = 1 is the one-shot likelihood. The more steps, the fewer positions go together, until only the marginals count.
A sampler that keeps one z for all its steps has the bound

.. math:: \log p_T(x_0) \ge E \log E_{z \sim p} \prod_{i=1}^T \prod_{j \in U_i} \mu_j(x_{t_i}, z, t_i)[x_{0,j}].

**ELBO**, valid without a latent: the integral :math:`E_t E_{x_t} w(t) \sum_{i \in S} \log \mu_i[x_{0,i}]`, the limit
of many steps.

**K-sample DELBO**, the paper's eq. 20: the same integral with the *joint* :math:`\log p(x_S \mid x_t)` of a latent
denoiser in place of the sum. It counts dependence between positions once for every mask in which they are hidden
together, and its optimum lies *above* the log-likelihood of the data. It is here for parity with the paper's tables
and for nothing else.

For a model with a pad all three count the other positions only: of what is revealed, what is scored. Pads are masked,
revealed and seen all the same. The step bound is then one of a sampler that is given the pads instead of drawing
them, and no longer of the likelihood of the sequence; ``model.scoring_pads()`` has a bound of that.

**Labels.** Without a label a model that knows some is the mixture over them. One draw of the step bound is the
logarithm of an unbiased estimate of the likelihood, so :math:`\log \sum_y \pi_y e^{b_y}` of the draws b_y given each
label is again one that does not exceed :math:`\log \sum_y \pi_y p(x_0 \mid y)` in expectation. One draw of the ELBO is
not: there the labels are weighed by other masks than those that count.

All functions return one draw of the estimate for each example, (B,) float64 nats; average over examples.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vadd.core.latents import Particles
from vadd.core.masking import ExactCount, MaskedBatch, Masking
from vadd.core.precision import precise
from vadd.core.randomness import Noise
from vadd.core.samplers import PlannedSampler, RevealPlan
from vadd.core.sampling import Drawing
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.core.base import Model
    from vadd.core.model import MaskedDiffusion


def step_bound(
    model: "Model",
    x0: Tensor,
    steps: int,
    particles: Particles | int = 64,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Tensor:
    """A lower bound of log p_T(x0), see :meth:`vadd.core.base.Model.bound`; ``options`` are those of
    :class:`~vadd.core.sampling.Drawing`.

    >>> from vadd.core import LinearSchedule, MaskedDiffusion
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(2, 5, MlpSettings(width=16)), LinearSchedule())
    >>> nats = step_bound(model, torch.tensor([[3, 1], [0, 4]]), steps=2)
    >>> nats.shape, bool((nats < 0).all())
    (torch.Size([2]), True)
    """
    return model.bound(x0, steps, particles, generator, Drawing(**options))


def elbo(model: "Model", x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """A lower bound of log p(x0), see :meth:`vadd.core.base.Model.elbo`."""
    return model.elbo(x0, draws, generator)


def masked_step_bound(
    model: "MaskedDiffusion", x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
) -> Tensor:
    """The step bound of a masked model, with a fresh latent at each step or one z for all of them."""
    sampler = how.sampler or model.samplers["ancestral"]
    assert isinstance(sampler, PlannedSampler), "all exact samplers of masked models plan ahead"
    if model.guidance != 1:
        raise UserError("no likelihood bound exists for guided samples: they do not follow the model's distribution")
    if (shares := model.latent.label_shares) is not None:
        # The same plan for every label, and the same particles.
        seed = int(torch.randint(2**62, (), generator=generator))

        def given(label: int) -> Tensor:
            again = torch.Generator().manual_seed(seed)
            return masked_step_bound(model.labelled(label), x0, steps, particles, again, how)

        return torch.logsumexp(_each_label(given, shares), dim=0)
    everything = torch.ones_like(x0, dtype=torch.bool)
    # Drawn before any particle: with the same seed the plan is the same for every choice of proposals.
    plan = sampler.plan(everything, steps, model.schedule, how.grid, Noise.of(generator, len(x0)))
    states = _States(model, x0, plan)
    if how.latent_policy == "fixed":
        return _one_latent(model, x0, states, particles, generator)
    total = torch.zeros(len(x0), dtype=torch.float64)
    # torch.split makes one empty part of nothing, which no network should see.
    for tasks in torch.split(states.tasks, particles.rows_per_call) if len(states.tasks) else ():
        rows, batch, revealed = states[tasks]
        total.index_add_(0, rows.cpu(), _log_joint(model, particles, generator, batch, revealed))
    return total


class _States:
    """The states of the sampler on its way to x0 (B, N): for every example those before a step that reveals something
    scored.

    Short examples leave most of many steps empty, and these cost nothing.
    """

    def __init__(self, model: "MaskedDiffusion", x0: Tensor, plan: RevealPlan) -> None:
        self.model, self.x0, self.plan = model, x0, plan
        self.scored = model.scored(x0)
        rows = torch.arange(len(x0), device=x0.device)[:, None].expand_as(x0)
        # Several positions of an example may be revealed at the same step: one task for all of them.
        self.tasks = torch.unique(torch.stack([rows[self.scored], plan.step_of[self.scored]], dim=1), dim=0)
        """(M, 2): example and step."""

    def __getitem__(self, tasks: Tensor) -> tuple[Tensor, MaskedBatch, Tensor]:
        """For some of the tasks: their examples (m,), the states before the steps, and what is revealed (m, N)."""
        rows, step = tasks.T
        step_of = self.plan.step_of[rows]
        revealed = (step_of == step[:, None]) & self.scored[rows]
        t = self.plan.times[rows.cpu(), step.cpu()].to(self.x0.device, torch.float32)
        masking = Masking(step_of <= step[:, None], t, torch.ones_like(t))
        return rows, MaskedBatch.of(self.x0[rows], masking, self.model.mask_value), revealed


def _one_latent(
    model: "MaskedDiffusion", x0: Tensor, states: _States, particles: Particles, generator: torch.Generator
) -> Tensor:
    """log (1/K) sum_k p(z_k) / g(z_k) prod_i prod_{j in U_i} mu_j(x_{t_i}, z_k)[x0_j]: whole trajectories, one plan."""

    def score(z: Tensor | None) -> Tensor:
        count = 1 if z is None else z.shape[0]
        total = precise(torch.zeros(count, len(x0), device=x0.device))
        for tasks in torch.split(states.tasks, max(1, particles.rows_per_call // count)):
            rows, batch, revealed = states[tasks]
            scores = model.log_likelihood(batch, None if z is None else z[:, rows], revealed)
            total.index_add_(1, rows, precise(scores).expand(count, -1))
        return total

    start = MaskedBatch.all_masked(x0, model.mask_value)
    joint = model.latent.log_marginal(score, start, states.scored, particles, generator).cpu().double()
    # Of nothing but pads the joint is 1, which the particles would only estimate.
    return joint.masked_fill(~states.scored.any(dim=1).cpu(), 0.0)


def _log_joint(
    model: "MaskedDiffusion", particles: Particles, generator: torch.Generator, batch: MaskedBatch, revealed: Tensor
) -> Tensor:
    """log p(x_U | x_t) with the latent integrated out, (B,) float64, for the positions U of ``revealed`` (B, N)."""

    def score(z: Tensor | None) -> Tensor:
        return model.log_likelihood(batch, z, revealed)

    return model.latent.log_marginal(score, batch, revealed, particles, generator).cpu().double()


@torch.no_grad()
def masked_elbo(model: "MaskedDiffusion", x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """A lower bound of log p(x0) for a model without a latent, from ``draws`` masks for each example."""
    if not model.latent.absent:
        raise UserError("with a latent the ELBO's integral is not a bound of the likelihood; use the step bound")
    particles, generator = Particles(1), generator or torch.Generator().manual_seed(0)

    def given(label: int | None) -> Tensor:
        of_label = model if label is None else model.labelled(label)
        return mask_integral(of_label, x0, draws, generator, partial(_log_joint, of_label, particles, generator))

    if (shares := model.latent.label_shares) is None:
        return given(None)

    # sum_y q_y (log pi_y + b_y - log q_y) is linear in the draws b_y, and q does not depend on them.
    log_q = _each_label(given, shares).log_softmax(dim=0)
    return (log_q.exp() * (_each_label(given, shares) - log_q)).nan_to_num(0.0).sum(dim=0)


def _each_label(given: Callable[[int], Tensor], shares: Tensor) -> Tensor:
    """log pi_y + given(y) for all labels y that there are, (labels, B)."""
    return torch.stack([shares[label].log() + given(label) for label in shares.nonzero()[:, 0].tolist()])


@torch.no_grad()
def k_sample_delbo(
    model: "MaskedDiffusion",
    x0: Tensor,
    particles: Particles | int,
    draws: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The paper's eq. 20. **Not a likelihood bound.**

    As in the paper all K particles come from the recognition model, for each of ``draws`` masks.
    """
    generator = generator or torch.Generator().manual_seed(0)
    particles = Particles(particles) if isinstance(particles, int) else particles
    log_joint = partial(_log_joint, model, replace(particles, proposals=("recognition",)), generator)
    return mask_integral(model, x0, draws, generator, log_joint, particles.rows_per_call)


def mask_integral(
    model: "Model",
    x0: Tensor,
    draws: int,
    generator: torch.Generator,
    log_joint: Callable[[MaskedBatch, Tensor], Tensor],
    rows_per_call: int = Particles.rows_per_call,
) -> Tensor:
    """The mean over ``draws`` masks of w(t) log p(x_S | x_t), all masked positions that are scored at once;
    ``log_joint`` maps a batch and the positions S (B, N) to the logarithm (B,).
    """
    if draws < 1:
        raise UserError(f"the number of masks drawn for each example must be at least 1, not {draws}")
    total = torch.zeros(len(x0), dtype=torch.float64)
    repeated = torch.arange(len(x0), device=x0.device).repeat_interleave(draws)
    # The masks of each example are spread evenly over k = 1..N.
    shifts = torch.rand(len(x0), 1, generator=generator, dtype=torch.float64)
    uniforms = ((shifts + torch.arange(draws)) / draws).flatten()
    masking = ExactCount().from_uniforms(uniforms, x0.shape[1], model.schedule, generator).to(x0.device)
    scored = masking.masked & model.scored(x0)[repeated]
    counted = scored.any(dim=1).nonzero()[:, 0]  # where only pads are masked nothing is scored
    for part in torch.split(counted, rows_per_call) if len(counted) else ():
        rows, chosen = repeated[part], masking[part]
        batch = MaskedBatch.of(x0[rows], chosen, model.mask_value)
        joint = log_joint(batch, scored[part]).cpu().double()
        total.index_add_(0, rows.cpu(), chosen.weight.cpu().double() * joint)
    return total / draws
