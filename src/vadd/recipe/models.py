"""Models by name: what each is, who described it, and the settings that it brings to a recipe.

``model=NAME`` on the command line brings the settings along; whatever else is said there wins over them. A recipe in a
file states all of its settings itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

ModelName = Literal["vadd", "mdlm", "ar"]


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    label: str
    """In tables and figures."""
    about: str
    """One line."""
    paper: str
    latent: bool = False
    """Whether the section ``latent`` of the recipe counts."""
    chosen_steps: bool = True
    """Whether the number of sampling steps is a choice."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Sections and what they hold, laid over those of a recipe."""
    networks: Mapping[str, Any] | None = None
    """The section ``network`` to fall back to where the recipe's is of another kind than those of ``network_kinds``."""
    network_kinds: tuple[str, ...] = ()
    """None stands for all."""


SMALL_TRANSFORMER = {"kind": "short-transformer", "heads": 4, "convolution": 7, "denoiser": {"width": 64, "blocks": 3}}

MODELS: dict[ModelName, ModelFacts] = {
    "vadd": ModelFacts(
        label="VADD",
        about="masked diffusion whose denoiser has a latent variable",
        paper="Variational Autoencoding Discrete Diffusion",
        latent=True,
    ),
    "mdlm": ModelFacts(
        label="MDLM",
        about="masked diffusion: positions that are revealed together are drawn independently",
        paper="Sahoo et al. 2024, arXiv 2406.07524",
    ),
    "ar": ModelFacts(
        label="AR",
        about="autoregressive transformer: one position after the other, exact likelihood",
        paper="the autoregressive rows of the tables of masked diffusion papers",
        chosen_steps=False,
        networks=SMALL_TRANSFORMER,
        network_kinds=("transformer", "short-transformer"),
    ),
}
"""In the order in which they are listed."""

assert tuple(MODELS) == get_args(ModelName), "every model has an entry"


def with_model(content: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The ``content`` of a recipe with the settings that ``model`` brings; unknown names are left to validation."""
    facts = MODELS.get(model)  # type: ignore[call-overload]  # any word may stand on the command line
    new = dict(content) | {"model": model}
    if facts is None:
        return new
    if facts.network_kinds and new["network"]["kind"] not in facts.network_kinds:
        new["network"] = facts.networks
    return _laid_over(new, facts.settings)


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return dict(base) | {
        key: _laid_over(base[key], value) if isinstance(value, Mapping) else value for key, value in changes.items()
    }
