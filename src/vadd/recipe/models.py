"""Models by name: what each is, who described it, the settings that it brings to a recipe, and how it is built.

``model=NAME`` on the command line brings the settings along; other keys given there win over them. A recipe in a file
states all of its settings itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import AfterValidator
from torch import nn

from vadd.core import LabelledLatent, MaskedDiffusion, Model, NoLatent
from vadd.errors import refuse_if
from vadd.kinds import Kind
from vadd.models import Autoregressive, LearnedEnergy, ScoreEntropy, UniformDiffusion, ValueRates
from vadd.networks import NETWORKS, CustomNetworks
from vadd.networks.perceptrons import ResidualDenoiser

if TYPE_CHECKING:
    from vadd.recipe.recipe import Recipe

Builder = Callable[["Recipe", Kind], Model]


def build_model(recipe: "Recipe", format: Kind, own: CustomNetworks | None = None) -> Model:
    """The untrained model for examples of this ``format``, initialised from the recipe's seed without touching the
    global generator. It does not score the pad of the format. Custom networks are copied as they are.
    """
    build = MODELS[recipe.model].build
    if own is None and not (build is masked_diffusion and recipe.diffusion.noise == "mask"):
        cannot, table = f"model={recipe.model} cannot learn", format.sizes is not None or format.unknowns
        refuse_if(
            (table, f"{cannot} tables: their columns have different numbers of values"),
            (format.labels is not None, f"{cannot} labels: leave out data.labels=true"),
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)  # also for a prior that is trained with custom networks
        return build(recipe, format) if own is None else _assembled(recipe, format, *own.copies())


def masked_diffusion(recipe: "Recipe", format: Kind) -> Model:
    """With a latent, VADD; without, MDLM. Labels are read after z."""
    labels = len(format.labels or ())
    width, dim = 0, 0
    if recipe.has_latent:
        width, dim = recipe.latent.width(format.shape), recipe.latent.size(format.shape)
    # First the denoiser, then the recognition model: the seed of a run depends on the order.
    denoiser = recipe.network.build_denoiser(format, width + labels if recipe.has_latent or labels else None)
    recognizer = recipe.network.build_recognizer(format, dim) if dim else None
    return _assembled(recipe, format, denoiser, recognizer, format.labels)


def _assembled(
    recipe: "Recipe",
    format: Kind,
    denoiser: nn.Module,
    recognizer: nn.Module | None,
    labels: tuple[str, ...] | None = None,
) -> Model:
    latent = recipe.latent.build(recognizer, format) if recipe.has_latent else NoLatent()
    if labels is not None:
        # A z of each position says what is there and nothing of the whole: its recognition model needs no label.
        recognized = recipe.latent.per == "example"
        dropout = recipe.training.label_dropout
        latent = LabelledLatent(len(labels), latent, dropout, format.label_shares, recognized=recognized)
    kind = UniformDiffusion if recipe.diffusion.noise == "uniform" else MaskedDiffusion
    about = {"pad": format.pad, "sizes": format.sizes, "unknowns": format.unknowns}
    return kind(denoiser, recipe.diffusion.build_schedule(), latent, **about)  # type: ignore[arg-type]


def _score_entropy(recipe: "Recipe", format: Kind) -> Model:
    denoiser = recipe.network.build_denoiser(format, None)
    if isinstance(denoiser, ResidualDenoiser):
        denoiser.differences_only = False
    return ScoreEntropy(denoiser, recipe.diffusion.build_schedule(), pad=format.pad)


def _value_rates(recipe: "Recipe", format: Kind) -> Model:
    denoiser = recipe.network.build_denoiser(format, None)
    return ValueRates(denoiser, recipe.diffusion.build_schedule(), pad=format.pad)


def _learned_energy(recipe: "Recipe", format: Kind) -> Model:
    """The energy is a network like the recognition model: it reads x0 and xt, and writes one number."""
    denoiser = recipe.network.build_denoiser(format, None)
    numbers = format.positions if recipe.network.divides_latent else 1
    energy = recipe.network.build_recognizer(format, numbers)
    return LearnedEnergy(denoiser, recipe.diffusion.build_schedule(), energy, format.pad)


def _autoregressive(recipe: "Recipe", format: Kind) -> Model:
    return Autoregressive(recipe.network.build_causal(format), recipe.diffusion.build_schedule(), pad=format.pad)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    label: str
    """In tables and figures."""
    about: str
    """One line."""
    paper: str
    build: Builder = masked_diffusion
    latent: bool = False
    """Whether the section ``latent`` of the recipe is used."""
    objective: str = "The objective is the training loss on held-out examples."
    """What the held-out loss of a run means, for its model card."""
    options: str = ""
    """What the command that trains it needs besides."""
    chosen_steps: bool = True
    """Whether the number of sampling steps is a choice."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Sections and what they hold, laid over those of a recipe."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys of the section ``diffusion`` that must have one of these values."""
    sees_time: bool | None = None
    """Whether the denoiser is to see t; None: what the recipe says."""
    networks: Mapping[str, Any] | None = None
    """The section ``network`` to use where the recipe's is not one of ``network_kinds``."""
    network_kinds: tuple[str, ...] = ()
    """Empty: all."""


ELBO = (
    "The objective is an estimate of the ELBO on held-out examples, as a loss: the negative log-likelihood is at most "
    "that, up to the noise of the estimate."
)
DELBO = (
    "The objective is the paper's DELBO on held-out examples, at full KL weight; with several particles its "
    "importance-weighted form. It is **not** a bound of the likelihood and does not compare with likelihoods of other "
    "models."
)
MD4 = {"schedule": "cosine", "mask_draw": "stratified", "weighting": "integral"}
LEVELS = {"schedule": "linear", "mask_draw": "levels", "levels": 1000, "weighting": "integral"}
SMALL_TRANSFORMER = {"kind": "short-transformer", "heads": 4, "convolution": 7, "denoiser": {"width": 64, "blocks": 3}}

MODELS: dict[str, ModelEntry] = {
    "vadd": ModelEntry(
        label="VADD",
        about="masked diffusion whose denoiser has a latent variable",
        paper="Variational Autoencoding Discrete Diffusion",
        latent=True,
        objective=DELBO,
    ),
    "mdlm": ModelEntry(
        label="MDLM",
        about="masked diffusion: positions that are revealed together are drawn independently",
        paper="Sahoo et al. 2024, arXiv 2406.07524",
        objective=ELBO,
    ),
    "md4": ModelEntry(
        label="MD4",
        about="MDLM with a cosine schedule, evenly spread times and time input",
        paper="Shi et al. 2024, arXiv 2406.04329",
        objective=ELBO,
        settings={"diffusion": MD4},
        sees_time=True,
    ),
    "genmd4": ModelEntry(
        label="GenMD4",
        about="MD4 with a schedule learned for each value: 1 - t^w with a w of its own",
        paper="Shi et al. 2024, arXiv 2406.04329",
        build=_value_rates,
        objective=ELBO,
        settings={"diffusion": MD4 | {"schedule": "polynomial", "power": 1.0}},
        needs={"mask_draw": ("iid", "stratified"), "weighting": ("integral",)},
        sees_time=True,
    ),
    "radd": ModelEntry(
        label="RADD",
        about="MDLM without time input, trained on all orders: the number of masked positions is drawn, not the time",
        paper="Ou et al. 2024, arXiv 2406.03736",
        objective=ELBO,
        settings={"diffusion": {"schedule": "linear", "mask_draw": "exact-count", "weighting": "integral"}},
        sees_time=False,
    ),
    "d3pm": ModelEntry(
        label="D3PM",
        about="absorbing D3PM: 1000 discrete levels, their bound and an auxiliary cross-entropy, time input",
        paper="Austin et al. 2021, arXiv 2107.03006",
        objective="The objective is D3PM's on held-out examples: its bound and an auxiliary cross-entropy of x0.",
        settings={"diffusion": LEVELS | {"auxiliary": 0.01}},
        sees_time=True,
    ),
    "sedd": ModelEntry(
        label="SEDD",
        about="absorbing SEDD: scores instead of probabilities, score entropy, analytic and Euler samplers",
        paper="Lou et al. 2024, arXiv 2310.16834",
        build=_score_entropy,
        objective="The objective is the denoising score entropy on held-out examples.",
        settings={"diffusion": {"schedule": "linear", "mask_draw": "stratified", "weighting": "integral"}},
        sees_time=True,
    ),
    "edlm": ModelEntry(
        label="EDLM",
        about="an energy over whole sequences re-weighs candidates of a finished masked run; not exact",
        paper="Xu et al. 2024, arXiv 2410.21357, whose own likelihoods were withdrawn in 2026",
        build=_learned_energy,
        objective="The objective is the noise-contrastive loss of the energy on held-out examples, **not** a "
        "likelihood.",
        options=" --start-from RUN, or without a training: vadd sample RUN --energy AR_RUN",
    ),
    "udlm": ModelEntry(
        label="UDLM",
        about="uniform noise in the mask's place: 1000 levels, every position may change at every step",
        paper="Schiff et al. 2024, arXiv 2412.10193; the uniform rows of D3PM and SEDD",
        settings={"diffusion": {"noise": "uniform"} | LEVELS | {"auxiliary": 0.0}},
        sees_time=True,
    ),
    "vadd-uniform": ModelEntry(
        label="VADD, uniform noise",
        about="VADD with uniform noise in the mask's place, trained on the states of few-step samplers",
        paper="the future work of VADD",
        latent=True,
        settings={
            "diffusion": {"noise": "uniform", "schedule": "linear", "mask_draw": "steps", "weighting": "integral"},
            "latent": {"kind": "per-state", "prior": "normal"},
            "sampling": {"latent_policy": "resample"},
        },
        sees_time=True,
    ),
    "ar": ModelEntry(
        label="AR",
        about="autoregressive transformer: one position after the other, exact likelihood",
        paper="the autoregressive rows of the tables of masked diffusion papers",
        build=_autoregressive,
        objective="The objective is the exact negative log-likelihood of held-out examples.",
        chosen_steps=False,
        networks=SMALL_TRANSFORMER,
        network_kinds=("transformer", "short-transformer"),
    ),
}
"""In the order in which they are listed."""

COMPARED_ONLY: dict[str, ModelEntry] = {
    "ddpm": ModelEntry(
        label="DDPM",
        about="continuous images, rounded to the data's values: a UNet of diffusers; trained by `vadd reproduce "
        "baselines` alone",
        paper="Ho et al. 2020, arXiv 2006.11239; with few steps DDIM, Song et al. 2020, arXiv 2010.02502",
    )
}
"""Not a model of discrete data, so no recipe trains it; tables compare it with those that are."""

EVERY_MODEL = MODELS | COMPARED_ONLY


def _known(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"choose from {', '.join(MODELS)}, not {name!r}")
    return name


ModelName = Annotated[str, AfterValidator(_known)]


def with_model(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The ``content`` of a recipe with the settings that a model brings; unknown names are left to validation."""
    new = dict(content) | {"model": name}
    model = MODELS.get(name)
    if model is None:
        return new
    if model.network_kinds and new["network"]["kind"] not in model.network_kinds:
        new["network"] = model.networks
    network = NETWORKS[new["network"]["kind"]]
    if model.sees_time is not None and network.time_key is not None:
        value: Any = network.usual_time_features if model.sees_time else 0
        for key in reversed(network.time_key.split(".")):
            value = {key: value}
        new["network"] = merged(new["network"], value)
    return merged(new, model.settings)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes`` laid over it, section by section."""
    new = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(new.get(key), Mapping)
        new[key] = merged(new[key], value) if both else value
    return new
