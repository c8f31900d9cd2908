"""Section ``sampling``: how a run is sampled by default. What the model learns does not depend on it."""

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import Field

from vadd.core import MaskedDiffusion, Model, Sampler
from vadd.errors import UserError
from vadd.settings import Section
from vadd.words import suggestion

MOST_STEPS = 1 << 24
"""The plan of a sample takes 16 bytes for each step: 268 MB."""
MOST_CANDIDATES = 1 << 20

SamplerName = Literal[
    "ancestral",
    "parallel",
    "first-hitting",
    "confidence",
    "margin",
    "entropy",
    "entropy-bounded",
    "remask",
    "remask-rescaled",
    "euler",
    "proposal",
]
SAMPLERS: Mapping[str, Sampler] = MaskedDiffusion.samplers
"""Those of masked models, with their default settings."""


class Sampling(Section):
    steps: int = Field(1, ge=1, le=MOST_STEPS, description="sampling steps; first-hitting takes one for each position")
    sampler: SamplerName = Field(
        "ancestral", description="the first three draw from the model's own distribution and have bounds"
    )
    grid: Literal["uniform", "cosine"] = "uniform"
    latent_policy: Literal["resample", "fixed"] = Field(
        "resample", description="a new z at each step, as in the paper, or one z for all steps"
    )
    candidates: int = Field(
        32,
        ge=1,
        le=MOST_CANDIDATES,
        description="for completions with one z: latents drawn for each, of which one is kept by the likelihood of "
        "what is known",
    )


def sampler_named(name: str, model: Model) -> Sampler:
    """Of those that the ``model`` has."""
    own = model.samplers
    if name not in own:
        what = "this model does not have the sampler" if name in get_args(SamplerName) else "unknown sampler"
        raise UserError(f"{what} {name!r}{suggestion(name, own)}; choose from {', '.join(own)}")
    return own[name]
