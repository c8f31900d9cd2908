"""Section ``diffusion``: the mask schedule, and how training draws and weighs masks."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

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
from vadd.settings import Section

MaskDrawName = Literal["iid", "stratified", "exact-count", "steps", "levels"]
WEIGHT_POWERS = {"integral": 1.0, "root": 0.5, "even": 0.0}


class Diffusion(Section):
    noise: Literal["mask", "uniform"] = Field(
        "mask", description="what takes the place of a value: the mask, or any of the values"
    )
    schedule: Literal["linear", "cosine", "polynomial"] = "linear"
    power: PositiveFloat = Field(2.0, description="of the polynomial schedule")
    mask_draw: MaskDrawName | None = Field(
        None,
        description="the first three draw the integral over t; steps: the states of few-step samplers; levels: those "
        "of one with many steps, as D3PM; by default steps for a shared latent, else exact-count",
    )
    steps: dict[PositiveInt, PositiveFloat] = Field(
        {1: 0.3, 2: 0.2, 4: 0.15, 8: 0.15, 16: 0.1, 32: 0.1},
        description="for mask_draw=steps: numbers of steps, and how often each is trained for",
        min_length=1,
    )
    levels: PositiveInt = Field(1000, description="for mask_draw=levels: how many")
    auxiliary: float = Field(
        0.01, ge=0, description="for mask_draw=levels: weight of D3PM's cross-entropy of x0 beside the bound"
    )
    weighting: Literal["integral", "root", "even"] = Field(
        "integral",
        description="how masks count in training: by w(t) as in the paper, by its root, or all alike; of no meaning "
        "for mask_draw=steps and levels, which train on a bound as it is",
    )

    def build_schedule(self) -> Schedule:
        if self.schedule == "polynomial":
            return PolynomialSchedule(self.power)
        return LinearSchedule() if self.schedule == "linear" else CosineSchedule()

    def build_mask_draw(self, name: MaskDrawName) -> MaskDraw:
        """How training draws masks, and what they weigh."""
        if name == "steps":
            return StepTimes(tuple(self.steps.items()))
        if name == "levels":
            return Levels(self.levels, self.auxiliary)
        draw: MaskDraw = {"iid": IidTimes, "stratified": StratifiedTimes, "exact-count": ExactCount}[name]()
        return draw if self.weighting == "integral" else EvenWeights(draw, WEIGHT_POWERS[self.weighting])
