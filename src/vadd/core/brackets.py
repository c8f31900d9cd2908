r"""An interval for log p(x0) from independent unbiased estimates of p(x0), such as the draws of a bound.

**From below.** The mean of R estimates w is one as well, so by Jensen's inequality :math:`E \log \frac1R \sum_r w_r
\le \log p`. **From above.** A concave function lies below its tangents: :math:`\log p \le p / a - 1 + \log a` for every
a > 0. With a made of other draws than w_r, and so independent of it,

.. math:: E [w_r / a - 1 + \log a] = E [p / a - 1 + \log a] \ge \log p.

Here a is :math:`e^c` times the mean of the other R - 1 draws, and the mean over all r is taken. Any c that does not
depend on the draws is valid. Where estimates are skewed, most of them are too small, and so is a: the best c is
:math:`\log E [w_r / a]`, to be found on other examples. Both gaps close like the variance of w over R.
"""

import math

import torch
from torch import Tensor

from vadd.errors import UserError


def others(log_draws: Tensor) -> Tensor:
    """The logarithm of the mean of all draws but one, for each of them: (R, B)."""
    nothing = torch.full_like(log_draws[:1], -math.inf)
    before = torch.cat([nothing, log_draws.logcumsumexp(dim=0)[:-1]])
    after = torch.cat([log_draws.flip(0).logcumsumexp(dim=0).flip(0)[1:], nothing])
    return torch.logaddexp(before, after) - math.log(len(log_draws) - 1)


def bracket(log_draws: Tensor, shift: float = 0.0) -> tuple[Tensor, Tensor]:
    """Estimates of a lower and an upper bound of log p(x0), both (B,), from the logarithms (R, B) of independent
    unbiased estimates. ``shift`` is c above.

    >>> low, high = bracket(torch.tensor([[0.2, 0.5], [0.4, 0.5]]).log())
    >>> low.exp(), high.exp()  # the second example has no spread, and its interval no width
    (tensor([0.3000, 0.5000]), tensor([0.3632, 0.5000]))
    """
    if len(log_draws) < 2:
        raise UserError(f"an interval takes at least 2 paths, not {len(log_draws)}")
    anchor = others(log_draws) + shift
    # Where all other draws are 0 there is no a, and p is at most 1.
    above = torch.where(anchor.isfinite(), (log_draws - anchor).exp() - 1 + anchor, 0.0)
    return log_draws.logsumexp(dim=0) - math.log(len(log_draws)), above.mean(dim=0)


def best_shift(log_draws: Tensor) -> float:
    """The c for which the upper bound of these examples is least."""
    ratios = (log_draws - others(log_draws)).flatten()
    ratios = ratios[ratios.isfinite()]
    return float(ratios.logsumexp(dim=0)) - math.log(len(ratios)) if len(ratios) else 0.0
