"""Section ``sampling``: how a run is sampled where nothing else is said. It has no part in what the model learns."""

from typing import Literal

from pydantic import Field, PositiveInt

from vadd.settings import CountingSection


class Sampling(CountingSection):
    steps: PositiveInt = Field(1, description="sampling steps; first-hitting takes one for each position")
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
    candidates: PositiveInt = Field(
        32,
        description="for completions with one z: latents drawn for each, of which one is kept by the likelihood of "
        "what is known",
    )
