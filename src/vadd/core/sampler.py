r"""Algorithm 2: from all masked to data in T steps.

At each step, from t down to s, every masked position is revealed with probability :math:`\rho = (\alpha(s) -
\alpha(t)) / (1 - \alpha(t))`, and its value is drawn from :math:`\mu(x_t, z, t)` for a fresh z from the prior. The
coins do not depend on the values, so they are tossed first: the network sees only the sequences that reveal
something, and its output layer only the positions revealed. That is the same distribution as drawing "value or mask"
everywhere, and much cheaper.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from vadd.core.model import MaskedDiffusion
from vadd.errors import UserError

Grid = Literal["uniform", "cosine"]
LatentPolicy = Literal["resample", "fixed"]


def step_grid(steps: int, grid: Grid = "uniform") -> Tensor:
    """Times 0 = t_0 < ... < t_T = 1, float64 (steps + 1,). ``cosine`` takes smaller steps near t = 1, where most
    is hidden.
    """
    if steps < 1:
        raise UserError(f"sampling needs at least 1 step, not {steps}")
    fractions = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    if grid == "uniform":
        return fractions
    if grid == "cosine":
        times = (math.pi / 2 * fractions).sin()
        times[-1] = 1.0
        return times
    raise UserError(f"unknown step grid {grid!r}; choose from {', '.join(get_args(Grid))}")


@dataclass(frozen=True)
class Samples:
    tokens: Tensor
    """(n, N) integers in 0..V-1."""
    evaluations: int
    """How often the network was called: at most the number of steps."""
    trajectory: Tensor | None = None
    """(steps + 1, n, N), from all masked to the sample, if it was recorded."""


@torch.no_grad()
def sample(
    model: MaskedDiffusion,
    count: int,
    steps: int,
    generator: torch.Generator,
    *,
    grid: Grid = "uniform",
    latent_policy: LatentPolicy = "resample",
    record: bool = False,
) -> Samples:
    """Draw ``count`` samples in ``steps`` steps.

    ``latent_policy`` is ``resample`` (a new z at each step, the paper's) or ``fixed`` (one z for a whole trajectory).
    """
    if count < 1:
        raise UserError(f"the number of samples must be at least 1, not {count}")
    if latent_policy not in get_args(LatentPolicy):
        raise UserError(f"unknown latent policy {latent_policy!r}; choose from {', '.join(get_args(LatentPolicy))}")
    times = step_grid(steps, grid)
    rho = model.schedule.reveal_probability(times[1:], times[:-1])
    device = model.device
    x = torch.full((count, model.positions), model.mask_value, device=device)
    states = [x.clone()] if record else []
    evaluations = 0
    for step in range(steps, 0, -1):
        t = torch.full((count,), float(times[step]), device=device)
        if latent_policy == "resample" or step == steps:
            z = model.latent.draw(x, t, generator)
        coins = torch.rand(x.shape, generator=generator, dtype=torch.float64) < rho[step - 1]
        revealed = coins.to(device) & (x == model.mask_value)
        rows = revealed.any(dim=1).nonzero()[:, 0]
        if len(rows):
            logits = model.denoiser(x[rows], None if z is None else z[rows], t[rows], revealed[rows])
            x[revealed] = draw_categorical(logits, generator)
            evaluations += 1
        if record:
            states.append(x.clone())
    return Samples(x, evaluations, torch.stack(states) if record else None)


def draw_categorical(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One value for each row of ``logits`` (M, V), by inversion in float64.

    In float32 the tail of a large vocabulary is unreachable, which silently sharpens the distribution.
    """
    on_device = logits.cpu() if logits.device.type == "mps" else logits  # Apple's GPUs have no float64
    cumulative = on_device.double().softmax(dim=-1).cumsum(dim=-1)
    uniforms = torch.rand(len(logits), 1, generator=generator, dtype=torch.float64).to(cumulative.device)
    # Scaling by the last entry, instead of trusting it to be 1, keeps rounding from pushing a draw past the end.
    drawn = torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True)[:, 0]
    return drawn.clamp(max=logits.shape[1] - 1).to(logits.device)
