"""How to draw samples: one class for Python, recipes, the command line and the studio. Does not import torch."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from vadd.errors import UserError
from vadd.recipe.sections import Sampling
from vadd.words import shortened, suggestion

LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""How pydantic's limits are called in messages."""


class SamplingOptions(Sampling):
    """The options of samples and completions. What is not given, or None, is the run's default, by default what its
    recipe says in the section ``sampling``.
    """

    sampler: Any = "ancestral"
    """A name (:data:`vadd.recipe.SAMPLERS`) or a :class:`vadd.core.Sampler`."""
    grid: Literal["uniform", "cosine"] | tuple[float, ...] = "uniform"  # type: ignore[assignment]
    """A name or the times themselves, rising from 0 to 1."""
    temperature: float = Field(1.0, ge=0)
    """Below 1 sharpens, 0 takes the likeliest value."""
    top_k: int | None = Field(None, ge=1)
    """Draw from the k likeliest values only."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Draw from the likeliest values that reach p only."""
    precision: Literal["float64", "float32"] = "float64"
    """Of the draws; float32 as in the paper's text figure, which sharpens."""
    seed: int = Field(0, ge=0, lt=2**63)
    label: str | int | None = None
    """Of a run that was trained with labels: the label to draw samples of, by name or number."""
    guidance: float = Field(1.0, ge=0)
    """Classifier-free guidance: above 1 the label is followed more closely than the model does by itself."""
    z: Any = None
    """A tensor (n, d): the latents to use instead of draws from the prior, one row for each sample."""
    _sampler_name: str = PrivateAttr("")

    @field_validator("sampler")
    @classmethod
    def _known_sampler(cls, sampler: Any) -> Any:
        names = get_args(Sampling.model_fields["sampler"].annotation)
        if isinstance(sampler, str) and sampler not in names:
            raise ValueError(f"unknown sampler {sampler!r}{suggestion(sampler, names)}; choose from {', '.join(names)}")
        return sampler

    def changed(self, given: Mapping[str, Any]) -> "SamplingOptions":
        """A copy with the options that were ``given``, validated; those that are None stay as they are."""
        chosen = {key: value for key, value in given.items() if value is not None}
        for key in chosen.keys() - {"z"}:  # NumPy's numbers as Python's, arrays of times as lists
            if hasattr(chosen[key], "tolist"):
                chosen[key] = chosen[key].tolist()
        try:
            checked = type(self).model_validate(chosen)
        except ValidationError as error:
            raise UserError(_explained(error.errors()[0])) from None
        return self.model_copy(update={key: getattr(checked, key) for key in chosen})

    def with_sampler(self, sampler: Any, steps: int) -> "SamplingOptions":
        """A copy with the sampler itself in place of its name, and the steps that it takes."""
        chosen = self.model_copy(update={"sampler": sampler, "steps": steps})
        chosen._sampler_name = self.sampler if isinstance(self.sampler, str) else ""
        return chosen

    @property
    def sampler_name(self) -> str:
        return self.sampler if isinstance(self.sampler, str) else self._sampler_name or type(self.sampler).__name__

    @property
    def inexact(self) -> list[str]:
        """Why the samples do not follow the model's own distribution, the one that a bound is about.

        A new z at each step and one z for all steps are two samplers, with a bound each; no bound is about a given z.
        """
        reasons = {
            f"the sampler {self.sampler_name}": not getattr(self.sampler, "exact", True),
            f"temperature {self.temperature:g}": self.temperature != 1,
            f"top-k {self.top_k}": self.top_k is not None,
            f"top-p {self.top_p}": self.top_p not in (None, 1.0),
            "float32 draws (parity mode)": self.precision == "float32",
            f"guidance {self.guidance:g}": self.guidance != 1,
            "latents that were given": self.z is not None,
        }
        return [reason for reason, holds in reasons.items() if holds]

    @property
    def exact(self) -> bool:
        return not self.inexact


def _explained(error: Any) -> str:
    name, value = str(error["loc"][0]), error["input"]
    if error["type"] == "extra_forbidden":
        return f"unknown option {name!r} of sampling{suggestion(name, SamplingOptions.model_fields)}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "literal_error":
        choices = [text.strip("'") for text in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return f"unknown {name} {value!r}{suggestion(str(value), choices)}; choose from {', '.join(choices)}"
    for key, words in LIMITS.items():
        if key in error.get("ctx", {}):
            limit = error["ctx"][key]
            shown = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
            return f"{name} must be {words} {shown}, not {shortened(repr(value))}"
    return f"{name}: {error['msg'].lower()}, not {shortened(repr(value))}"
