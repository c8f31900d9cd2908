"""Section ``sampling``: how a run is sampled where nothing else is said. It has no part in what the model learns."""

from typing import Literal

from pydantic import Field

from vadd.settings import Section

MOST_STEPS = 1 << 24
"""The plan of a sample takes 16 bytes for each step: 268 MB."""
MOST_CANDIDATES = 1 << 20


class Sampling(Section):
    steps: int = Field(1, ge=1, le=MOST_STEPS, description="sampling steps; first-hitting takes one for each position")
    sampler: Literal[
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
    ] = Field("ancestral", description="the first three draw from the model's own distribution and have bounds")
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
