r"""Divergences between distributions on a finite grid; exact distributions of samplers on two positions.

``jsd`` is the Jensen-Shannon divergence in nats, at most ln 2. ``paper_js`` reproduces what the paper tabulates under
that name, whose values exceed ln 2: the mean of the two Kullback-Leibler divergences after 1e-6 is added to every
bin. Both are biased upwards for samples, so they mean something only beside their *floor*: the same number between
two independent samples of the truth.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vadd.core import MaskedDiffusion, Model
from vadd.core.sampling import Grid, step_grid
from vadd.evaluation.reports import NearestReport, NearestSamples
from vadd.kinds.arrays import Array
from vadd.models import Autoregressive
from vadd.progress import Progress, silent

Divergence = Callable[[Array, Array], float]

PAPER_EPSILON = 1e-6
MAX_PAIRS = 200
CHUNK = 16384


def histogram(tokens: Array, vocab_size: int) -> Array:
    """The empirical distribution of examples (n, N), an array of shape (vocab_size,) * N that sums to 1."""
    positions = tokens.shape[1]
    shape = (vocab_size,) * positions
    flat = np.ravel_multi_index(tuple(tokens.T), shape)
    return np.bincount(flat, minlength=vocab_size**positions).reshape(shape) / len(tokens)


def entropy(p: Array) -> float:
    """The entropy in nats."""
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def mutual_information(p: Array) -> float:
    """The mutual information of the coordinates of a distribution (V, V), in nats: what a factorised model loses in one
    step.
    """
    return entropy(p.sum(axis=0)) + entropy(p.sum(axis=1)) - entropy(p)


def kl_divergence(p: Array, q: Array) -> float:
    """KL(p || q) in nats; infinite where q misses what p has."""
    support = p > 0
    # Division by 0 is meant: infinity is the answer where q misses what p has.
    with np.errstate(divide="ignore"):
        return float((p[support] * np.log(p[support] / q[support])).sum())


def jsd(p: Array, q: Array) -> float:
    """The mean KL from both to their middle, in nats."""
    # 2 p / (p + q) and not p / ((p + q) / 2): half of the smallest of all numbers is zero.
    both = p + q
    ratios = [(one[one > 0], 2 * one[one > 0] / both[one > 0]) for one in (p, q)]
    total = sum(float((weights * np.log(ratio)).sum()) for weights, ratio in ratios)
    # Rounding can leave identical arguments a hair below zero.
    return max(0.0, total / 2)


def paper_js(p: Array, q: Array) -> float:
    """What the paper calls JS."""
    p, q = (array + PAPER_EPSILON for array in (p, q))
    p, q = p / p.sum(), q / q.sum()
    return (kl_divergence(p, q) + kl_divergence(q, p)) / 2


def draw_histogram(p: Array, count: int, rng: np.random.Generator) -> Array:
    """The empirical distribution of ``count`` draws from p."""
    return rng.multinomial(count, (p / p.sum()).ravel()).reshape(p.shape) / count


def sampling_floor(divergence: Divergence, p: Array, count: int, seed: int = 0, repeats: int = 20) -> float:
    """The mean divergence between two independent samples of ``count`` draws from the truth itself."""
    rng = np.random.default_rng(seed)
    pairs = ((draw_histogram(p, count, rng), draw_histogram(p, count, rng)) for _ in range(repeats))
    return float(np.mean([divergence(a, b) for a, b in pairs]))


def position_pairs(positions: int, seed: int = 0, most: int = MAX_PAIRS) -> Array:
    """All pairs i < j, or ``most`` of them at random: (pairs, 2). A single position is compared by itself: [[0]]."""
    if positions == 1:
        return np.zeros((1, 1), dtype=np.int64)
    pairs = np.stack(np.triu_indices(positions, k=1), axis=1)
    # A large image has half a million pairs; the mean over a few hundred of them is accurate enough.
    if len(pairs) > most:
        pairs = pairs[np.random.default_rng(seed).choice(len(pairs), most, replace=False)]
    return pairs


def pair_jsd(a: Array, b: Array, vocab_size: int, pairs: Array) -> float:
    """The mean over ``pairs`` of the divergence between the pair's histograms in ``a`` (n, N) and ``b`` (m, N)."""
    return float(np.mean([jsd(histogram(a[:, pair], vocab_size), histogram(b[:, pair], vocab_size)) for pair in pairs]))


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
    r"""The exact distribution (V, V) of a sampler's output on two positions, up to the quadrature over z.

    The T-step sampler reveals both positions in one step, or one and then the other. Writing J_i for the joint
    :math:`E_z[\mu_1 \mu_2]` at the i-th time, m_i for its marginals and c_j for the conditional :math:`E_z[\mu]` once
    a position is known,

    .. math:: p_T = \sum_i \Delta_i^2 J_i + \sum_{j < i} \Delta_i \Delta_j (m^1_i c^2_j + m^2_i c^1_j),

    where Delta_i is the probability that a position is revealed at step i. It holds for a fresh latent at each step.
    Conditionals are smooth in z and there are 2 V of them, so they get 1/64 of the nodes of the joint.
    """

    def __init__(self, model: Model, nodes: int = 2**16) -> None:
        if model.positions != 2:
            raise ValueError(f"exact distributions are for two positions, not {model.positions}")
        self.model = model
        self.nodes = nodes
        # Predictions are kept, so that many step counts cost little more than one.
        self._joint = cache(self._compute_joint)
        self._conditional = cache(self._compute_conditional)

    @classmethod
    def of(cls, model: Model) -> "ExactDistributions | None":
        """Where the model's sampler reveals masked positions, or its likelihood is exact; not where one label is drawn
        and kept for all steps.
        """
        known = model.positions == 2 and type(model) in (MaskedDiffusion, Autoregressive)
        return cls(model) if known and model.latent.label_shares is None else None

    def after(self, steps: int, grid: Grid = "uniform") -> Tensor:
        values = torch.arange(self.model.vocab_size, device=self.model.device)
        if isinstance(self.model, Autoregressive):
            with torch.no_grad():
                return self.model.log_likelihood(torch.cartesian_prod(values, values)).exp().view(len(values), -1)
        times = step_grid(steps, grid)
        # A position is revealed at step i if it was masked between the times i - 1 and i.
        reveal = -self.model.schedule.alpha(times).diff()
        # Without time input the prediction is the same at every time.
        keys = times.tolist() if self.model.denoiser.uses_time else [1.0] * len(times)
        result = torch.zeros(len(values), len(values), dtype=torch.float64, device=self.model.device)
        for i in range(steps, 0, -1):
            (first, second), together = self._joint(keys[i])
            result += reveal[i - 1] ** 2 * together
            for j in range(i - 1, 0, -1):
                then_second, then_first = self._conditional(keys[j])
                in_order = first[:, None] * then_second + (second[:, None] * then_first).T
                result += reveal[i - 1] * reveal[j - 1] * in_order
        return result

    def _compute_joint(self, t: float) -> tuple[Tensor, Tensor]:
        """The marginals (2, V) and the joint (V, V) when nothing is known."""
        all_masked = torch.full((1, 2), self.model.mask_value)
        marginals, together = mean_prediction(self.model, all_masked, t, self.nodes)
        return marginals[0], together

    def _compute_conditional(self, t: float) -> tuple[Tensor, Tensor]:
        """p(second | first) and p(first | second), the known value down: (V, V) each."""
        known = torch.arange(self.model.vocab_size)
        masked = torch.full_like(known, self.model.mask_value)
        nodes = max(1, self.nodes // 64)
        given_first, _ = mean_prediction(self.model, torch.stack([known, masked], dim=1), t, nodes)
        given_second, _ = mean_prediction(self.model, torch.stack([masked, known], dim=1), t, nodes)
        return given_first[:, 1], given_second[:, 0]


COMPARED = 1000
"""Samples for each number of steps, and held-out examples."""
NUMBERS_AT_ONCE = 2**25
MOST_ONE_HOT = 64
"""Values up to which the agreement of two sequences is cheapest as a product of one-hot vectors."""


def nearest_report(
    samples: Mapping[int, Tensor], held_out: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent
) -> NearestReport:
    """``samples`` (n, N) by number of steps; of all at most the first :data:`COMPARED` are compared."""
    parts = [held_out[:COMPARED], *(drawn[:COMPARED] for drawn in samples.values())]
    distances = distances_to_nearest(torch.cat([part.long() for part in parts]), training, vocab_size, progress)
    own, *drawn = (part.double() for part in torch.split(distances, [len(part) for part in parts]))
    near = own.quantile(0.05, interpolation="lower")

    def of(steps: int, part: Tensor) -> NearestSamples:
        copies, closer = float((part == 0).double().mean()), float((part < near).double().mean())
        return NearestSamples(steps=steps, median=float(part.median()), copies=copies, closer=closer)

    real = of(0, own)
    return NearestReport(
        samples=tuple(map(of, samples, drawn)),
        held_out=real.median,
        held_out_copies=real.copies,
        held_out_closer=real.closer,
        compared=COMPARED,
    )


def distances_to_nearest(x: Tensor, training: Tensor, vocab_size: int, progress: Progress = silent) -> Tensor:
    """For each of the examples (n, N) the smallest number of positions in which one of (m, N) differs from it: (n,).

    >>> distances_to_nearest(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 1, 1], [0, 0, 2]]), vocab_size=3)
    tensor([1])
    """
    positions = x.shape[1]
    nearest = torch.full((len(x),), positions, dtype=torch.int64)
    one_hot = vocab_size <= MOST_ONE_HOT

    def readable(values: Tensor) -> Tensor:
        """One-hot vectors (n, N * V), whose products count agreements, or the values themselves; exact in float32."""
        values = values.cpu().long()
        return (F.one_hot(values, vocab_size).flatten(1) if one_hot else values).float()

    wanted, done = readable(x), 0
    for part in torch.split(training, max(1, NUMBERS_AT_ONCE // max(wanted.shape[1], len(x)))):
        known = readable(part)
        if one_hot:
            differing = positions - (wanted @ known.T).max(dim=1).values
        else:
            differing = torch.cdist(wanted, known, p=0).min(dim=1).values
        nearest = torch.minimum(nearest, differing.round().long())
        done += len(part)
        progress("looking for the nearest training examples", done, len(training))
    return nearest
