"""What the latent's dimensions mean: the same masked state, one dimension of z moving."""

from dataclasses import dataclass

import numpy as np
import torch

from vadd.core.masking import Masking, apply_mask
from vadd.data.dataset import Array
from vadd.run import Run


@dataclass(frozen=True)
class Traversal:
    dimensions: list[int]
    """Those in which the recognition model says most, the most telling first."""
    values: list[float]
    """What the moving dimension was set to."""
    expected: Array
    """(dimensions, values, N): the mean of each position's distribution over 0..V-1, for values that have an order."""


@torch.no_grad()
def traverse(
    run: Run, *, dimensions: int = 6, columns: int = 9, span: float = 2.5, example: int = 0
) -> Traversal | None:
    """Everything masked; z the posterior mean of a held-out example, one of its dimensions moved from -span to span.

    None for a model without a recognition model.
    """
    model = run.model
    x0 = run.data.test[:1000].long().to(model.device)
    hidden = Masking(
        torch.ones_like(x0, dtype=torch.bool),
        torch.ones(len(x0), device=x0.device),
        torch.ones(len(x0), device=x0.device),
    )
    batch = apply_mask(x0, hidden, model.mask_value)
    posterior = model.latent.posterior(x0, batch.xt, batch.t)
    if posterior is None:
        return None
    told = posterior.kl_to_standard_normal().mean(0)
    chosen = told.argsort(descending=True)[:dimensions].tolist()
    values = torch.linspace(-span, span, columns)
    z = posterior.mean[example].repeat(len(chosen), columns, 1)
    for row, dimension in enumerate(chosen):
        z[row, :, dimension] = values.to(z.device)
    flat = z.flatten(0, 1)
    states = batch.xt[:1].expand(len(flat), -1)
    logits = model.denoiser(
        states, flat, torch.ones(len(flat), device=z.device), torch.ones_like(states, dtype=torch.bool)
    )
    levels = torch.arange(model.values, dtype=torch.float32, device=z.device)
    expected = (logits.float().softmax(-1) @ levels).view(len(chosen), columns, model.positions)
    return Traversal(chosen, values.tolist(), np.asarray(expected.cpu()))
