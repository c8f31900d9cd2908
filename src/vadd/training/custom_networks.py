"""Networks of somebody's own: whether they fit, and the recipe that a run with them has."""

from typing import Any

from vadd.core.checking import check, latent_size
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.networks import CustomNetworks
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.recipe.recipe import validate

MODELS = ("vadd", "mdlm")


def with_own_networks(recipe: Recipe, own: CustomNetworks) -> Recipe:
    """The recipe of a run with these networks; refused where they break the protocol."""
    if recipe.model not in MODELS:
        raise UserError(f"networks of your own go with model={' or '.join(MODELS)}, not {recipe.model}")
    section = recipe.latent
    # Codes alone need no recognition model.
    needs_recognizer = recipe.has_latent and section.dim > 0
    if needs_recognizer and own.recognizer is None:
        raise UserError(
            "model=vadd needs a recognition model beside the denoiser: recognizer=..., for example "
            "vadd.networks.SiameseMlpRecognizer(positions, vocab_size, MlpSettings(), latent_dim=...); "
            "model='mdlm' needs none"
        )
    if not needs_recognizer and own.recognizer is not None:
        raise UserError("a recognition model is for model=vadd with a latent.dim above 0")
    _refuse_broken(recipe, own)
    changes: dict[str, Any] = {"network": own.section().model_dump()}
    if own.recognizer is not None:
        size = latent_size(own.recognizer, *_sizes(own))
        changes["latent"] = section.model_dump(mode="json") | {"dim": size, "per": "example"}
    return validate(recipe.model_dump(mode="json") | changes, recipe.name)


def _refuse_broken(recipe: Recipe, own: CustomNetworks) -> None:
    codes = recipe.latent.codes if recipe.has_latent else 0
    if not codes:
        found = check(own.denoiser, own.recognizer)
    elif own.recognizer is None:
        found = check(own.denoiser, latent_dim=codes)
    else:  # what the denoiser is given is longer than what the recognition model writes
        found = check(own.denoiser, latent_dim=codes + latent_size(own.recognizer, *_sizes(own)))
    if not found.ok:
        more = f" (and {len(found.problems) - 1} more, see vadd.check)" if len(found.problems) > 1 else ""
        raise UserError(f"{type(own.denoiser).__name__} cannot be trained: {found.problems[0]}{more}")
    for note in found.notes:
        warn(note)


def _sizes(own: CustomNetworks) -> tuple[int, int]:
    return int(own.denoiser.positions), int(own.denoiser.vocab_size)  # type: ignore[arg-type]  # checked before


def check_sizes(own: CustomNetworks, format: Kind) -> None:
    """Refuse networks that are made for other examples."""
    positions, vocab_size = _sizes(own)
    if (positions, vocab_size) != (format.positions, format.vocab_size):
        raise UserError(
            f"the denoiser is made for {positions} positions of {vocab_size} values; the data have "
            f"{format.positions} of {format.vocab_size}"
        )
