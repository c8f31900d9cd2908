"""Whole models: networks, schedule and latent put together."""

from collections.abc import Callable
from typing import Any

import torch

from vadd.core import LabelledLatent, Latent, MaskedDiffusion, NoLatent
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.models import Autoregressive, LearnedEnergy, ScoreEntropy, UniformDiffusion, ValueRates
from vadd.networks import CustomNetworks, ResidualDenoiser
from vadd.recipe import Recipe
from vadd.recipe.build_diffusion import build_schedule
from vadd.recipe.build_latents import build_latent

KERNELS: dict[str, type[MaskedDiffusion]] = {"mask": MaskedDiffusion, "uniform": UniformDiffusion}
"""What noise does to a value."""


def build_model(recipe: Recipe, format: Kind, own: CustomNetworks | None = None) -> MaskedDiffusion:
    """The untrained model for examples of this ``format``, initialised from the recipe's seed without touching the
    global generator. It does not score the pad of the format. Networks of one's ``own`` come as they are.
    """
    if own is not None:
        return _of_own_networks(recipe, format, own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        _check_sizes(recipe, format)
        return MODEL_BUILDERS[recipe.model](recipe, format)


def _check_sizes(recipe: Recipe, format: Kind) -> None:
    """Only models that mask know positions of different sizes: other noise would show values that are not there."""
    masks = MODEL_BUILDERS[recipe.model] in (_with_latent, _without_latent) and recipe.diffusion.noise == "mask"
    if (format.sizes is not None or format.unknowns) and not masks:
        raise UserError(f"model={recipe.model} does not go with tables, whose columns have different numbers of values")
    if format.labels is not None and not masks:
        raise UserError(f"model={recipe.model} does not go with data.labels=true")


def _about(format: Kind) -> dict[str, Any]:
    """What a model must know of its examples beside their shape."""
    return {"pad": format.pad, "sizes": format.sizes, "unknowns": format.unknowns}


def _with_latent(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    section, shape = recipe.latent, format.shape
    # First the denoiser, then the recognition model: the order is part of what a seed means.
    denoiser = recipe.network.build_denoiser(format, section.width(shape) + len(format.labels or ()))
    dim = section.size(shape)
    recognizer = recipe.network.build_recognizer(format, dim) if dim else None
    latent = build_latent(recipe, format, recognizer)
    latent = _labelled(latent, recipe, format)
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _labelled(latent: Latent, recipe: Recipe, format: Kind) -> Latent:
    """With the labels of the format beside it, where there are any."""
    if format.labels is None:
        return latent
    # A z of each position says what is there and nothing of the whole; where a value is known it says nothing at all.
    recognized = recipe.latent.per == "example"
    dropout = recipe.training.label_dropout
    return LabelledLatent(len(format.labels), latent, dropout, format.label_shares, recognized=recognized)


def _of_own_networks(recipe: Recipe, format: Kind, own: CustomNetworks) -> MaskedDiffusion:
    denoiser, recognizer = own.copies()
    latent = build_latent(recipe, format, recognizer) if recipe.has_latent else None
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _without_latent(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    denoiser = recipe.network.build_denoiser(format, len(format.labels) if format.labels else None)
    latent = _labelled(NoLatent(), recipe, format)
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _scores(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    denoiser = recipe.network.build_denoiser(format, None)
    if isinstance(denoiser, ResidualDenoiser):
        denoiser.differences_only = False
    return ScoreEntropy(denoiser, build_schedule(recipe.diffusion), pad=format.pad)


def _value_rates(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    denoiser = recipe.network.build_denoiser(format, None)
    return ValueRates(denoiser, build_schedule(recipe.diffusion), pad=format.pad)


def _energy(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    """The energy is a network like the recognition model: it reads x0 and xt, and writes one number."""
    denoiser = recipe.network.build_denoiser(format, None)
    numbers = format.positions if recipe.network.divides_latent else 1
    energy = recipe.network.build_recognizer(format, numbers)
    return LearnedEnergy(denoiser, build_schedule(recipe.diffusion), energy, format.pad)


def _autoregressive(recipe: Recipe, format: Kind) -> MaskedDiffusion:
    return Autoregressive(recipe.network.build_causal(format), build_schedule(recipe.diffusion), pad=format.pad)


MODEL_BUILDERS: dict[str, Callable[[Recipe, Kind], MaskedDiffusion]] = {
    "vadd": _with_latent,
    "mdlm": _without_latent,
    "md4": _without_latent,
    "genmd4": _value_rates,
    "radd": _without_latent,
    "d3pm": _without_latent,
    "sedd": _scores,
    "edlm": _energy,
    "udlm": _without_latent,
    "vadd-uniform": _with_latent,
    "ar": _autoregressive,
}
