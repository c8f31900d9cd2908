"""The exact laws of samplers that plan ahead, and the expectations of their bounds, by enumeration of their plans.

Given a plan, a sequence has probability prod_steps E_z prod_{i revealed} mu_i(x_t, z, t)[x_i]: the law is its mean over
the plans, the bound the mean of its logarithm. Nothing here uses the package's samplers or schedules.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from tests.helpers.bounds import NO_LATENT, Inner, PriorGrid, log_mean
from tests.helpers.exact import (
    ConstantRecognizer,
    KnownSchedule,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    index_of,
)
from vadd.core import GaussianLatent, MaskedDiffusion

ROWS_AT_ONCE = 200_000
PRIOR = PriorGrid.even(160)


@dataclass(frozen=True)
class Plans:
    """All plans that a sampler may make for one start, in the package's own terms: steps count down from T to 1."""

    probabilities: Tensor
    """(P,)."""
    step_of: Tensor
    """(P, N): the step at which a position is revealed, 0 where it is known from the start."""
    times: Tensor
    """(P, T + 1): the time before each step."""


Planner = Callable[[list[bool], KnownSchedule], Plans]
"""(hidden (N,), schedule) -> every plan."""


def time_of(known: KnownSchedule, fraction: float) -> float:
    """The time whose masked fraction is the given one, by root finding."""
    if fraction in (0.0, 1.0):
        return fraction
    return float(optimize.brentq(lambda t: 1 - known.alpha(t) - fraction, 0, 1, xtol=1e-14))


def _over_the_hidden(hidden: list[bool], assignments: Tensor) -> Tensor:
    """Steps for the hidden positions (P, H) -> steps for all (P, N)."""
    step_of = torch.zeros(len(assignments), len(hidden), dtype=torch.int64)
    step_of[:, torch.tensor(hidden)] = assignments
    return step_of


def ancestral(grid: list[float]) -> Planner:
    """Every hidden position falls into an interval of the grid, independently. The grid shrinks to the time whose
    masked fraction is the share of the hidden positions.
    """

    def plans(hidden: list[bool], known: KnownSchedule) -> Plans:
        fraction = sum(hidden) / len(hidden)
        times = [time_of(known, fraction) * t for t in grid]
        level = torch.tensor([1 - known.alpha(t) for t in times], dtype=torch.float64)
        assignments = all_sequences(sum(hidden), len(grid) - 1) + 1
        probabilities = (level.diff() / fraction)[assignments - 1].prod(1)
        return Plans(
            probabilities,
            _over_the_hidden(hidden, assignments),
            torch.tensor(times, dtype=torch.float64).expand(len(assignments), -1),
        )

    return plans


def parallel(steps: int) -> Planner:
    """All ways to reveal ceil(left / steps left) at every step, each as likely."""

    def plans(hidden: list[bool], known: KnownSchedule) -> Plans:
        left = [sum(hidden)]
        for steps_left in range(steps, 0, -1):
            left.insert(0, left[0] - math.ceil(left[0] / steps_left))
        assignments = all_sequences(sum(hidden), steps) + 1
        counts = torch.stack([(assignments == step).sum(1) for step in range(1, steps + 1)], dim=1)
        assignments = assignments[(counts == torch.tensor(left).diff()).all(1)]
        times = torch.tensor([time_of(known, count / len(hidden)) for count in left], dtype=torch.float64)
        uniform = torch.full((len(assignments),), 1 / len(assignments), dtype=torch.float64)
        return Plans(uniform, _over_the_hidden(hidden, assignments), times.expand(len(assignments), -1))

    return plans


def in_order(steps: int) -> Planner:
    """The one of these that goes from left to right."""

    def plans(hidden: list[bool], known: KnownSchedule) -> Plans:
        every = parallel(steps)(hidden, known)
        falling = (every.step_of[:, torch.tensor(hidden)].diff(dim=1) <= 0).all(dim=1)
        return Plans(torch.ones(1, dtype=torch.float64), every.step_of[falling], every.times[falling])

    return plans


def first_hitting(nodes: int) -> Planner:
    """All orders, and the masked fractions at which they happen by Gauss-Legendre: of k that are left, the first one is
    revealed at v times the fraction of the one before, where v has the density k v^(k - 1).
    """

    def plans(hidden: list[bool], known: KnownSchedule) -> Plans:
        positions, count = len(hidden), sum(hidden)
        legendre, weights = np.polynomial.legendre.leggauss(nodes)
        ratios, weights = (legendre + 1) / 2, weights / 2
        probabilities, times = [], []
        for chosen in itertools.product(range(nodes), repeat=count):
            level, probability, told = count / positions, 1.0, [0.0] * (positions + 1)
            for k, node in zip(range(count, 0, -1), chosen, strict=True):
                level, probability = level * ratios[node], probability * weights[node] * k * ratios[node] ** (k - 1)
                told[positions - count + k] = time_of(known, level)
            probabilities.append(probability)
            times.append(told)
        orders = torch.tensor(list(itertools.permutations(range(positions - count + 1, positions + 1))))
        share = torch.tensor(probabilities, dtype=torch.float64) / len(orders)
        return Plans(
            share.repeat_interleave(len(orders)),
            _over_the_hidden(hidden, orders.repeat(len(share), 1)),
            torch.tensor(times, dtype=torch.float64).repeat_interleave(len(orders), dim=0),
        )

    return plans


@torch.no_grad()
def step_log_likelihoods(denoiser: TableDenoiser, prior: PriorGrid, plans: Plans, x0: Tensor, step: int) -> Tensor:
    """log prod_{i revealed at the step} mu_i(x_t, z, t)[x0_i] for every z, plan and x0 (X, N): (Z, P, X)."""
    shape = (len(prior.z), len(plans.step_of), len(x0))
    steps = plans.step_of[None, :, None].expand(*shape, -1).flatten(0, 2)
    clean = x0.expand(*shape, -1).flatten(0, 2)
    xt = clean.masked_fill((steps > 0) & (steps <= step), denoiser.vocab_size)
    z = prior.z[:, None, None].expand(*shape, -1).flatten(0, 2)
    t = plans.times[None, :, step, None].expand(shape).flatten()
    log_mu = denoiser(xt, z, t, torch.ones_like(xt, dtype=torch.bool)).view(*xt.shape, -1).log_softmax(-1)
    chosen: Tensor = log_mu.gather(-1, clean[..., None])[..., 0]
    return chosen.masked_fill(steps != step, 0.0).sum(-1).view(shape)


def plan_log_likelihoods(
    denoiser: TableDenoiser,
    prior: PriorGrid,
    plans: Plans,
    x0: Tensor,
    *,
    fixed_z: bool = False,
    inner: Inner = log_mean,
) -> Tensor:
    """log p(x0 | plan) for every plan and every x0 (X, N): (P, X)."""
    size = max(1, ROWS_AT_ONCE // (len(prior.z) * len(x0)))
    found = []
    for first in range(0, len(plans.step_of), size):
        part = slice(first, first + size)
        some = Plans(plans.probabilities[part], plans.step_of[part], plans.times[part])
        steps = [
            step_log_likelihoods(denoiser, prior, some, x0, step).flatten(1)
            for step in range(plans.times.shape[1] - 1, 0, -1)
        ]
        flat = (
            inner(sum(steps, torch.zeros(())), prior.weights)
            if fixed_z
            else sum(inner(s, prior.weights) for s in steps)
        )
        assert isinstance(flat, Tensor)
        found.append(flat.view(-1, len(x0)))
    return torch.cat(found)


def prior_of(denoiser: TableDenoiser) -> PriorGrid:
    return PRIOR if denoiser.latent else NO_LATENT


def planned_law(
    denoiser: TableDenoiser,
    known: KnownSchedule,
    planner: Planner,
    start: list[int] | None = None,
    *,
    fixed_z: bool = False,
    prior: PriorGrid | None = None,
    move_times: float = 0.0,
) -> Tensor:
    """The law of the output, (V ** N,). ``start`` holds the mask value V where something is to be filled.

    ``move_times`` tells the denoiser wrong times, to see whether a comparison would notice.
    """
    mask = denoiser.vocab_size
    first = torch.tensor([mask] * denoiser.positions if start is None else start)
    plans = planner((first == mask).tolist(), known)
    plans = replace(plans, times=plans.times + move_times)
    x0 = all_sequences(denoiser.positions, denoiser.vocab_size)
    x0 = x0[((x0 == first) | (first == mask)).all(1)]
    log_likelihoods = plan_log_likelihoods(denoiser, prior or prior_of(denoiser), plans, x0, fixed_z=fixed_z)
    law = torch.zeros(denoiser.vocab_size**denoiser.positions, dtype=torch.float64)
    law[index_of(x0, denoiser.vocab_size)] = plans.probabilities @ log_likelihoods.exp()
    return law


def any_order_law(denoiser: TableDenoiser) -> Tensor:
    """The model that reveals one position after the other, in every order with the same probability, each from its
    marginal E_z mu_i: (V ** N,). For denoisers without time input, written without plans.
    """
    positions, values, prior = denoiser.positions, denoiser.vocab_size, prior_of(denoiser)
    states = all_sequences(positions, values + 1)
    nodes = len(prior.z)
    with torch.no_grad():
        logits = denoiser(
            states.repeat(nodes, 1),
            prior.z.repeat_interleave(len(states), dim=0),
            torch.zeros(nodes * len(states)),
            torch.ones(nodes * len(states), positions, dtype=torch.bool),
        )
    mu = logits.view(nodes, len(states), positions, values).softmax(-1)
    marginal = (prior.weights @ mu.flatten(1)).view(len(states), positions, values)
    orders = list(itertools.permutations(range(positions)))
    law = []
    for sequence in all_sequences(positions, values):
        probability = 0.0
        for order in orders:
            state, product = torch.full((positions,), values), 1.0
            for i in order:
                product *= float(marginal[index_of(state[None], values + 1), i, sequence[i]])
                state[i] = sequence[i]
            probability += product / len(orders)
        law.append(probability)
    return torch.tensor(law, dtype=torch.float64)


def model_of(denoiser: TableDenoiser, known: KnownSchedule) -> MaskedDiffusion:
    """VADD if the denoiser takes a latent, MDLM if not."""
    latent = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1) if denoiser.latent else None
    return MaskedDiffusion(denoiser, known.schedule, latent)


def p_value(tokens: Tensor, law: Tensor, values: int) -> float:
    """Chi-square of sequences (n, N) against a law (V ** N,)."""
    return chi_square_p_value(index_of(tokens, values).bincount(minlength=len(law)).numpy(), law.numpy())
