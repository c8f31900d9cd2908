"""Latents and their priors, as a recipe describes them."""

from collections.abc import Callable

from torch import nn

from vadd.core import CodedLatent, FlowPrior, GaussianLatent, Latent, NoLatent, SharedLatent
from vadd.kinds import Kind
from vadd.networks import CouplingFlow, SequenceFlow, StateReader
from vadd.recipe import LatentSection, Recipe

LATENTS: dict[str, Callable[[LatentSection, nn.Module, int, int], Latent]] = {
    "per-state": lambda section, recognizer, dim, vocab_size: GaussianLatent(recognizer, dim, section.particles),
    "shared": lambda section, recognizer, dim, vocab_size: SharedLatent(recognizer, dim, vocab_size),
}


def build_latent(recipe: Recipe, format: Kind, recognizer: nn.Module | None) -> Latent:
    """What the section ``latent`` describes; a latent of codes alone has no recognition model."""
    section = recipe.latent
    latent: Latent = NoLatent()
    if recognizer is not None:
        latent = LATENTS[section.kind](section, recognizer, section.size(format.shape), format.vocab_size)
    return CodedLatent(section.codes, latent) if section.codes else latent


def build_prior(recipe: Recipe, format: Kind, *, conditional: bool) -> FlowPrior:
    """An untrained flow over z; ``conditional`` gives it a reader of states, a network like the recognition model."""
    section, settings, dim = recipe.latent, recipe.latent.flow, recipe.latent.size(format.shape)
    size = {"transforms": settings.transforms, "width": settings.width}

    def reader(numbers: int, share: int | None = None) -> StateReader | None:
        """It writes two contexts' worth of ``numbers``, as a recognition model writes means and log-stds."""
        if not conditional:
            return None
        return StateReader(recipe.network.build_recognizer(format, numbers), share)

    # Labels are one more thing to read, with a place for none.
    classes = len(format.labels or ())
    labels = classes + 1 if classes else 0
    if section.per == "position":
        positions, read = dim // section.dim, 2 * section.dim * conditional
        sequence_flow = SequenceFlow(positions, section.dim, context=read + labels, **size)
        return FlowPrior(sequence_flow, reader(dim, section.dim), classes, positions=positions)
    half = -(-settings.context // 2)
    flow = CouplingFlow(dim, context=2 * half * conditional + labels, components=settings.components, **size)
    return FlowPrior(flow, reader(half), classes)
