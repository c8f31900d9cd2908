"""How good the averaged weights are on held-out examples, always with the same masks and latents."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vadd.core import Evidence, LatentHealth, MaskedBatch, Model, Objective, objective
from vadd.core.health import health_of, posteriors
from vadd.core.importance import DiagonalGaussian
from vadd.core.masking import BatchPart
from vadd.core.randomness import TEST, step_generator
from vadd.parallel import Processes

EXAMPLES = 2048


@dataclass(frozen=True)
class HeldOutResult:
    objective: Objective
    """At full KL weight."""
    health: LatentHealth | None

    @property
    def loss(self) -> float:
        """In nats per position."""
        return self.objective.loss.item()


@torch.no_grad()
def evaluate_held_out(
    model: Model,
    test: Tensor,
    seed: int,
    rows_at_once: int,
    processes: Processes,
    labels: Tensor | None = None,
) -> HeldOutResult:
    """On the first of the ``test`` examples (m, N), divided among the processes; all get the whole answer. A model that
    was trained with labels is given theirs (m,).
    """
    total = min(EXAMPLES, len(test))
    # The same at every evaluation, so that differences are those of the weights.
    noise = step_generator(seed, TEST)
    masking = model.held_out_draw(total, test.shape[1], model.schedule, noise)
    evidences: list[Evidence] = []
    pairs: list[tuple[DiagonalGaussian, DiagonalGaussian]] = []
    for rows in torch.split(processes.padded_share(total), rows_at_once):
        x0 = test[rows].to(processes.device, torch.int64)
        batch = MaskedBatch.of(x0, masking[rows].to(x0.device), model.mask_value, BatchPart(rows, total))
        batch = batch if labels is None else replace(batch, labels=labels[rows].to(x0.device))
        # A copy for every chunk: each draws the latents of all examples and takes its own rows.
        evidences.append(model(batch, 1.0, noise.clone_state()))
        if (pair := posteriors(model, batch)) is not None:
            pairs.append(pair)

    def whole(chunks: list[Tensor]) -> Tensor:
        return processes.gather(torch.cat(chunks), total)

    def whole_posterior(chunks: list[DiagonalGaussian]) -> DiagonalGaussian:
        return DiagonalGaussian(whole([c.mean for c in chunks]), whole([c.log_std for c in chunks]))

    parts = ("bound", "reconstruction", "kl")
    evidence = Evidence(*(whole([getattr(evidence, part) for evidence in evidences]) for part in parts))
    health = health_of(*(whole_posterior(list(chunks)) for chunks in zip(*pairs, strict=True))) if pairs else None
    return HeldOutResult(objective(evidence, test.shape[1]), health)
