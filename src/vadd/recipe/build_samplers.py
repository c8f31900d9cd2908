"""Samplers by the names that users know."""

from typing import get_args

from vadd.core import Ancestral, EntropyBounded, FirstHitting, MaskedDiffusion, Ordered, Parallel, Remask, Sampler
from vadd.errors import UserError
from vadd.recipe import Sampling, suggestion

SAMPLERS: dict[str, Sampler] = {
    "ancestral": Ancestral(),
    "parallel": Parallel(),
    "first-hitting": FirstHitting(),
    "confidence": Ordered("confidence"),
    "margin": Ordered("margin"),
    "entropy": Ordered("entropy"),
    "entropy-bounded": EntropyBounded(),
    "remask": Remask("capped"),
    "remask-rescaled": Remask("rescaled"),
}
"""Those of masked models, by the names that users know, with their default settings."""

SAMPLER_NAMES: tuple[str, ...] = get_args(Sampling.model_fields["sampler"].annotation)
"""Of all models."""


def sampler_named(name: str, model: MaskedDiffusion) -> Sampler:
    """Of those that the ``model`` has."""
    own = SAMPLERS if model.samplers is None else model.samplers
    if name not in own:
        what = "this model does not have the sampler" if name in SAMPLER_NAMES else "unknown sampler"
        raise UserError(f"{what} {name!r}{suggestion(name, own)}; choose from {', '.join(own)}")
    return own[name]
