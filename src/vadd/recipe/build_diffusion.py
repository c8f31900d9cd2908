"""Mask schedules and how training draws masks, by the names that recipes give them."""

from collections.abc import Callable

from vadd.core import (
    CosineSchedule,
    EvenWeights,
    ExactCount,
    IidTimes,
    Levels,
    LinearSchedule,
    MaskDraw,
    PolynomialSchedule,
    Schedule,
    StepTimes,
    StratifiedTimes,
)
from vadd.recipe import Diffusion, Recipe

SCHEDULES: dict[str, Callable[[Diffusion], Schedule]] = {
    "linear": lambda diffusion: LinearSchedule(),
    "cosine": lambda diffusion: CosineSchedule(),
    "polynomial": lambda diffusion: PolynomialSchedule(diffusion.power),
}

MASK_DRAWS: dict[str, Callable[[Diffusion], MaskDraw]] = {
    "iid": lambda diffusion: IidTimes(),
    "stratified": lambda diffusion: StratifiedTimes(),
    "exact-count": lambda diffusion: ExactCount(),
    "steps": lambda diffusion: StepTimes(tuple(diffusion.steps.items())),
    "levels": lambda diffusion: Levels(diffusion.levels, diffusion.auxiliary),
}

DRAWS_OF_THE_INTEGRAL = ("iid", "stratified", "exact-count")
WEIGHT_POWERS = {"integral": 1.0, "root": 0.5, "even": 0.0}


def build_schedule(diffusion: Diffusion) -> Schedule:
    return SCHEDULES[diffusion.schedule](diffusion)


def build_mask_draw(recipe: Recipe) -> MaskDraw:
    """How training draws masks, and what they weigh."""
    diffusion = recipe.diffusion
    draw = MASK_DRAWS[recipe.mask_draw](diffusion)
    if diffusion.weighting != "integral" and recipe.mask_draw in DRAWS_OF_THE_INTEGRAL:
        draw = EvenWeights(draw, WEIGHT_POWERS[diffusion.weighting])
    return draw
