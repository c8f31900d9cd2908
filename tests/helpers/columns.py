"""Models of three positions with different numbers of values, small enough to be enumerated."""

import itertools

import torch
from torch import Tensor, nn

from tests.helpers.exact import TableDenoiser, all_sequences, index_of, seeded

SIZES = (2, 3, 4)
INSIDE = torch.tensor(list(itertools.product(*map(range, SIZES))))
"""Every row that there can be, (24, 3)."""


class CutDenoiser(TableDenoiser):
    """Random logits, minus infinity outside the sizes: what a model that respects them predicts, written down again."""

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits = super().forward(xt, z, t, where)
        sizes = torch.tensor(SIZES)[where.nonzero()[:, 1]]
        return torch.where(torch.arange(self.vocab_size) < sizes[:, None], logits, -torch.inf)


def random_joint(seed: int = 0) -> Tensor:
    """A distribution of all rows, (2, 3, 4) float64."""
    return (1.5 * torch.randn(SIZES, generator=seeded(seed), dtype=torch.float64)).flatten().softmax(0).view(SIZES)


class JointDenoiser(nn.Module):
    """The true conditionals of a joint distribution (2, 3, 4): with it every exact sampler draws from the joint if it
    reveals one position at a time. Outside the sizes it predicts anything.
    """

    def __init__(self, joint: Tensor) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = 3, 4, False
        self.table = nn.Parameter(torch.stack([self._logits(joint, state) for state in all_sequences(3, 5)]))

    def _logits(self, joint: Tensor, state: Tensor) -> Tensor:
        fits = ((state == INSIDE) | (state == self.vocab_size)).all(dim=1)
        sums = torch.zeros(3, self.vocab_size, dtype=torch.float64)
        for position, size in enumerate(SIZES):
            sums[position].index_add_(0, INSIDE[:, position], joint.flatten() * fits)
            sums[position, size:] = 20.0
        return sums.log()

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.table[index_of(xt, self.vocab_size + 1)][where]
