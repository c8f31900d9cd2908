"""What all settings classes have in common: recipes consist of them, and each stands beside what it sets."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from vadd.parsing import LARGEST_INTEGER

Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Layers = Annotated[int, Field(gt=0, le=1000)]
"""Layers are built one by one, for a plan too: billions would never end."""


class Section(BaseModel):
    """Frozen, and strict about names: an unknown key is an error. Integers have at most 64 bits."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _within_64_bits(cls, value: Any) -> Any:
        if type(value) is int and abs(value) > LARGEST_INTEGER:
            raise ValueError("integers have at most 64 bits")
        return value
