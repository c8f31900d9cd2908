"""Models by name: what each is, who described it, and the settings that it brings to a recipe.

``model=NAME`` on the command line brings the settings along; whatever else is said there wins over them. A recipe in a
file states all of its settings itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vadd.networks import NETWORKS

ModelName = Literal["vadd", "mdlm", "md4", "genmd4", "radd", "d3pm", "sedd", "edlm", "udlm", "vadd-uniform", "ar"]


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    label: str
    """In tables and figures."""
    about: str
    """One line."""
    paper: str
    latent: bool = False
    """Whether the section ``latent`` of the recipe counts."""
    options: str = ""
    """What the command that trains it must say besides."""
    chosen_steps: bool = True
    """Whether the number of sampling steps is a choice."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Sections and what they hold, laid over those of a recipe."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the section ``diffusion`` that must have one of these values."""
    sees_time: bool | None = None
    """Whether the denoiser is to see t; None: what the recipe says."""
    networks: Mapping[str, Any] | None = None
    """The section ``network`` to fall back to where the recipe's is of another kind than those of ``network_kinds``."""
    network_kinds: tuple[str, ...] = ()
    """None stands for all."""

    def described(self) -> dict[str, Any]:
        """For listings."""
        return {"label": self.label, "about": self.about, "paper": self.paper, "latent": self.latent}

    def command(self, name: str, recipe: str) -> str:
        """The training of a ``recipe``."""
        return f"vadd train {recipe} model={name}{self.options}"


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
    "md4": ModelFacts(
        label="MD4",
        about="MDLM with a cosine schedule, evenly spread times and time input",
        paper="Shi et al. 2024, arXiv 2406.04329",
        settings={"diffusion": {"schedule": "cosine", "mask_draw": "stratified", "weighting": "integral"}},
        sees_time=True,
    ),
    "genmd4": ModelFacts(
        label="GenMD4",
        about="MD4 with a schedule learned for each value: 1 - t^w with a w of its own",
        paper="Shi et al. 2024, arXiv 2406.04329",
        settings={
            "diffusion": {
                "schedule": "polynomial",
                "power": 1.0,
                "mask_draw": "stratified",
                "weighting": "integral",
            }
        },
        needs={"mask_draw": ("iid", "stratified"), "weighting": ("integral",)},
        sees_time=True,
    ),
    "radd": ModelFacts(
        label="RADD",
        about="MDLM without time input, trained on all orders: the number of masked positions is drawn, not the time",
        paper="Ou et al. 2024, arXiv 2406.03736",
        settings={"diffusion": {"schedule": "linear", "mask_draw": "exact-count", "weighting": "integral"}},
        sees_time=False,
    ),
    "d3pm": ModelFacts(
        label="D3PM",
        about="absorbing D3PM: 1000 discrete levels, their bound and an auxiliary cross-entropy, time input",
        paper="Austin et al. 2021, arXiv 2107.03006",
        settings={
            "diffusion": {
                "schedule": "linear",
                "mask_draw": "levels",
                "levels": 1000,
                "auxiliary": 0.01,
                "weighting": "integral",
            }
        },
        sees_time=True,
    ),
    "sedd": ModelFacts(
        label="SEDD",
        about="absorbing SEDD: scores instead of probabilities, score entropy, analytic and Euler samplers",
        paper="Lou et al. 2024, arXiv 2310.16834",
        settings={"diffusion": {"schedule": "linear", "mask_draw": "stratified", "weighting": "integral"}},
        sees_time=True,
    ),
    "edlm": ModelFacts(
        label="EDLM",
        about="an energy over whole sequences re-weighs candidates of a finished masked run; not exact",
        paper="Xu et al. 2024, arXiv 2410.21357, whose own likelihoods were withdrawn in 2026",
        options=" --start-from RUN, or without a training: vadd sample RUN --energy AR_RUN",
    ),
    "udlm": ModelFacts(
        label="UDLM",
        about="uniform noise in the mask's place: 1000 levels, every position may change at every step",
        paper="Schiff et al. 2024, arXiv 2412.10193; the uniform rows of D3PM and SEDD",
        settings={
            "diffusion": {
                "noise": "uniform",
                "schedule": "linear",
                "mask_draw": "levels",
                "levels": 1000,
                "auxiliary": 0.0,
                "weighting": "integral",
            }
        },
        sees_time=True,
    ),
    "vadd-uniform": ModelFacts(
        label="VADD, uniform noise",
        about="VADD with uniform noise in the mask's place, trained on the states of few-step samplers",
        paper="the future work of VADD",
        latent=True,
        settings={
            "diffusion": {
                "noise": "uniform",
                "schedule": "linear",
                "mask_draw": "steps",
                "weighting": "integral",
            },
            "latent": {"kind": "per-state", "prior": "normal"},
            "sampling": {"latent_policy": "resample"},
        },
        sees_time=True,
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

COMPARED_ONLY: dict[str, ModelFacts] = {
    "ddpm": ModelFacts(
        label="DDPM",
        about="continuous images, rounded to the data's values: a UNet of diffusers; trained by `vadd reproduce "
        "baselines` alone",
        paper="Ho et al. 2020, arXiv 2006.11239; with few steps DDIM, Song et al. 2020, arXiv 2010.02502",
    )
}
"""What no recipe trains, because it is no model of discrete data; tables show it beside those that are."""

EVERY_MODEL = {str(name): facts for name, facts in MODELS.items()} | COMPARED_ONLY


def with_model(content: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The ``content`` of a recipe with the settings that ``model`` brings; unknown names are left to validation."""
    facts = MODELS.get(model)  # type: ignore[call-overload]  # any word may stand on the command line
    new = dict(content) | {"model": model}
    if facts is None:
        return new
    if facts.network_kinds and new["network"]["kind"] not in facts.network_kinds:
        new["network"] = facts.networks
    network = NETWORKS.get(new["network"]["kind"])
    if facts.sees_time is not None and network is not None and network.time_key is not None:
        value: Any = network.usual_time_features if facts.sees_time else 0
        for key in reversed(network.time_key.split(".")):
            value = {key: value}
        new["network"] = _laid_over(new["network"], value)
    return _laid_over(new, facts.settings)


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    new = dict(base)
    for key, value in changes.items():
        new[key] = _laid_over(base.get(key, {}), value) if isinstance(value, Mapping) else value
    return new
