"""Networks that are tables of states, for enumeration: values without masks, scores, true conditionals."""

import itertools
import math

import torch
from torch import Tensor, nn

from tests.helpers.exact import TableDenoiser, all_sequences, index_of, seeded

POSITIONS, VALUES = 2, 3
STATES = VALUES**POSITIONS


class TableOfStates(nn.Module):
    """Random logits for every state without masks, that move with t and with a latent of one number."""

    uses_time = True

    def __init__(self, *, latent: bool = False) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.latent = POSITIONS, VALUES, latent
        generator, shape = seeded(4), (3, STATES, POSITIONS, VALUES)
        self.tables = nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert int(xt.max()) < VALUES, "no mask is ever shown"
        base, slope, bend = self.tables[:, index_of(xt, VALUES)]
        logits = base + slope * t[:, None, None]
        if self.latent:
            assert z is not None
            logits = logits + 2 * bend * z[:, :1, None]
        found: Tensor = logits[where]
        return found


class TableScores(nn.Module):
    """The log-scores of a table denoiser, normalised or, ``unevenly``, times a factor of their own for every state."""

    uses_time = False

    def __init__(self, table: TableDenoiser, unevenly: float = 0.0) -> None:
        super().__init__()
        self.table, self.positions, self.vocab_size = table, table.positions, table.vocab_size
        shape = ((VALUES + 1) ** POSITIONS, POSITIONS, 1)
        self.factor = nn.Parameter(unevenly * torch.randn(shape, generator=seeded(9), dtype=torch.float64))

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        everywhere = torch.ones_like(xt, dtype=torch.bool)
        logits = self.table(xt, None, t, everywhere).view(len(xt), POSITIONS, VALUES).log_softmax(-1)
        found: Tensor = (math.log(VALUES) + logits + self.factor[index_of(xt, VALUES + 1)])[where]
        return found


class TrueConditionals(nn.Module):
    """log P(x0_i = v | x_t) of a joint distribution over all sequences."""

    uses_time = False

    def __init__(self, joint: Tensor, positions: int, values: int) -> None:
        super().__init__()
        self.positions, self.vocab_size = positions, values
        states, clean = all_sequences(positions, values + 1), all_sequences(positions, values)
        table = torch.zeros(len(states), positions, values, dtype=torch.float64)
        for number, state in enumerate(states):
            fits = ((clean == state) | (state == values)).all(1)
            for i, v in itertools.product(range(positions), range(values)):
                table[number, i, v] = joint[fits & (clean[:, i] == v)].sum() / joint[fits].sum()
        self.table = nn.Parameter(table.log())

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return math.log(self.vocab_size) + self.table[index_of(xt, self.vocab_size + 1)][where]


def random_joint(seed: int) -> Tensor:
    return torch.rand(VALUES**POSITIONS, generator=seeded(seed), dtype=torch.float64).softmax(0) ** 3
