"""Likelihood bounds of a run over a data set, with standard errors, in every unit people use.

Numbers are *negative* log-likelihoods: smaller is better, and a valid one cannot lie below the entropy of the data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vadd.core.bounds import elbo, k_sample_delbo, step_bound
from vadd.core.health import latent_health
from vadd.core.latent import NoLatent, Particles
from vadd.core.sampler import Grid
from vadd.errors import UserError
from vadd.evaluation.progress import Progress, silent
from vadd.run import Run
from vadd.sampling import choose
from vadd.training.randomness import BOUNDS, HEALTH, step_generator

BATCH = 1000
HEALTH_EXAMPLES = 10_000
LARGEST_EXPONENT = 700.0
NOT_A_BOUND = "not a likelihood bound"


@dataclass(frozen=True)
class NegativeLogLikelihood:
    nats: float
    """Per example."""
    stderr: float | None
    """Of ``nats``, over examples; the randomness of the estimate is part of it. None for a single example."""
    bpd: float
    """Bits per position."""
    perplexity: float | None
    """exp(nats per position); None where that is beyond a float."""
    examples: int
    valid: bool
    """Whether it bounds the negative log-likelihood from above."""
    excess: float | None = None
    """Nats above the true distribution's own score on the same examples, where that is known.

    In expectation at least 0 if valid.
    """
    excess_stderr: float | None = None

    @classmethod
    def from_draws(
        cls, log_likelihood: Tensor, positions: int, *, valid: bool, log_truth: Tensor | None = None
    ) -> "NegativeLogLikelihood":
        nats, stderr = mean_and_error(-log_likelihood)
        per_position = nats / positions
        perplexity = math.exp(per_position) if per_position < LARGEST_EXPONENT else None
        excess = (None, None) if log_truth is None else mean_and_error(log_truth - log_likelihood)
        return cls(nats, stderr, per_position / math.log(2), perplexity, len(log_likelihood), valid, *excess)


def mean_and_error(values: Tensor) -> tuple[float, float | None]:
    """The mean and its standard error, which takes two values at least."""
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else None
    return float(values.mean()), error


@dataclass(frozen=True)
class BoundSettings:
    particles: Particles
    steps: Sequence[int] = (1, 2, 4, 8, 16)
    delbo_draws: int = 0
    """Masks per example for the paper's DELBO; 0 leaves it out."""
    limit: int | None = None
    """How many examples to judge by; all by default."""
    grid: Grid | None = None
    """The recipe's by default."""
    seed: int = 0

    def for_one_latent(self) -> "BoundSettings":
        """What of it holds when one latent is kept for all steps: one step."""
        return replace(self, steps=[count for count in self.steps if count == 1], delbo_draws=0)

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UserError(f"the number of examples to judge by must be at least 1, not {self.limit}")


def measure_bounds(
    run: Run, examples: Tensor, settings: BoundSettings, progress: Progress = silent
) -> dict[str, object]:
    """The entries ``bounds`` and ``delbo`` (for MDLM ``elbo``) of an evaluation's report."""
    x0 = check_examples(run, examples)[: settings.limit]
    sampler, grid = choose(run.recipe.sampling, grid=settings.grid)
    if run.recipe.sampling.latent_policy == "fixed" and max(settings.steps, default=1) > 1 and has_latent(run):
        raise UserError("the step bound is for latent_policy=resample; this recipe keeps one latent for all steps")
    log_truth = true_log_probability(run, x0)

    def over_batches(what: str, estimate: Callable[..., Tensor], *, valid: bool) -> dict[str, object]:
        draws: list[Tensor] = []
        progress(what, 0, len(x0))
        for number, batch in enumerate(torch.split(x0, BATCH)):
            generator = step_generator(settings.seed, BOUNDS, number)
            draws.append(estimate(x0=batch.to(run.model.device), generator=generator))
            progress(what, sum(map(len, draws)), len(x0))
        found = NegativeLogLikelihood.from_draws(torch.cat(draws), x0.shape[1], valid=valid, log_truth=log_truth)
        return asdict(found)

    particles = replace(settings.particles, rows_per_call=2 * run.recipe.network.rows_at_once)
    bounds = []
    for steps in settings.steps:
        estimate = partial(step_bound, run.model, steps=steps, particles=particles, grid=grid, sampler=sampler)
        found = over_batches(f"step bound, T = {steps}", estimate, valid=True)
        bounds.append({"steps": steps, **found, "particles": particles.count})
    report: dict[str, object] = {"bounds": bounds}
    if settings.delbo_draws and has_latent(run):
        estimate = partial(k_sample_delbo, run.model, particles=particles, draws=settings.delbo_draws)
        found = over_batches(f"DELBO ({NOT_A_BOUND})", estimate, valid=False)
        report["delbo"] = {**found, "particles": particles.count, "draws": settings.delbo_draws, "warning": NOT_A_BOUND}
    elif settings.delbo_draws:
        found = over_batches("ELBO", partial(elbo, run.model, draws=settings.delbo_draws), valid=True)
        report["elbo"] = {**found, "draws": settings.delbo_draws}
    return report


def true_log_probability(run: Run, x0: Tensor) -> Tensor | None:
    """log p(x0) under the data's own distribution, where it is known: (n,) float64."""
    if run.data.distribution is None:
        return None
    probability = run.data.distribution()[tuple(x0.T.numpy())]
    # Examples from elsewhere may be impossible under the data's distribution; then there is nothing to compare with.
    return torch.from_numpy(np.log(probability)) if probability.min() > 0 else None


def health_report(run: Run, examples: Tensor) -> dict[str, object] | None:
    """The entry ``latent`` of an evaluation's report."""
    x0 = check_examples(run, examples)[:HEALTH_EXAMPLES].to(run.model.device)
    health = latent_health(run.model, x0, step_generator(0, HEALTH))
    return (
        None
        if health is None
        else {
            **asdict(health),
            "kl_per_dimension": list(health.kl_per_dimension),
            "verdict": health.verdict,
        }
    )


def has_latent(run: Run) -> bool:
    return not isinstance(run.model.latent, NoLatent)


def check_examples(run: Run, examples: Tensor) -> Tensor:
    """The examples, if the run's model can read them."""
    positions, values = run.model.positions, run.model.values
    if examples.ndim != 2 or len(examples) == 0:
        raise UserError(f"examples have the shape (n, {positions}) with n at least 1, not {tuple(examples.shape)}")
    if examples.shape[1] != positions:
        raise UserError(f"the examples have {examples.shape[1]} positions, the run's model {positions}")
    if int(examples.max()) >= values or int(examples.min()) < 0:
        wrong = int(examples.max()) if int(examples.max()) >= values else int(examples.min())
        raise UserError(f"the examples hold the value {wrong}, the run's model knows 0..{values - 1}")
    return examples.long()
