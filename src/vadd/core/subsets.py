"""Sums over the subsets of a row of positions, and draws from them, position by position in float64.

The positions of a row are taken or skipped; the last one taken is m, all after it are skipped, and what skipping
weighs depends on m. Logarithms throughout.
"""

import math

import torch
from torch import Tensor

from vadd.core.host import upload


def log_subset_sums(log_take: Tensor, log_skip: Tensor, count: Tensor) -> Tensor:
    """For every m the logarithm of the sum over all ways to take m and ``count`` (R,) - 1 before it: (R, L).

    ``log_take`` (R, L) are the weights of taking, ``log_skip`` (R, L, L) those of skipping i where the last is m. The
    counts are tensors of the host.

    >>> take, skip = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[5.0, 7.0, 11.0]])[:, :, None].expand(1, 3, 3)
    >>> log_subset_sums(take.log(), skip.log(), torch.tensor([2])).exp().round()  # none, 1*2*11, 1*7*3 + 5*2*3
    tensor([[ 0., 22., 51.]])
    """
    length = log_take.shape[1]
    ways = _nothing_taken(log_take, int(count.max()))
    (count,) = upload([count], log_take.device)
    later = torch.arange(length, device=log_take.device)
    for i in range(length):
        ways = _with_position(ways, log_take[:, i, None], log_skip[:, i], later - i)
    wanted = (count[:, None, None] - 1).expand(-1, length, 1)
    return log_take + ways.gather(2, wanted)[:, :, 0]


def drawn_subset(log_take: Tensor, log_skip: Tensor, last: Tensor, count: Tensor, uniforms: Tensor) -> Tensor:
    """A way to take ``last`` (R,) and ``count`` - 1 before it, drawn by its weight: (R, L) bool. ``log_skip`` (R, L) is
    that of this last one.
    """
    length = log_take.shape[1]
    tables = [_nothing_taken(log_take[:, :1], int(count.max()))]
    (count,) = upload([count], log_take.device)
    for i in range(length):
        tables.append(_with_position(tables[-1], log_take[:, i, None], log_skip[:, i, None], last[:, None] - i))
    left, taken = count - 1, []
    for i in reversed(range(length)):
        without = tables[i][:, 0].gather(1, (left - 1).clamp(min=0)[:, None])[:, 0]
        chance = (log_take[:, i] + without - tables[i + 1][:, 0].gather(1, left[:, None])[:, 0]).exp()
        chosen = (i < last) & (left > 0) & (uniforms[:, i] < chance)
        left = left - chosen.long()
        taken.append(chosen | (i == last))
    return torch.stack(taken[::-1], dim=1)


def _nothing_taken(like: Tensor, most: int) -> Tensor:
    """(R, m, numbers taken): for each m of ``like`` (R, m)."""
    ways = like.new_full((*like.shape, most), -math.inf)
    ways[..., 0] = 0.0
    return ways


def _with_position(ways: Tensor, log_take: Tensor, log_skip: Tensor, before_last: Tensor) -> Tensor:
    """After one more position, which is ``before_last`` where that is positive, and the last where it is 0."""
    skipped = ways + log_skip[..., None]
    one_more = torch.cat([torch.full_like(ways[..., :1], -math.inf), ways[..., :-1]], dim=-1) + log_take[..., None]
    before = before_last[..., None]
    both = torch.where(before > 0, torch.logaddexp(skipped, one_more), skipped)
    return torch.where(before == 0, ways, both)
