r"""The likelihood of samplers that look at predictions or mask again: along the paths that lead to a given x0.

**A rule without chance.** Where the positions revealed at a step are a function of the state and z, so is the whole
path to x0 given z, and :math:`p(x_0 \mid z) = \prod_i \prod_{j \in U_i} q_j(x_{t_i}, z)[x_{0,j}]` with q the law that
values are drawn from: one pass a step, and nothing is left out. Without a latent that is the likelihood itself.

**Confidence** orders positions by the values drawn, also by those that are thrown away, so several paths lead to x0.
Given z a step reveals U and shows x0 there if the least sure position m of U has probability c of its value, and all
hidden positions outside U draw one that is less sure: with :math:`F_i(m)` the probability of that,

.. math:: P(U, x_{0,U} \mid x_t) = \prod_{j \in U} q_j[x_{0,j}] \prod_{i \notin U} F_i(m).

For each m the sum over all U is a sum of products over subsets, done position by position. A path draws U from its
posterior, and the probability of a step is the sum over m.

**Remasking** tosses its coins whatever the values are. What is masked again may hold any value, so that a path draws it
from q itself; only what stays must be that of x0: the mean of :math:`\prod_j q_j[x_{0,j}]` over such paths, each
position counted when it is revealed for the last time, is the likelihood.

Paths and new latents at each step are drawn by a particle filter, one z for all steps by importance sampling. Both are
unbiased estimates of :math:`p(x_0)`, whose logarithm does not exceed :math:`\log p(x_0)` in expectation.

Samplers that reveal a number of positions which is known before take a look at the device at the end only. Where the
number depends on what they see, or on which paths were drawn again, it is read once a step.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vadd.core.gaussian import Particles
from vadd.core.host import Places, precise, upload
from vadd.core.masking import MaskedBatch, Masking
from vadd.core.samplers import AdaptiveSampler, Ordered, Remask, shares
from vadd.core.sampling import Drawing, inverted, on_the_grid
from vadd.core.subsets import drawn_subset, log_subset_sums

if TYPE_CHECKING:
    from vadd.core.base import Model

AT_ONCE = 1 << 22
"""Numbers in float64 of the largest tensors."""


@dataclass
class Rows:
    """Sequences x0 (R, N) on their way from all masked."""

    x0: Tensor
    x: Tensor
    """(R, N): the states."""
    settled: Tensor
    """(R, N): what shows x0 for good."""
    left: Tensor
    """(R,), on the host: how many are hidden, for samplers that reveal a known number at every step."""
    mask: int

    @classmethod
    def start(cls, x0: Tensor, left: Tensor, mask: int) -> "Rows":
        """Of sequences with so many known values, (B,), or of copies of them, one after the other."""
        settled = torch.zeros_like(x0, dtype=torch.bool)
        return cls(x0, torch.full_like(x0, mask), settled, left.repeat(len(x0) // len(left)), mask)

    def __getitem__(self, rows: slice) -> "Rows":
        """Some of them, to be changed in place."""
        return Rows(self.x0[rows], self.x[rows], self.settled[rows], self.left[rows], self.mask)

    def redrawn(self, chosen: Tensor) -> "Rows":
        """The paths with these numbers (R,), each in place of one to the same sequence."""
        return replace(self, x=self.x[chosen], settled=self.settled[chosen])

    @property
    def hidden(self) -> Tensor:
        """(R, N): what is masked, but for values that are not known of x0, which stay so."""
        return (self.x == self.mask) & (self.x0 != self.mask)


@dataclass
class _Predicted:
    """What is drawn at some positions of some rows."""

    rows: Tensor
    """(r,): the numbers of these rows."""
    x0: Tensor
    x: Tensor
    where: Tensor
    """(r, N)"""
    counts: Tensor
    """(r,), on the host: of how many positions of each row."""
    places: Places
    """All M of them."""
    logits: Tensor
    law: Tensor
    """(M, V): log-probabilities with which values are drawn."""
    values: Tensor
    """(M,): those of x0."""

    @property
    def log_q(self) -> Tensor:
        """(M,): of the values of x0."""
        return self.law.gather(1, self.values[:, None])[:, 0]

    def everywhere(self, tensor: Tensor, fill: float) -> Tensor:
        """(M, ...) at the positions, ``fill`` elsewhere: (r, N, ...)."""
        spread = tensor.new_full((self.where.numel(), *tensor.shape[1:]), fill)
        return spread.index_copy_(0, self.places.numbers, tensor).view(*self.where.shape, *tensor.shape[1:])

    def summed(self, where: Tensor) -> Tensor:
        """log prod_j q_j[x0_j] over some of the positions: (r,)."""
        return torch.where(where, self.everywhere(self.log_q, 0.0), 0.0).sum(dim=1)


class ForcedPaths:
    """The steps of a sampler, forced to end at given sequences."""

    def __init__(self, model: "Model", steps: int, how: Drawing) -> None:
        assert isinstance(how.sampler, AdaptiveSampler | Remask)
        sampler = how.sampler
        self.model, self.sampler, self.how, self.steps = model, sampler, how, steps
        nothing_known = torch.ones(1, model.positions, dtype=torch.bool)
        self.times, self.left = (row[0] for row in on_the_grid(nothing_known, steps, model.schedule, how.grid))
        by_chance = how.token_sampler.temperature > 0
        self.draws_paths = isinstance(sampler, Remask) or (sampler.looks_at_values and by_chance)
        if isinstance(sampler, Remask):
            self.reveal, self.sigma = sampler.probabilities(self.left[1:], self.left[:-1])
            # Of what is shown before step 1, 2, ...: that no step from there on masks it.
            self.log_keep = torch.cat([torch.zeros(1, dtype=torch.float64), (-self.sigma).log1p()]).cumsum(0)

    def log_likelihood(self, x0: Tensor, particles: Particles, generator: torch.Generator) -> Tensor:
        """The logarithm of an unbiased estimate of p(x0), (B,) float64, for sequences of the host."""
        latent, most = self.model.latent, max(1, AT_ONCE // self.model.positions)
        one_z = self.how.latent_policy == "fixed" and not latent.absent
        by_paths = particles.count if self.draws_paths and latent.exact else 1
        copies = by_paths if one_z else 1 if latent.absent and not self.draws_paths else particles.count
        fewer = replace(particles, rows_per_call=min(most, particles.rows_per_call))
        estimate = self._one_latent if one_z else self._filtered
        parts = torch.split(x0, max(1, most // copies))
        return torch.cat([estimate(part, copies, fewer, generator).cpu().double() for part in parts])

    def _one_latent(self, x0: Tensor, copies: int, particles: Particles, generator: torch.Generator) -> Tensor:
        known, repeated = self._known(x0), x0.to(self.model.device).repeat(copies, 1)

        def score(z: Tensor | None) -> Tensor:
            count = 1 if z is None else len(z)
            rows = Rows.start(repeated.repeat(count, 1), known, self.model.mask_value)
            flat = None if z is None else z.expand(count, len(repeated), -1).flatten(0, 1)
            total = precise(torch.zeros(len(rows.x0), device=rows.x0.device))
            for step in range(self.steps, 0, -1):
                total += self._step(rows, step, generator, particles, z=flat)
            return total.view(count, -1)

        start, scored = MaskedBatch.all_masked(repeated, self.model.mask_value), self.model.scored(repeated)
        joint = self.model.latent.log_marginal(score, start, scored, particles, generator)
        # Of nothing but pads the joint is 1, which the particles would only estimate.
        joint = joint.masked_fill(~scored.any(dim=1), 0.0).view(copies, -1)
        return joint.logsumexp(dim=0) - math.log(copies)

    def _filtered(self, x0: Tensor, copies: int, particles: Particles, generator: torch.Generator) -> Tensor:
        """A particle filter: after each step the paths are drawn again by their weights."""
        device = self.model.device
        rows = Rows.start(x0.to(device).repeat(copies, 1), self._known(x0), self.model.mask_value)
        total = precise(torch.zeros(len(x0), device=device))
        for step in range(self.steps, 0, -1):
            weights = self._step(rows, step, generator, particles).view(copies, -1)
            total += weights.logsumexp(dim=0) - math.log(copies)
            if copies > 1 and step > 1:
                chosen = _resampled(weights, generator) * len(x0) + torch.arange(len(x0), device=device)
                rows = rows.redrawn(chosen.flatten())
        return total

    def _known(self, x0: Tensor) -> Tensor:
        return (x0 != self.model.mask_value).sum(dim=1)

    def _step(
        self, rows: Rows, step: int, generator: torch.Generator, particles: Particles, z: Tensor | None = None
    ) -> Tensor:
        """One step of all rows; log-weights (R,), of a z drawn here too, if none (R, d) is given."""
        count, positions = rows.x0.shape
        at_once = AT_ONCE // (positions * max(positions, self.model.vocab_size))
        size, found = max(1, min(at_once, particles.rows_per_call)), []
        for first in range(0, count, size):
            part, drawn = rows[first : first + size], None if z is None else z[first : first + size]
            numbers = torch.rand(4, len(part.x0), positions, generator=generator, dtype=torch.float64)
            t = torch.full((len(part.x0),), float(self.times[step]), device=part.x.device)
            log_weight = precise(torch.zeros_like(t))
            if z is None:
                batch = MaskedBatch(part.x0, part.x, Masking(part.hidden, t, torch.ones_like(t)))
                drawn, log_weight = self.model.latent.proposed(batch, particles.proposals, generator)
            found.append(log_weight + self._forced(part, drawn, t, step, numbers.to(precise(t))))
        return torch.cat(found)

    def _forced(self, rows: Rows, z: Tensor | None, t: Tensor, step: int, numbers: Tensor) -> Tensor:
        if isinstance(self.sampler, Remask):
            return self._remasked(rows, z, t, step, numbers)
        hidden, total = rows.hidden, precise(torch.zeros_like(t))
        counts = rows.left if isinstance(self.sampler, Ordered) else hidden.sum(dim=1).cpu()
        predicted = self._predicted(rows, z, t, hidden, counts)
        if predicted is None:
            return total
        if step == 1 or not self.draws_paths:
            # Where positions are ordered by values, at temperature 0, these are drawn whatever x0 is.
            unsure = self.sampler.uncertainty(predicted.logits, predicted.law.argmax(dim=-1))
            where = predicted.where
            revealed = where if step == 1 else self.sampler.revealed(step, where, unsure)
            log_weight = predicted.summed(revealed)
        else:
            revealed, log_weight = _confident(predicted, step, numbers[:2, predicted.rows])
        rows.x[predicted.rows] = torch.where(revealed, predicted.x0, predicted.x)
        rows.left -= shares(rows.left, step)
        return total.index_copy(0, predicted.rows, log_weight)

    def _predicted(self, rows: Rows, z: Tensor | None, t: Tensor, where: Tensor, counts: Tensor) -> _Predicted | None:
        """At the positions ``where`` (R, N), of which each row has as many as ``counts`` (R,) of the host say."""
        asking = counts.nonzero()[:, 0]
        if len(asking) == 0:
            return None
        (some,) = upload([asking], t.device)
        x0, x, where, counts = rows.x0[some], rows.x[some], where[some], counts[asking]
        places = Places.counted(where, counts)
        logits = self.model.predict(x, None if z is None else z[some], t[some], places)
        values, law = places.values(x0), self.how.token_sampler.log_probabilities(logits)
        if self.model.pad is not None:
            # Pads are given and not drawn: the sampler shows them with certainty when their turn comes.
            sure = torch.full_like(law, -math.inf).scatter_(1, values[:, None], 0.0)
            law = torch.where((values == self.model.pad)[:, None], sure, law)
        return _Predicted(some, x0, x, where, counts, places, logits, law, values)

    def _remasked(self, rows: Rows, z: Tensor | None, t: Tensor, step: int, numbers: Tensor) -> Tensor:
        hidden, keep = rows.hidden, float(self.log_keep[step - 1].exp())
        revealed = hidden & (numbers[0] < float(self.reveal[step - 1]))
        passing = (rows.x != self.model.mask_value) & ~rows.settled
        # All of these are masked again at some step, at the latest one as good as certainly: given that it was not yet.
        again = float(self.sigma[step - 1]) / max(-math.expm1(float(self.log_keep[step])), 1e-300)
        masked = passing & (numbers[1] < again)
        total = precise(torch.zeros_like(t))
        predicted = self._predicted(rows, z, t, revealed, revealed.sum(dim=1).cpu())
        if predicted is not None:
            some, places = predicted.rows, predicted.places
            stays = predicted.where & (numbers[2][some] < keep)
            drawn = places.written(predicted.x, inverted(predicted.law, places.values(numbers[3][some])))
            rows.x[some] = torch.where(stays, predicted.x0, drawn)
            rows.settled[some] |= stays
            total = total.index_copy(0, some, predicted.summed(stays))
        rows.x.masked_fill_(masked, self.model.mask_value)
        return total


def _confident(predicted: _Predicted, step: int, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The positions that a step of :class:`~vadd.core.samplers.Ordered` reveals by confidence on a path to x0,
    (R, N), and the probability that it can be on one, (R,).
    """
    where = predicted.where
    chances = precise(predicted.logits).softmax(dim=-1)
    ordered, places = chances.sort(dim=-1)
    below = predicted.law.exp().gather(1, places).cumsum(dim=-1)
    below = torch.cat([torch.zeros_like(below[:, :1]), below], dim=1).clamp(max=1)
    sure = predicted.everywhere(chances.gather(1, predicted.values[:, None])[:, 0], -1.0)
    order = sure.argsort(dim=1, descending=True, stable=True)[:, : int(predicted.counts.max())]
    # F_i(m) for the hidden positions, surest first. Of equals the one to the left counts as the surer.
    sure_of_m = sure.gather(1, order)[:, None].expand(-1, order.shape[1], -1).contiguous()
    by_rank = order[:, :, None]
    ordered = predicted.everywhere(ordered, 2.0).gather(1, by_rank.expand(-1, -1, ordered.shape[1]))
    below = predicted.everywhere(below, 1.0).gather(1, by_rank.expand(-1, -1, below.shape[1]))
    less = torch.searchsorted(ordered, sure_of_m, right=False)
    at_most = torch.searchsorted(ordered, sure_of_m, right=True)
    log_skip = below.gather(2, torch.where(by_rank > order[:, None], at_most, less)).log()
    log_take = predicted.everywhere(predicted.log_q, -math.inf).gather(1, order)
    count = shares(predicted.counts, step)
    by_last = log_subset_sums(log_take, log_skip, count)
    gumbel = -(-numbers[0][:, : order.shape[1]].clamp(min=1e-300).log()).log()
    last = (by_last + gumbel).argmax(dim=1)
    skip_last = log_skip.gather(2, last[:, None, None].expand(-1, order.shape[1], 1))[:, :, 0]
    taken = drawn_subset(log_take, skip_last, last, count, numbers[1][:, : order.shape[1]])
    return torch.zeros_like(where).scatter_(1, order, taken) & where, by_last.logsumexp(dim=1)


def _resampled(weights: Tensor, generator: torch.Generator) -> Tensor:
    """For log-weights (K, B) the numbers of K particles, each as often as its share in expectation: (K, B)."""
    shares_of = weights.softmax(dim=0).nan_to_num(nan=1 / len(weights))
    ends = shares_of.cumsum(dim=0).T.contiguous()
    shift = torch.rand(weights.shape[1], 1, generator=generator, dtype=torch.float64).to(ends)
    levels = (shift + torch.arange(len(weights), device=ends.device)) / len(weights) * ends[:, -1:]
    # A level that rounding pushes to the end must not choose a particle of weight 0.
    found = torch.searchsorted(ends, levels, right=True).T
    return torch.minimum(found, (shares_of > 0).long().cumsum(0).argmax(0))
