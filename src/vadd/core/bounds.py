r"""What a model says of given data: valid bounds of the likelihood, and the paper's number, which is not one.

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

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from vadd.core.latents import Particles
from vadd.core.masking import ExactCount, MaskedBatch, Masking
from vadd.core.model import MaskedDiffusion
from vadd.core.noise import Noise
from vadd.core.precision import precise
from vadd.core.samplers import Grid, RevealPlan, Sampler, step_grid
from vadd.core.sampling import LatentPolicy
from vadd.errors import UserError


@torch.no_grad()
def step_bound(
    model: MaskedDiffusion,
    x0: Tensor,
    steps: int,
    particles: Particles | int = 64,
    generator: torch.Generator | None = None,
    *,
    grid: Grid = "uniform",
    sampler: Sampler | None = None,
    latent: LatentPolicy = "resample",
) -> Tensor:
    """A lower bound of log p_T(x0) of the ``sampler`` (by default Algorithm 2) with ``steps`` steps on ``grid``, with a
    fresh latent at each step or, ``latent="fixed"``, one z for all of them.

    ``particles`` is their number, or a :class:`~vadd.core.latents.Particles` that also names the proposals.

    >>> from vadd.core import LinearSchedule
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(2, 5, MlpSettings(width=16)), LinearSchedule())
    >>> nats = step_bound(model, torch.tensor([[3, 1], [0, 4]]), steps=2)
    >>> nats.shape, bool((nats < 0).all())
    (torch.Size([2]), True)
    """
    sampler = sampler or model.ancestral
    if not sampler.exact:
        raise UserError(
            f"no bound speaks about the sampler {type(sampler).__name__}: it does not draw from the model's own "
            "distribution; choose ancestral, parallel or first-hitting"
        )
    if model.guidance != 1:
        raise UserError("no bound speaks about guided samples: they do not follow the model's own distribution")
    sampler.check(model.positions, steps)
    if (at_once := model.log_likelihood_in_one_pass(x0)) is not None:
        return at_once.cpu().double()
    particles, generator = _with_defaults(particles, generator)
    if (shares := model.label_shares) is not None:
        # The same plan for every label, and the same particles.
        seed = int(torch.randint(2**62, (), generator=generator))
        bound = partial(step_bound, grid=grid, sampler=sampler, latent=latent)

        def given(label: int) -> Tensor:
            return bound(model.labelled(label), x0, steps, particles, torch.Generator().manual_seed(seed))

        return torch.logsumexp(_each_label(given, shares), dim=0)
    if not sampler.planned:
        return _transition_bound(model, x0, step_grid(steps, grid), particles, generator, latent)
    everything = torch.ones_like(x0, dtype=torch.bool)
    # Drawn before any particle: with the same seed the plan is the same for every choice of proposals.
    plan = sampler.plan(everything, steps, model.schedule, grid, Noise.of(generator, len(x0)))
    states = _States(model, x0, plan)
    if latent == "fixed":
        return _one_latent(model, x0, states, particles, generator)
    total = torch.zeros(len(x0), dtype=torch.float64)
    # torch.split makes one empty part of nothing, which no network should see.
    for tasks in torch.split(states.tasks, particles.rows_per_call) if len(states.tasks) else ():
        rows, batch, revealed = states[tasks]
        total.index_add_(0, rows.cpu(), _log_joint(model, batch, revealed, particles, generator))
    return total


def _transition_bound(
    model: MaskedDiffusion,
    x0: Tensor,
    times: Tensor,
    particles: Particles,
    generator: torch.Generator,
    latent: LatentPolicy,
) -> Tensor:
    """E sum_i log E_z prod_j p_j(x_{t_{i-1}} | x_{t_i}, z) / q(x_{t_{i-1}} | x_{t_i}, x_0): one state for every step of
    every example. Where there is no latent the expectation over x_{t_{i-1}} is a sum.
    """
    if latent == "fixed" and not model.latent.absent:
        raise UserError("with this noise there are bounds for a new z at each step, not for one z")
    total = torch.zeros(len(x0), dtype=torch.float64)
    for s, t in itertools.pairwise(times):
        for rows in torch.split(torch.arange(len(x0), device=x0.device), particles.rows_per_call):
            start, before = (torch.full((len(rows),), float(time), device=x0.device) for time in (t, s))
            coins = torch.rand(len(rows), x0.shape[1], generator=generator, dtype=torch.float64)
            masked = (coins < model.schedule.masked_fraction(t)).to(x0.device)
            batch = MaskedBatch.of(x0[rows], Masking(masked, start, torch.ones_like(start)), model.mask_value)
            total[rows.cpu()] += _transition_term(model, batch, before, particles, generator).cpu().double()
    return total


def _transition_term(
    model: MaskedDiffusion, batch: MaskedBatch, before: Tensor, particles: Particles, generator: torch.Generator
) -> Tensor:
    batch = model.noised(batch, generator)
    if model.latent.absent:
        return model.step_score(batch, before, None, None)[0]
    xs = model.step_before(batch, before, generator)
    everywhere = torch.ones_like(batch.masked)

    def score(z: Tensor | None) -> Tensor:
        return model.step_score(batch, before, z, xs)

    return model.latent.log_marginal(score, batch, everywhere, particles, generator)


class _States:
    """The states of the sampler on its way to x0 (B, N): for every example those before a step that reveals something
    scored.

    Short examples leave most of many steps empty, and these cost nothing.
    """

    def __init__(self, model: MaskedDiffusion, x0: Tensor, plan: RevealPlan) -> None:
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
    model: MaskedDiffusion, x0: Tensor, states: _States, particles: Particles, generator: torch.Generator
) -> Tensor:
    """log (1/K) sum_k p(z_k) / g(z_k) prod_i prod_{j in U_i} mu_j(x_{t_i}, z_k)[x0_j]: whole trajectories, one plan."""

    def score(z: Tensor | None) -> Tensor:
        count = 1 if z is None else z.shape[0]
        total = precise(torch.zeros(count, len(x0), device=x0.device))
        for tasks in torch.split(states.tasks, max(1, particles.rows_per_call // count)):
            rows, batch, revealed = states[tasks]
            found = model.log_likelihood(batch, None if z is None else z[:, rows], revealed)
            total.index_add_(1, rows, precise(found).expand(count, -1))
        return total

    start = MaskedBatch.all_masked(x0, model.mask_value)
    found = model.latent.log_marginal(score, start, states.scored, particles, generator).cpu().double()
    # Of nothing but pads the joint is 1, which the particles would only estimate.
    return found.masked_fill(~states.scored.any(dim=1).cpu(), 0.0)


def _with_defaults(particles: Particles | int, generator: torch.Generator | None) -> tuple[Particles, torch.Generator]:
    particles = Particles(particles) if isinstance(particles, int) else particles
    return particles, torch.Generator().manual_seed(0) if generator is None else generator


def _log_joint(
    model: MaskedDiffusion, batch: MaskedBatch, revealed: Tensor, particles: Particles, generator: torch.Generator
) -> Tensor:
    """log p(x_U | x_t) with the latent integrated out, (B,) float64, for the positions U of ``revealed`` (B, N)."""

    def score(z: Tensor | None) -> Tensor:
        return model.log_likelihood(batch, z, revealed)

    return model.latent.log_marginal(score, batch, revealed, particles, generator).cpu().double()


@torch.no_grad()
def elbo(model: MaskedDiffusion, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """A lower bound of log p(x0) for a model without a latent, from ``draws`` masks for each example; the likelihood
    itself where the model has it.
    """
    if not model.latent.absent:
        raise UserError("with a latent the ELBO's integral is not a bound of the likelihood; use the step bound")
    if (at_once := model.log_likelihood_in_one_pass(x0)) is not None:
        return at_once.cpu().double()
    particles, generator = _with_defaults(1, generator)
    if (shares := model.label_shares) is None:
        return _integral(model, x0, draws, particles, generator)

    def given(label: int) -> Tensor:
        return _integral(model.labelled(label), x0, draws, particles, generator)

    # sum_y q_y (log pi_y + b_y - log q_y) is linear in the draws b_y, and q does not depend on them.
    log_q = _each_label(given, shares).log_softmax(dim=0)
    return (log_q.exp() * (_each_label(given, shares) - log_q)).nan_to_num(0.0).sum(dim=0)


def _each_label(given: Callable[[int], Tensor], shares: Tensor) -> Tensor:
    """log pi_y + given(y) for all labels y that there are, (labels, B)."""
    return torch.stack([shares[label].log() + given(label) for label in shares.nonzero()[:, 0].tolist()])


@torch.no_grad()
def k_sample_delbo(
    model: MaskedDiffusion,
    x0: Tensor,
    particles: Particles | int,
    draws: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The paper's eq. 20. **Not a likelihood bound.**

    As in the paper all K particles come from the recognition model, for each of ``draws`` masks.
    """
    particles, generator = _with_defaults(particles, generator)
    return _integral(model, x0, draws, replace(particles, proposals=("recognition",)), generator)


def _integral(
    model: MaskedDiffusion, x0: Tensor, draws: int, particles: Particles, generator: torch.Generator
) -> Tensor:
    """The mean over ``draws`` masks of w(t) log p(x_S | x_t), all masked positions that are scored at once."""
    if not model.counts_masks:
        raise UserError(
            "the ELBO and the DELBO are sums over numbers of masked positions, which are not enough for this "
            "model's noise; use the step bound"
        )
    if draws < 1:
        raise UserError(f"the number of masks drawn for each example must be at least 1, not {draws}")
    total = torch.zeros(len(x0), dtype=torch.float64)
    repeated = torch.arange(len(x0), device=x0.device).repeat_interleave(draws)
    # The masks of each example are spread evenly over k = 1..N.
    shifts = torch.rand(len(x0), 1, generator=generator, dtype=torch.float64)
    uniforms = ((shifts + torch.arange(draws)) / draws).flatten()
    masking = ExactCount().from_uniforms(uniforms, x0.shape[1], model.schedule, generator).to(x0.device)
    scored = masking.masked & model.scored(x0)[repeated]
    counted = scored.any(dim=1).nonzero()[:, 0]  # where only pads are masked there is nothing to explain
    for part in torch.split(counted, particles.rows_per_call) if len(counted) else ():
        rows, chosen = repeated[part], masking[part]
        batch = MaskedBatch.of(x0[rows], chosen, model.mask_value)
        joint = _log_joint(model, batch, scored[part], particles, generator)
        total.index_add_(0, rows.cpu(), chosen.weight.cpu().double() * joint)
    return total / draws
