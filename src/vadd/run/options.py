"""How to draw samples: one class for Python, recipes, the command line and the studio. Does not import torch."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from vadd.errors import UserError
from vadd.recipe.sections import Sampling
from vadd.settings import explained, represented, unknown_option
from vadd.words import suggestion


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
    """Of a sampler that has taken the place of its name."""

    @field_validator("sampler")
    @classmethod
    def _known_sampler(cls, sampler: Any) -> Any:
        names = get_args(Sampling.model_fields["sampler"].annotation)
        if not hasattr(sampler, "uses_grid") and sampler not in names:
            near = suggestion(str(sampler), names)
            raise ValueError(f"unknown sampler {represented(sampler)}{near}; choose from {', '.join(names)}")
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
            first = error.errors()[0]
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                raise UserError(unknown_option(name, "sampling", type(self).model_fields)) from None
            raise UserError(explained(first, name, first["input"])) from None
        return self.model_copy(update={key: getattr(checked, key) for key in chosen})

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

    def inexact_completions(self, *, latent: bool) -> list[str]:
        """Why completions do not follow the law of the sampler that starts from what is known. With one z that is the
        law in which z follows p(z | known), and choosing among few draws only approaches it.
        """
        if not latent or self.latent_policy != "fixed" or self.z is not None:
            return self.inexact
        weighed = f"z is one of {self.candidates} draws, chosen by what is known"
        return [*self.inexact, weighed if self.candidates > 1 else "z is one draw, not weighed by what is known"]
