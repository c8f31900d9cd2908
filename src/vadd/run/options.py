"""How to sample: options with names, and settings that fit a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, get_type_hints

from torch import Tensor

from vadd.core import MaskedDiffusion, Sampler, TokenSampler, step_grid
from vadd.core.samplers import Grid
from vadd.core.sampling import LatentPolicy, check_policy
from vadd.errors import UserError
from vadd.recipe import Sampling, suggestion
from vadd.recipe.building import sampler_named
from vadd.run.effort import check_steps


class SamplingOptions(TypedDict, total=False):
    """The same for samples and completions, in Python and on the command line; what is left out, or None, is the
    recipe's.
    """

    steps: int | None
    """With a list of times one less than these, for the first-hitting sampler one for each position."""
    seed: int
    """By default 0."""
    sampler: str | Sampler | None
    """One of :data:`vadd.recipe.building.SAMPLERS` by name, or one with settings of its own."""
    grid: Grid | None
    """``uniform``, ``cosine`` or the times themselves, rising from 0 to 1."""
    latent: LatentPolicy | Tensor | None
    """``resample``, ``fixed``, or the latents to use instead of the prior's, one row for each sample: (n, d)."""
    token_sampler: TokenSampler | None
    """Temperature, top-k, top-p and precision of the draws."""
    candidates: int | None
    """For completions with one z: latents drawn for each, of which one is kept by the likelihood of what is known. Of
    no use to a prior that reads what is known, and to a new z at each step.
    """
    label: str | int | None
    """Of a run that has learnt from labels: the one to draw samples of, by name or number."""
    guidance: float | None
    """Classifier-free guidance: above 1 the label is followed more closely than the model would by itself."""


@dataclass(frozen=True)
class SamplingSettings:
    """Options that fit the model, with nothing left open."""

    steps: int
    seed: int
    sampler: Sampler
    grid: Grid
    latent: LatentPolicy | Tensor
    token_sampler: TokenSampler
    candidates: int = 1
    guidance: float = 1.0

    @property
    def exact(self) -> bool:
        """Whether the samples follow the model's own distribution, the one that a bound is about.

        A new z at each step and one z for all steps are two samplers, with a bound each; no bound is about a given z.
        """
        own = self.guidance == 1 and not isinstance(self.latent, Tensor)
        return self.sampler.exact and self.token_sampler.exact and own


def resolve(model: MaskedDiffusion, defaults: Sampling, **options: Any) -> SamplingSettings:
    """Fill what is open with the recipe's ``defaults``; see :class:`SamplingOptions`."""
    known = get_type_hints(SamplingOptions)
    for name in options:
        if name not in known:
            raise UserError(f"unknown option {name!r} of sampling{suggestion(name, known)}")
    given = {name: value for name, value in options.items() if value is not None}
    sampler, grid = choose_sampler(model, defaults, given.get("sampler"), given.get("grid"))
    steps = given.get("steps", default_steps(model.positions, defaults, sampler, grid))
    sampler.check(model.positions, steps)
    check_steps(steps)
    if sampler.uses_grid:
        # Refuses a grid that does not fit the steps, before anything is drawn.
        step_grid(steps, grid)
    latent = given.get("latent", defaults.latent_policy)
    if isinstance(latent, str):
        check_policy(latent)
    candidates = given.get("candidates", defaults.candidates)
    if candidates < 1:
        raise UserError(f"the number of candidates must be at least 1, not {candidates}")
    return SamplingSettings(
        steps,
        given.get("seed", 0),
        sampler,
        grid,
        latent,
        given.get("token_sampler", TokenSampler()),
        candidates,
        model.guidance,
    )


def default_steps(positions: int, defaults: Sampling, sampler: Sampler, grid: Grid) -> int:
    """The recipe's, unless the grid or the sampler leave no choice."""
    if sampler.uses_grid and not isinstance(grid, str):
        return len(grid) - 1
    return sampler.default_steps(positions, defaults.steps)


def possible_steps(model: MaskedDiffusion, defaults: Sampling, wanted: Sequence[int]) -> list[int]:
    """Of the ``wanted`` numbers of steps those that the sampler can take; where it can take none, its own."""
    sampler, _ = choose_sampler(model, defaults)
    found = sorted({sampler.default_steps(model.positions, steps) for steps in wanted})
    return [steps for steps in wanted if steps in found] or found[:1]


def choose_sampler(
    model: MaskedDiffusion, defaults: Sampling, sampler: str | Sampler | None = None, grid: Grid | None = None
) -> tuple[Sampler, Grid]:
    """Sampler and grid, the recipe's unless given; the ``model`` says which sampler has that name. A grid for a sampler
    without one is refused, not ignored.
    """
    named = defaults.sampler if sampler is None else sampler
    chosen = sampler_named(named, model) if isinstance(named, str) else named
    if grid is not None and not chosen.uses_grid:
        name = named if isinstance(named, str) else type(named).__name__
        raise UserError(f"the sampler {name} has no grid of times; leave the grid out")
    return chosen, defaults.grid if grid is None else grid
