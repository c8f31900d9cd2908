"""The exact laws of samplers that look at predictions or mask again, by enumeration of states and of all values that
could be drawn. Nothing here uses the package's samplers, schedules or draws.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.helpers.bounds import NO_LATENT, PriorGrid
from tests.helpers.exact import KnownSchedule, TableDenoiser, all_sequences

Sharpen = Callable[[np.ndarray], np.ndarray]
"""Probabilities (..., V) of the network -> those that are drawn from."""
Rule = Callable[[np.ndarray, Sequence[int], Sequence[int], int], np.ndarray]
"""(mu (Z, N, V), the values drawn (N,), the hidden positions, steps left) -> which are revealed, (Z, N)."""
State = tuple[int, ...]
Step = Callable[[State, np.ndarray], dict[State, np.ndarray]]
"""A state and its mu (Z, N, V) at the step's time -> the probabilities (Z,) of the states that may follow."""


def as_it_is(mu: np.ndarray) -> np.ndarray:
    return mu


def tempered(temperature: float) -> Sharpen:
    def sharpen(mu: np.ndarray) -> np.ndarray:
        if temperature == 0:
            return np.asarray(np.eye(mu.shape[-1])[mu.argmax(-1)])
        power = mu ** (1 / temperature)
        return np.asarray(power / power.sum(-1, keepdims=True))

    return sharpen


def nucleus(p: float) -> Sharpen:
    """The fewest values that reach p, by trying one number after the other."""

    def one(mu: np.ndarray) -> np.ndarray:
        order = np.argsort(-mu, kind="stable")
        kept = next(count for count in range(1, len(mu) + 1) if mu[order[:count]].sum() >= p or count == len(mu))
        cut = np.where(np.isin(np.arange(len(mu)), order[:kept]), mu, 0)
        return np.asarray(cut / cut.sum())

    return lambda mu: np.apply_along_axis(one, -1, mu)


def top(k: int) -> Sharpen:
    """The k likeliest values."""

    def one(mu: np.ndarray) -> np.ndarray:
        cut = np.where(np.isin(np.arange(len(mu)), np.argsort(-mu, kind="stable")[:k]), mu, 0)
        return np.asarray(cut / cut.sum())

    return lambda mu: np.apply_along_axis(one, -1, mu)


def surest(by: str) -> Rule:
    def rule(mu: np.ndarray, drawn: Sequence[int], hidden: Sequence[int], steps_left: int) -> np.ndarray:
        count = math.ceil(len(hidden) / steps_left)
        revealed = np.zeros(mu.shape[:2], bool)
        for z, row in enumerate(mu):
            keys = {}
            for i in hidden:
                ranked = np.sort(row[i])
                keys[i] = {
                    "confidence": -row[i, drawn[i]],
                    "margin": ranked[-2] - ranked[-1],
                    "entropy": -float(np.sum(row[i] * np.log(row[i]))),
                }[by]
            for i in sorted(hidden, key=lambda i: (keys[i], i))[:count]:
                revealed[z, i] = True
        return revealed

    return rule


def within_budget(budget: float) -> Rule:
    def rule(mu: np.ndarray, drawn: Sequence[int], hidden: Sequence[int], steps_left: int) -> np.ndarray:
        revealed = np.zeros(mu.shape[:2], bool)
        for z, row in enumerate(mu):
            entropy = {i: -float(np.sum(row[i] * np.log(row[i]))) for i in hidden}
            spent = 0.0
            for i in sorted(hidden, key=lambda i: (entropy[i], i)):
                if steps_left > 1 and spent > budget:
                    break
                revealed[z, i] = True
                spent += entropy[i]
        return revealed

    return rule


@dataclass(frozen=True)
class Enumeration:
    """A denoiser, what values are drawn from, and the points of z."""

    denoiser: TableDenoiser
    sharpen: Sharpen = as_it_is
    prior: PriorGrid = NO_LATENT
    fixed_z: bool = False

    @property
    def states(self) -> list[State]:
        return [tuple(state) for state in all_sequences(self.denoiser.positions, self.denoiser.vocab_size + 1).tolist()]

    def mu(self, t: float) -> np.ndarray:
        """(S, Z, N, V)."""
        states = all_sequences(self.denoiser.positions, self.denoiser.vocab_size + 1)
        nodes = len(self.prior.z)
        with torch.no_grad():
            logits = self.denoiser(
                states.repeat(nodes, 1),
                self.prior.z.repeat_interleave(len(states), dim=0),
                torch.full((nodes * len(states),), t, dtype=torch.float32).double(),
                torch.ones(nodes * len(states), self.denoiser.positions, dtype=torch.bool),
            )
        table = logits.view(nodes, len(states), self.denoiser.positions, -1).softmax(-1)
        return np.asarray(table.transpose(0, 1).numpy())

    def law(self, steps: Sequence[Callable[[State, np.ndarray], dict[State, np.ndarray]]]) -> Tensor:
        """Of the output, (V ** N,), after the steps."""
        weights, mask = self.prior.weights.numpy(), self.denoiser.vocab_size
        now = {(mask,) * self.denoiser.positions: np.ones(len(weights))}
        numbers = {state: number for number, state in enumerate(self.states)}
        for index, step in enumerate(steps):
            table = self.mu(1 - index / len(steps))
            following: dict[State, np.ndarray] = {}
            for state, probability in now.items():
                for other, chance in step(state, table[numbers[state]]).items():
                    following[other] = following.get(other, 0) + probability * chance
            if not self.fixed_z:  # the next step knows nothing of this step's z
                following = {state: np.full(len(weights), p @ weights) for state, p in following.items()}
            now = following
        clean = all_sequences(self.denoiser.positions, mask).tolist()
        found = [float(now.get(tuple(x), np.zeros(len(weights))) @ weights) for x in clean]
        return torch.tensor(found, dtype=torch.float64)

    def looking(self, rule: Rule, steps: int) -> Tensor:
        """Of a sampler that decides by what it sees: every value that may be drawn is tried."""
        mask = self.denoiser.vocab_size

        def step_of(steps_left: int) -> Step:
            def step(state: State, mu: np.ndarray) -> dict[State, np.ndarray]:
                hidden = [i for i, value in enumerate(state) if value == mask]
                law, found = self.sharpen(mu), dict[State, np.ndarray]()
                for values in itertools.product(
                    *[range(mask) if i in hidden else [state[i]] for i in range(len(state))]
                ):
                    chance = np.prod([law[:, i, values[i]] for i in hidden], axis=0) * np.ones(len(mu))
                    revealed = rule(mu, values, hidden, steps_left)
                    for pattern in np.unique(revealed, axis=0):
                        other = tuple(values[i] if pattern[i] else state[i] for i in range(len(state)))
                        found[other] = found.get(other, 0) + chance * (revealed == pattern).all(1)
                return found

            return step

        return self.law([step_of(left) for left in range(steps, 0, -1)])

    def remasking(self, known: KnownSchedule, steps: int, rule: str, eta: float) -> Tensor:
        mask = self.denoiser.vocab_size

        def step_of(t: float, s: float) -> Step:
            alpha, later = known.alpha(t), known.alpha(s)
            most = min(1.0, (1 - later) / alpha) if alpha > 0 else 1.0
            sigma = min(eta, most) if rule == "capped" else eta * most
            reveal = (later - (1 - sigma) * alpha) / (1 - alpha)

            def step(state: State, mu: np.ndarray) -> dict[State, np.ndarray]:
                law, found = self.sharpen(mu), dict[State, np.ndarray]()
                for other in itertools.product(range(mask + 1), repeat=len(state)):
                    chance = np.ones(len(mu))
                    for i, (old, new) in enumerate(zip(state, other, strict=True)):
                        if old == mask:
                            chance = chance * ((1 - reveal) if new == mask else reveal * law[:, i, new])
                        else:
                            chance = chance * (sigma if new == mask else float(old == new) * (1 - sigma))
                    if chance.any():
                        found[other] = chance
                return found

            return step

        return self.law([step_of((i + 1) / steps, i / steps) for i in reversed(range(steps))])
