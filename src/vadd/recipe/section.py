"""What all sections of a recipe have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """Frozen, and strict about names: an unknown key is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
