"""Section ``latent``: the latent variable z of VADD; a model without one ignores it."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, PositiveInt

from vadd.recipe.section import Fraction, Section


class LatentSection(Section):
    dim: PositiveInt = 2
    per: Literal["example", "position"] = Field(
        "example", description="whether z has dim numbers in all, as in the paper, or for each position"
    )
    particles: PositiveInt = Field(
        1, description="importance samples in the training bound; 1 is the paper's objective"
    )
    heard_from: Fraction = Field(
        0.0,
        description="the share of positions that must be masked for the latent to be heard; below it the model is MDLM",
    )

    def size(self, shape: Sequence[int]) -> int:
        """The numbers in z for examples of ``shape``."""
        return self.dim * (math.prod(shape) if self.per == "position" else 1)
