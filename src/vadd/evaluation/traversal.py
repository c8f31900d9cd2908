"""What the latent's dimensions mean: the same masked state, one dimension of z moving."""

from dataclasses import dataclass

import numpy as np
import torch

from vadd.evaluation.latent_paths import cross, informative_dimensions, point_of
from vadd.kinds.arrays import Array
from vadd.run.run import Run


@dataclass(frozen=True)
class Traversal:
    dimensions: list[int]
    """Those in which the recognition model says most, the most informative first."""
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
    x0 = run.data.test[example : example + 1]
    centre = point_of(model, x0)
    if centre is None or model.encode(x0) is None:
        return None
    chosen = informative_dimensions(run, dimensions)
    values = torch.linspace(-span, span, columns).tolist()
    z = cross(centre[0].cpu(), chosen, values).flatten(0, 1).to(model.device)
    states = torch.full((len(z), model.positions), model.mask_value, device=z.device)
    everywhere = torch.ones_like(states, dtype=torch.bool)
    logits = model.predict(states, z, torch.ones(len(z), device=z.device), everywhere)
    # The mean, not a draw: so that nothing but z moves.
    levels = torch.arange(model.vocab_size, dtype=torch.float32, device=z.device)
    expected = (logits.float().softmax(-1) @ levels).view(len(chosen), columns, model.positions)
    return Traversal(chosen, values, np.asarray(expected.cpu()))
