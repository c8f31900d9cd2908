r"""Masked diffusion, its bounds, and the paper's number, which is not one. With a latent it is VADD; without, MDLM.

**Step bound**, valid for any latent and any sampler that plans ahead; :mod:`vadd.core.paths` has the others. Let
:math:`U_i` be the positions that the sampler reveals at its i-th step; for Algorithm 2 on the grid
:math:`0 = t_0 < \dots < t_T = 1` those that the forward process masks between :math:`t_{i-1}` and :math:`t_i`. The
plan does not depend on the values, so

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.core.base import Model
from vadd.core.gaussian import Particles
from vadd.core.host import Noise, Where, at_least_single, precise, summed_by_row, upload
from vadd.core.latents import Evidence, changed
from vadd.core.masking import ExactCount, MaskedBatch, Masking
from vadd.core.paths import ForcedPaths
from vadd.core.samplers import AdaptiveSampler, EntropyBounded, FirstHitting, InOrder, Ordered, Parallel, Remask
from vadd.core.sampling import Ancestral, Drawing, LikelihoodKind, PlannedSampler, RevealPlan, Sampler, TokenSampler
from vadd.errors import UserError


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
        "left-to-right": InOrder(),
        "confidence": Ordered("confidence"),
        "margin": Ordered("margin"),
        "entropy": Ordered("entropy"),
        "entropy-bounded": EntropyBounded(),
        "remask": Remask("capped"),
        "remask-rescaled": Remask("rescaled"),
    }
    law: TokenSampler | None = None
    """How values are drawn that likelihoods are of, where not from the predictions as they are."""

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """Of the masked values that are scored.

        Where none is, the mask weighs nothing: else the KL would make the integral over t diverge near t = 0.
        """
        where = self.asked(batch.x0, batch.masked)
        places = self.places(batch.where(where))
        score = partial(self.log_likelihood, batch, where=places)
        # At t = 0, where nothing is masked, w(t) is infinite: a product would be no number.
        weight = torch.where(where.any(dim=1).to(batch.t.device), batch.masking.weight, 0.0)
        return self.latent.evidence(score, batch, weight, kl_weight, generator)

    def log_likelihood(self, batch: MaskedBatch, z: Tensor | None, where: Where) -> Tensor:
        r"""sum_{i in where} log mu_i(x_t, z, t)[x0_i], for K latents at once: z (K, B, d) or None (K = 1) gives
        (K, B).
        """
        particles = 1 if z is None else z.shape[0]
        size = len(batch.x0)
        xt, t, flat_z = batch.xt, batch.t, None if z is None else z[0]
        if z is not None and particles > 1:
            # Copy after copy of the batch, in the order of z flattened: the k-th copy has the k-th draw.
            xt, t, flat_z = xt.repeat(particles, 1), t.repeat(particles), z.flatten(0, 1)
        places = self.places(where)
        truth, places = places.values(batch.x0).repeat(particles), places.repeated(particles)
        logits = at_least_single(self.predict(xt, flat_z, t, places))
        if self.law is None:
            log_mu = -F.cross_entropy(logits, truth, reduction="none")
        else:
            log_mu = self.law.log_probabilities(logits).gather(1, truth[:, None])[:, 0]
        return summed_by_row(log_mu, places).view(particles, size)

    def drawn_by(self, token_sampler: TokenSampler) -> Self:
        """The same networks, with likelihoods of values that are drawn by temperature, top-k and top-p."""
        return changed(self, law=token_sampler)

    def likelihood_kind(self, steps: int, how: Drawing | None = None) -> LikelihoodKind:
        how = Drawing() if how is None else how
        sampler = how.sampler or self.samplers["ancestral"]
        if how.token_sampler.precision == "float32":
            return LikelihoodKind("none", "draws in float32 have no law that can be written down")
        if how.z is not None:
            return LikelihoodKind("none", "its latents were given and not drawn")
        if not isinstance(sampler, PlannedSampler | AdaptiveSampler | Remask):
            return LikelihoodKind("none", "it does not draw from the model's own distribution")
        if min(steps, self.positions) == 1 and self.latent.exact:
            return LikelihoodKind("exact", "everything is revealed at once")
        if isinstance(sampler, PlannedSampler):
            if sampler.one_plan and self.latent.exact:
                return LikelihoodKind("exact", "the order is always the same")
            return LikelihoodKind("bound", "Jensen's inequality over plans")
        if isinstance(sampler, Remask):
            return LikelihoodKind("bound", "Jensen's inequality over what is masked again")
        by_chance = sampler.looks_at_values and how.token_sampler.temperature > 0
        if by_chance and not isinstance(sampler, Ordered):
            return LikelihoodKind("none", "its order depends on values that are drawn and thrown away")
        if by_chance:
            return LikelihoodKind("bound", "Jensen's inequality over orders")
        if self.latent.absent or (self.latent.exact and how.latent_policy == "fixed"):
            return LikelihoodKind("exact", "the order is a function of the sequence")
        return LikelihoodKind("bound", "the order is a function of the sequence and z, which is estimated")

    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        """With a fresh latent at each step or one z for all of them."""
        x0 = x0.cpu()
        if self.latent.label_shares is None:
            return self._bound(x0, steps, particles, generator, how).cpu().double()
        # The same plan for every label, and the same particles.
        seed = int(torch.randint(2**62, (), generator=generator))

        def given(model: MaskedDiffusion) -> Tensor:
            return model._bound(x0, steps, particles, torch.Generator().manual_seed(seed), how)

        return self._each_label(given).cpu().double().logsumexp(dim=0)

    def _bound(self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing) -> Tensor:
        """Of examples on the host, (B,), still on the device."""
        sampler = how.sampler or self.samplers["ancestral"]
        if steps == 1 and not isinstance(sampler, PlannedSampler):
            sampler = Ancestral()  # in one step they are all the same
        if not isinstance(sampler, PlannedSampler):
            return ForcedPaths(self, steps, how).log_likelihood(x0, particles, generator)
        if not how.token_sampler.exact:
            how, drawn = replace(how, token_sampler=TokenSampler()), self.drawn_by(how.token_sampler)
            return drawn._bound(x0, steps, particles, generator, how)
        everything = torch.ones_like(x0, dtype=torch.bool)
        # Drawn before any particle: with the same seed the plan is the same for every choice of proposals.
        plan = sampler.plan(everything, steps, self.schedule, how.grid, Noise.of(generator, len(x0)))
        states = _States(self, x0, plan)
        if how.latent_policy == "fixed":
            return self._one_latent(states, particles, generator)
        total = precise(torch.zeros(len(x0), device=self.device))
        for tasks in _split(states.tasks, particles.rows_per_call):
            rows, batch, revealed = states[tasks]
            total.index_add_(0, rows, self.log_joint(particles, generator, batch, revealed))
        return total

    def log_joint(
        self, particles: Particles, generator: torch.Generator, batch: MaskedBatch, revealed: Tensor
    ) -> Tensor:
        """log p(x_U | x_t) with the latent integrated out, (B,) float64, for the positions U of ``revealed`` (B, N)."""
        places = self.places(batch.where(revealed))
        score = partial(self.log_likelihood, batch, where=places)
        return precise(self.latent.log_marginal(score, batch, revealed, particles, generator))

    def _one_latent(self, states: "_States", particles: Particles, generator: torch.Generator) -> Tensor:
        """log (1/K) sum_k p(z_k) / g(z_k) prod_i prod_{j in U_i} mu_j(x_{t_i}, z_k)[x0_j]: whole trajectories, one
        plan.
        """
        x0 = states.x0.to(self.device)

        def score(z: Tensor | None) -> Tensor:
            count = 1 if z is None else z.shape[0]
            total = precise(torch.zeros(count, len(x0), device=x0.device))
            for tasks in torch.split(states.tasks, max(1, particles.rows_per_call // count)):
                rows, batch, revealed = states[tasks]
                scores = self.log_likelihood(batch, None if z is None else z[:, rows], batch.where(revealed))
                total.index_add_(1, rows, precise(scores).expand(count, -1))
            return total

        start, scored = MaskedBatch.all_masked(x0, self.mask_value), states.scored.to(self.device)
        joint = precise(self.latent.log_marginal(score, start, scored, particles, generator))
        # Of nothing but pads the joint is 1, which the particles would only estimate.
        return joint.masked_fill(~scored.any(dim=1), 0.0)

    @torch.no_grad()
    def elbo(self, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        if not self.latent.absent:
            raise UserError("with a latent the ELBO's integral is not a bound of the likelihood; use the step bound")
        particles, generator = Particles(1), generator or torch.Generator().manual_seed(0)

        def given(model: MaskedDiffusion) -> Tensor:
            return mask_integral(model, x0, draws, generator, partial(model.log_joint, particles, generator))

        if self.latent.label_shares is None:
            return given(self)
        # sum_y q_y (log pi_y + b_y - log q_y) is linear in the draws b_y, and q does not depend on them.
        log_q = self._each_label(given).log_softmax(dim=0)
        return (log_q.exp() * (self._each_label(given) - log_q)).nan_to_num(0.0).sum(dim=0)

    def _each_label(self, given: "Callable[[MaskedDiffusion], Tensor]") -> Tensor:
        """log pi_y + what is ``given`` by the model of the label y, for all that there are, (labels, B)."""
        shares = self.latent.label_shares
        assert shares is not None
        labels = shares.nonzero()[:, 0].tolist()
        return torch.stack([float(shares[y].log()) + given(self.labelled(y, self.guidance)) for y in labels])


def _split(tasks: Tensor, size: int) -> Sequence[Tensor]:
    """torch.split makes one empty part of nothing, which no network should see."""
    return torch.split(tasks, size) if len(tasks) else ()


class _States:
    """The states of the sampler on its way to x0 (B, N): for every example those before a step that reveals something
    scored. They are made on the host.

    Short examples leave most of many steps empty, and these cost nothing.
    """

    def __init__(self, model: MaskedDiffusion, x0: Tensor, plan: RevealPlan) -> None:
        self.model, self.x0, self.plan = model, x0, plan
        self.scored = model.scored(x0)
        rows = torch.arange(len(x0))[:, None].expand_as(x0)
        # Several positions of an example may be revealed at the same step: one task for all of them.
        self.tasks = torch.unique(torch.stack([rows[self.scored], plan.step_of[self.scored]], dim=1), dim=0)
        """(M, 2): example and step."""

    def __getitem__(self, tasks: Tensor) -> tuple[Tensor, MaskedBatch, Tensor]:
        """For some of the tasks: their examples (m,), the states before the steps, and what is revealed (m, N), all on
        the device.
        """
        rows, step = tasks.T
        step_of = self.plan.step_of[rows]
        revealed = (step_of == step[:, None]) & self.scored[rows]
        t = self.plan.times[rows, step].to(torch.float32)
        masking = Masking(step_of <= step[:, None], t, torch.ones_like(t))
        batch = self.model.batch(self.x0[rows], masking, where=revealed)
        (rows,) = upload([rows], self.model.device)
        return rows, batch, revealed if batch.places is None else batch.places.mask


def step_bound(
    model: Model,
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


def elbo(model: Model, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
    """A lower bound of log p(x0), see :meth:`vadd.core.base.Model.elbo`."""
    return model.elbo(x0, draws, generator)


@torch.no_grad()
def k_sample_delbo(
    model: MaskedDiffusion, x0: Tensor, particles: Particles | int, draws: int, generator: torch.Generator | None = None
) -> Tensor:
    """The paper's eq. 20. **Not a likelihood bound.**

    As in the paper all K particles come from the recognition model, for each of ``draws`` masks.
    """
    generator = generator or torch.Generator().manual_seed(0)
    particles = Particles(particles) if isinstance(particles, int) else particles
    log_joint = partial(model.log_joint, replace(particles, proposals=("recognition",)), generator)
    return mask_integral(model, x0, draws, generator, log_joint, particles.rows_per_call)


def mask_integral(
    model: Model,
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
    x0 = x0.cpu()
    repeated = torch.arange(len(x0)).repeat_interleave(draws)
    # The masks of each example are spread evenly over k = 1..N.
    shifts = torch.rand(len(x0), 1, generator=generator, dtype=torch.float64)
    uniforms = ((shifts + torch.arange(draws)) / draws).flatten()
    masking = ExactCount().from_uniforms(uniforms, x0.shape[1], model.schedule, generator)
    scored = masking.masked & model.scored(x0)[repeated]
    counted = scored.any(dim=1).nonzero()[:, 0]  # where only pads are masked nothing is scored
    total = precise(torch.zeros(len(x0), device=model.device))
    for part in _split(counted, rows_per_call):
        rows, chosen, where = repeated[part], masking[part], scored[part]
        batch = model.batch(x0[rows], chosen, where=where)
        joint = precise(log_joint(batch, where if batch.places is None else batch.places.mask))
        (rows,) = upload([rows], model.device)
        total.index_add_(0, rows, precise(batch.masking.weight) * joint)
    return total.cpu().double() / draws
